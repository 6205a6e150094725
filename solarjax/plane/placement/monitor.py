"""Keeps nodes current: reads their metrics every second, their KV events all the time."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Sequence

from solarjax.plane.errors import Invalid
from solarjax.plane.placement.feed import Feed
from solarjax.plane.placement.nodes import Node
from solarjax.plane.placement.scrape import parse
from solarjax.plane.placement.upstream import Upstream, UpstreamError

POLL_SECONDS = 1.0
_SCRAPE_SECONDS = 2.0
_LOG = logging.getLogger("solarjax.plane.placement")


class Monitor:
    """Background tasks for some nodes; use it as an async context manager.

    Args:
      nodes: to keep current.
      http: client for metrics.
    """

    def __init__(self, nodes: Sequence[Node], http: Upstream):
        self._nodes = nodes
        self._http = http
        self._tasks: list[asyncio.Task[None]] = []
        self._feeds: dict[str, Feed] = {}

    async def __aenter__(self) -> Monitor:
        for node in self._nodes:
            if node.config.events is not None:
                feed = Feed(node.log, node.config.events, node.config.replay, topic=node.config.topic)
                self._feeds[node.name] = feed
                self._tasks.append(asyncio.create_task(self._forever(node, feed), name=f"events of {node.name}"))
            self._tasks.append(asyncio.create_task(self._poll(node), name=f"metrics of {node.name}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def scrape(self, node: Node) -> None:
        """Reads a node's metrics once."""
        before, asked = node.log.restarts, node.now()
        try:
            page = await self._http.get(f"{node.config.url}/metrics", authorization(node), _SCRAPE_SECONDS)
            node.scraped(parse(page), asked)
        except (UpstreamError, TimeoutError, Invalid) as error:
            if not isinstance(error, TimeoutError) or not self._http.behind(_SCRAPE_SECONDS):
                node.unreachable()
        if node.log.wanted is not None or node.log.restarts != before:
            self._wake(node)

    async def reset(self, node: Node) -> bool:
        """Empties a node's prefix cache (engines in development mode only); False if it refuses, as it does when busy.

        The counts are emptied here: an idle engine publishes that with its next step only.
        """
        response = await self._http.post(f"{node.config.url}/reset_prefix_cache", headers=authorization(node))
        async with response:
            done, body = response.status == 200, await response.read()
        if done and body:
            done = json.loads(body).get("success", True)
        if done:
            node.log.emptied()
        return bool(done)

    def _wake(self, node: Node) -> None:
        feed = self._feeds.get(node.name)
        if feed is not None:
            feed.wake()

    async def _poll(self, node: Node) -> None:
        while True:
            await self.scrape(node)
            await asyncio.sleep(POLL_SECONDS)

    async def _forever(self, node: Node, feed: Feed) -> None:
        while True:
            try:
                await feed.run()
            except Exception:
                # A feed that stopped knows nothing; it may not leave behind counts that look current.
                _LOG.exception("the event feed of node %s failed", node.name)
            node.log.doubt()
            await asyncio.sleep(POLL_SECONDS)


def authorization(node: Node) -> dict[str, str]:
    """The header with the engine's own token, if it has one."""
    token = os.environ.get(node.config.api_key_env) if node.config.api_key_env else None
    return {"Authorization": f"Bearer {token}"} if token else {}
