"""One try of one request: sends it, reads the answer within its time limits, and names what went wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Self

import httpx2

from solarjax.replay import answers, errors
from solarjax.replay.address import Address
from solarjax.replay.completion import Completion

_CONNECT_S = 10.0
_DRAIN_S = 1.0
_SHORT_ANSWER_S = 30.0  # for lists and versions, which cost a server nothing


class Transport:
    """Connections to one server; an async context manager.

    Args:
      address: of the server.
      model: name that error messages show.
      key: API key, sent as a bearer token with every request.
      connections: most at a time.
      timeout_s: most seconds from sending to the end of the answer.
      first_byte_s: most seconds until the body begins.

    Methods raise the classes of errors.py.
    """

    def __init__(
        self, address: Address, model: str, key: str | None, *, connections: int, timeout_s: float, first_byte_s: float
    ):
        self.address, self.model = address, model
        self.timeout_s, self.first_byte_s = timeout_s, min(first_byte_s, timeout_s)
        self._key, self._connections = key, connections
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        # trust_env off: a proxy meant for the internet must see neither prompts nor keys for a local service.
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx2.Timeout(None, connect=_CONNECT_S),
            limits=httpx2.Limits(max_connections=self._connections, max_keepalive_connections=self._connections),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def stream(self, path: str, content: bytes) -> Completion:
        """Posts a JSON body to a path of the protocol and reads the answer's stream to its end."""
        began = False
        sent = time.perf_counter()
        deadline = asyncio.get_running_loop().time() + self.timeout_s
        try:
            async with asyncio.timeout(self.first_byte_s) as limit:
                async with self._open().stream(
                    "POST", self.address.api(path), content=content, headers={"Content-Type": "application/json"}
                ) as response:
                    if response.status_code != 200:
                        await response.aread()
                        raise await self._explained(response)
                    kind = response.headers.get("content-type", "")
                    if not kind.startswith("text/event-stream"):
                        raise errors.BadResponse(
                            f"{self.address} answered with {kind or 'no content type'} where a stream was expected"
                        )

                    async def chunks() -> AsyncIterator[bytes]:
                        nonlocal began
                        async for chunk in response.aiter_bytes():
                            if chunk and not began:
                                began = True
                                limit.reschedule(deadline)
                            yield chunk

                    body = chunks()
                    answer = await answers.read_stream(body, sent, time.perf_counter)
                    await _drain(body)
                    return answer
        except TimeoutError:
            what = f"did not finish its answer within {self.timeout_s:g} s"
            if not began:
                what = f"accepted the request and sent nothing within {self.first_byte_s:g} s"
            raise errors.ServerTimeout(f"{self.address} {what}") from None
        except httpx2.HTTPError as error:
            raise self._named(error, began) from None

    async def models(self) -> list[str]:
        """Names of the models that the server serves."""
        response = await self._get(self.address.api("models"))
        if response.status_code != 200:
            raise self._status_error(response)
        try:
            return [str(entry["id"]) for entry in response.json()["data"]]
        except (ValueError, KeyError, TypeError):
            raise errors.BadResponse(
                f"{self.address} answered /v1/models with something else than a list of models; "
                "is this the address of an OpenAI-compatible server?"
            ) from None

    async def version(self) -> str:
        """The server's version (`/version`, as vLLM has it), else its `Server` header, else `unknown`."""
        response = await self._get(self.address.root("version"))
        if response.status_code == 429 or response.status_code >= 500:
            raise self._status_error(response)
        try:
            return str(response.json()["version"])
        except (ValueError, KeyError, TypeError):
            return response.headers.get("server") or "unknown"

    async def _explained(self, response: httpx2.Response) -> errors.ReplayError:
        error = self._status_error(response)
        if isinstance(error, errors.ModelNotFound):
            try:
                return not_served(self.address, self.model, await self.models())
            except errors.ReplayError:
                pass  # the list is a courtesy; the error stands without it
        return error

    def _status_error(self, response: httpx2.Response) -> errors.ReplayError:
        return answers.status_error(
            response.status_code, response.headers, response.content, url=str(self.address), model=self.model
        )

    async def _get(self, url: str) -> httpx2.Response:
        seconds = min(_SHORT_ANSWER_S, self.timeout_s)
        try:
            async with asyncio.timeout(seconds):
                return await self._open().get(url)
        except TimeoutError:
            raise errors.ServerTimeout(f"{self.address} sent nothing within {seconds:g} s") from None
        except httpx2.HTTPError as error:
            raise self._named(error, began=False) from None

    def _open(self) -> httpx2.AsyncClient:
        if self._http is None:
            raise errors.BadOption("the client is not open; use it as `async with Client(...) as client`")
        return self._http

    def _named(self, error: httpx2.HTTPError, began: bool) -> errors.ReplayError:
        why = str(error) or type(error).__name__
        if isinstance(error, httpx2.DecodingError):
            return errors.MalformedStream(f"{self.address} sent a body that cannot be decoded: {why}")
        if began:
            return errors.CutStream(f"{self.address} cut the stream before the answer was complete: {why}")
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return errors.ServerDown(f"nothing answers at {self.address} ({why}); is the server running?")
        return errors.ServerDown(f"{self.address} closed the connection before it answered: {why}")


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Reads what follows the answer, normally nothing: only a connection that was read to its end is used again."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in body:
                pass
    except (TimeoutError, httpx2.HTTPError):
        pass  # the answer is complete; the connection is closed instead


def not_served(address: Address, model: str, served: list[str]) -> errors.ModelNotFound:
    """The error that lists what the server has instead."""
    return errors.ModelNotFound(
        f"{address} does not serve the model {model!r}; it serves {', '.join(map(repr, served)) or 'none'}"
    )
