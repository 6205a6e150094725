"""One engine node as the plane knows it: configuration, health, what it holds, how fast and how busy it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from solarjax.plane.errors import Invalid
from solarjax.plane.placement.blocks import BlockHasher
from solarjax.plane.placement.breaker import Breaker
from solarjax.plane.placement.config import NodeConfig
from solarjax.plane.placement.eventlog import EventLog
from solarjax.plane.placement.latency import Latency
from solarjax.plane.placement.rates import Decayed
from solarjax.plane.placement.scrape import Sample

DOWN_SECONDS = 3.0
"""A node that has not answered for this long is down, and nothing is believed about it."""
LONGEST_RESIDENCY = 3600.0
_LAG_SECONDS = 0.1
"""A request that ended so shortly before metrics were asked for may still be counted in them."""
Health = Literal["unknown", "up", "suspect", "down"]


@dataclass
class InFlight:
    """A request on its way. `uncached` prompt tokens are still to be computed, None if that is not known."""

    uncached: int | None
    first_byte: bool = False


class Node:
    """State of one node.

    Args:
      config: of this node.
      clock: monotonic seconds.
      fingerprint: of its tokenizer, empty if it has none.
    """

    def __init__(self, config: NodeConfig, clock: Callable[[], float], fingerprint: str = ""):
        self.config = config
        self.fingerprint = fingerprint
        self.log = EventLog()
        self.latency = Latency()
        self.breaker = Breaker()
        self.sample: Sample | None = None
        self._clock = clock
        self._answered: float | None = None
        self._failed = False
        self._served: float | None = None
        self._ended = -math.inf
        self._others = 0
        self._ids = itertools.count()
        self._in_flight: dict[int, InFlight] = {}
        self._stored = Decayed(half_life=60.0)
        self._stored_seen = 0
        self._hasher: BlockHasher | None = None

    @property
    def name(self) -> str:
        """The configured name."""
        return self.config.name

    def now(self) -> float:
        """The node's clock, seconds."""
        return self._clock()

    @property
    def health(self) -> Health:
        """up, suspect after one failure, down when silent for `DOWN_SECONDS`, unknown before the first answer."""
        if self._answered is None:
            return "down" if self._failed else "unknown"
        if self._failed:
            return "suspect" if self._clock() - self._answered < DOWN_SECONDS else "down"
        return "up"

    @property
    def usable(self) -> bool:
        """True if a request may be sent there now."""
        # Answers to prompts count too: when very many arrive at once, readings of metrics are late, and not the node.
        now = self._clock()
        serves = self._served is not None and now - self._served < DOWN_SECONDS
        return (serves or self.health != "down") and self.breaker.allows(now)

    @property
    def breaker_state(self) -> str:
        """closed, open or half_open."""
        return self.breaker.state(self._clock())

    @property
    def block_size(self) -> int | None:
        """Tokens per block, None before the node has said so."""
        return self.config.block_size or (self.sample.block_size if self.sample else None)

    def hasher(self) -> BlockHasher | None:
        """Names of this node's blocks; None while its block size or tokenizer is not known."""
        size = self.block_size
        if size is None or not self.fingerprint:
            return None
        if self._hasher is None or self._hasher.block_size != size:
            seed = {} if self.config.hash_seed is None else {"seed": self.config.hash_seed}
            self._hasher = BlockHasher(self.config.hash_algorithm, size, **seed)
        return self._hasher

    def scraped(self, sample: Sample, asked: float | None = None) -> None:
        """A reading of its metrics. Another start time means a restart: what was believed of its cache is void.

        Args:
          asked: when it was asked for, on the node's clock; None for now.
        """
        asked = self._clock() if asked is None else asked
        # While one of ours ran, the reading does not tell others' load from our own.
        alone = not self._in_flight and self._ended < asked - _LAG_SECONDS
        self._others = (sample.running or 0) + (sample.waiting or 0) if alone else 0
        before = self.sample.incarnation if self.sample else None
        if before is not None and sample.incarnation is not None and sample.incarnation != before:
            self.log.restarted()
        self.sample = sample
        self._answered, self._failed = self._clock(), False
        self._stored.add("blocks", self._clock(), max(self.log.index.stored - self._stored_seen, 0))
        self._stored_seen = self.log.index.stored

    def unreachable(self) -> None:
        """It did not answer. One that stays silent may have been replaced: it has to prove its log anew."""
        self._failed = True
        if self.health == "down" and self.log.known:
            self.log.doubt()

    def resident_blocks(self, chain: Sequence[int]) -> int | None:
        """Leading blocks of a chain that it holds; None if that is not known."""
        if self.config.events is None or self.health == "down":
            return None
        return self.log.prefix(chain)

    def found(self, chain: Sequence[int], predicted: int, actual: int, position: int) -> None:
        """Reconciles a prediction with what the engine reported, both in blocks.

        A shortfall means that blocks went and we had not read of it: an idle engine whose cache is reset says so only
        with its next step. If the log has moved since the prediction it has told by now; else the blocks are dropped,
        and if nothing at all was there, all of them.

        Args:
          position: of the log when the prediction was made.
        """
        if actual >= predicted or self.log.position != position:
            return
        if actual == 0:
            self.log.emptied()
        else:
            self.log.index.discard(chain[actual:predicted])

    def residency_seconds(self) -> float:
        """How long a block just used stays: room for new blocks / rate of new blocks (least recently used goes)."""
        room = float(self.free_blocks() or 0)
        rate = self._stored.rate("blocks", self._clock())
        return LONGEST_RESIDENCY if rate <= 0 else min(room / rate, LONGEST_RESIDENCY)

    def free_blocks(self) -> int | None:
        """Blocks that no running request holds; None if the node does not say."""
        if self.sample is None or self.sample.blocks is None:
            return None
        return int(self.sample.blocks * (1.0 - (self.sample.usage or 0.0)))

    # -- load ------------------------------------------------------------------------------------------------------

    def sent(self, uncached: int | None) -> int:
        """A request leaves; returns its number."""
        key = next(self._ids)
        self._in_flight[key] = InFlight(uncached)
        self.breaker.sent(self._clock())
        return key

    def first_byte(self, key: int) -> None:
        """Its prompt has been computed."""
        self._in_flight[key].first_byte = True
        self._served = self._clock()

    def finished(self, key: int) -> None:
        """It ended, however it did."""
        if self._in_flight.pop(key, None) is not None:
            self._ended = self._clock()

    @property
    def in_flight(self) -> int:
        """Requests sent from here that have not ended."""
        return len(self._in_flight)

    @property
    def idle(self) -> bool:
        """True if nothing is known to run: a request sent now measures itself and not a queue."""
        return not self._in_flight and not self._foreign()

    def queue_ms(self) -> float:
        """Predicted wait before a new prompt is begun.

        Prompts sent and not yet answered, at this node's measured cost; one decoding step if anything decodes (a
        prefill shares its step with all running requests); and what other clients have there, at the cost of a mean
        prompt, as far as the node's own count goes beyond ours.
        """
        curve = self.latency.curve
        waiting = sum(
            curve(r.uncached if r.uncached is not None else 500) for r in self._in_flight.values() if not r.first_byte
        )
        decoding = any(r.first_byte for r in self._in_flight.values())
        step = (self.latency.decode_ms or 0.0) if decoding else 0.0
        return waiting + step + self._foreign() * curve(500)

    def _foreign(self) -> int:
        # Between two readings our own requests come and go; only an idle sidecar can tell others' load from its own.
        return self._others if self.health == "up" and not self._in_flight else 0


def unique(configs: Sequence[NodeConfig]) -> None:
    """Raises Invalid if two nodes have one name."""
    seen: set[str] = set()
    for config in configs:
        if config.name in seen:
            raise Invalid(f"two nodes are named {config.name!r}", "nodes")
        seen.add(config.name)
