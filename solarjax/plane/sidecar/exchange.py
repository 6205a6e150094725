"""One client's request from arrival to end: admit, lay out, place, fence, ask, fence again, pass on, report.

The answer begins only with its first content byte, after the second fence. Until then nothing was promised: another
node may be asked, and if a capsule was corrected the request is admitted anew. Afterwards the stream runs to its end on
what it was admitted with, and if that ended meanwhile the record says `overlapped`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.types import Send

from solarjax.plane.admission import Admission
from solarjax.plane.clock import to_datetime
from solarjax.plane.errors import Conflict, Invalid, Upstream, UpstreamBusy, UpstreamSilent
from solarjax.plane.hotpath import Ticket
from solarjax.plane.placement import layout
from solarjax.plane.placement.decision import Decision
from solarjax.plane.placement.planner import Plan
from solarjax.plane.salts import cache_salt
from solarjax.plane.sidecar import contract, sse
from solarjax.plane.sidecar.attempt import Attempt, Failed, tokens
from solarjax.plane.sidecar.body import Body, encode
from solarjax.plane.sidecar.records import Record
from solarjax.plane.sidecar.serving import Serving

MAX_QUERY = 10_000


class Exchange:
    """See the module.

    Args:
      serving: what the sidecar works with.
      ticket: of the caller.
      wanted: the request headers. body: the request body. path: `/v1/...`.
      record: filled on the way.
      send: the client's connection.
    """

    def __init__(
        self,
        serving: Serving,
        ticket: Ticket,
        wanted: contract.Wanted,
        body: Body,
        path: str,
        record: Record,
        send: Send,
    ):
        self._serving = serving
        self._ticket = ticket
        self._wanted = wanted
        self._body = body
        self._path = path
        self._record = record
        self._send = send
        self._begin = time.monotonic()
        self.started = False

    async def run(self) -> None:
        """Answers.

        Raises:
          PlaneError: if nothing was sent yet.
        """
        settings = self._serving.settings
        for again in range(1 + settings.readmissions):
            if again:
                self._record.readmitted += 1
                self._ticket = await self._serving.hot.authenticate(self._wanted.token)
            async with self._serving.preparing:
                # Without it a burst would be prepared in one turn of the event loop, and everything else would stand.
                await asyncio.sleep(0)
                with self._serving.spans.span("sidecar.admit") as span:
                    admission, relevance = await self._admission(again > 0)
                    if span is not None:
                        span.set_attribute("placemem.epoch", admission.epoch)
                        span.set_attribute("placemem.capsules", [str(ref) for ref in admission.refs])
                self._record.epoch, self._record.at = admission.epoch, self._serving.clock()
                salt = cache_salt(self._serving.salt_secret, self._tenant, self._ticket.purge_epoch)
                with self._serving.spans.span("sidecar.lay_out"):
                    plan = self._serving.planner.lay_out(self._tenant, self._body.fields, admission, salt, relevance)
                self._record.capsules = tuple(f"{c.id}@{c.version}" for c in plan.capsules)
                content = encode(plan.body, salt)
            opened = await self._open(plan, admission, content)
            if opened is None:
                continue
            attempt, decision = opened
            try:
                if not attempt.refused and not await self._holds(admission):
                    continue
                self._record.fenced_at = self._serving.clock()
                with self._serving.spans.span("sidecar.pass_on") as span:
                    await self._pass_on(attempt, plan, decision, admission)
                    if span is not None:
                        span.set_attribute("placemem.outcome", self._record.outcome)
                        span.set_attribute("placemem.cached", self._record.cached or 0)
                return
            finally:
                await attempt.close()
        self._record.readmitted += 1
        raise Conflict("the capsules were corrected again and again while the request was prepared; try again")

    @property
    def _tenant(self) -> str:
        return self._ticket.principal.tenant

    @property
    def _session(self) -> str:
        return self._wanted.session or self._body.user

    async def _admission(self, again: bool) -> tuple[Admission, float]:
        hot, wanted = self._serving.hot, self._wanted
        relevance = 0.0
        if wanted.capsules:
            admission = await hot.admit(self._ticket, wanted.capsules, again=again)
        else:
            admission = Admission(epoch=self._ticket.epoch, at=to_datetime(self._serving.clock()), capsules=())
        for capsule in admission.capsules:
            pinned = wanted.pinned.get(capsule.id, capsule.version)
            if pinned != capsule.version:
                raise Conflict(f"{capsule.id}@{pinned} is not in force; {capsule.ref} is", "capsules")
        question = self._question() if wanted.retrieve else ""
        if question.strip():
            found = await hot.search(self._ticket, question, wanted.retrieve)
            named = {capsule.id for capsule in admission.capsules}
            hits = [hit for hit in found.hits if hit.capsule.id not in named and hit.capsule.in_force]
            if named and found.epoch != admission.epoch:
                admission = await hot.admit(self._ticket, [*named, *(h.capsule.id for h in hits)], again=True)
            else:
                both = admission.capsules + tuple(hit.capsule for hit in hits)
                admission = Admission(epoch=found.epoch, at=found.at, capsules=both)
            relevance = sum(hit.score for hit in hits)
        if len(admission.capsules) > contract.MAX_CAPSULES:
            raise Invalid(f"more than {contract.MAX_CAPSULES} capsules", "capsules")
        self._serving.experience.used(self._tenant, admission.capsules)
        return admission, relevance

    async def _holds(self, admission: Admission) -> bool:
        if not admission.capsules:
            return True
        return (await self._serving.hot.fence(self._ticket, admission)).passed

    async def _open(self, plan: Plan, admission: Admission, content: bytes) -> tuple[Attempt, Decision] | None:
        """A node that has begun to answer; None if the fence before asking did not pass."""
        serving, record = self._serving, self._record
        tried: set[str] = set()
        problem: Failed | None = None
        while len(tried) < serving.settings.tries:
            try:
                decision = serving.planner.choose(
                    self._tenant, plan, mode=self._wanted.mode, session=self._session, without=frozenset(tried)
                )  # fmt: skip
            except UpstreamBusy:
                if problem is None:
                    raise
                break
            # Right before the engine sees it: from here to the request lies one read, and nothing awaits.
            if not await self._holds(admission):
                return None
            tried.add(decision.node)
            record.attempts += (decision.node,)
            record.node, record.mode = decision.node, decision.mode
            record.predicted, record.prompt_tokens = decision.cached_tokens, decision.prompt_tokens
            if record.plane_ms is None:
                record.plane_ms = (time.monotonic() - self._begin) * 1e3
            uncached = None
            if decision.prompt_tokens is not None:
                uncached = decision.prompt_tokens - (decision.cached_tokens or 0)
            attempt = Attempt(serving.http, serving.node(decision.node), uncached, serving.timeouts)
            try:
                with serving.spans.span("sidecar.first_byte") as span:
                    if span is not None:
                        span.set_attribute("placemem.node", decision.node)
                        span.set_attribute("placemem.mode", decision.mode)
                        span.set_attribute("placemem.predicted_cached", decision.cached_tokens or 0)
                    await attempt.open(
                        self._path, content, self._wanted.request_id, stream=self._body.stream,
                        trace=serving.spans.headers(),
                    )  # fmt: skip
                return attempt, decision
            except Failed as failure:
                problem = failure
                await attempt.close()
            except BaseException:
                await attempt.close()
                raise
        assert problem is not None
        kind = UpstreamSilent if problem.silent else UpstreamBusy if problem.busy else Upstream
        raise kind(f"{problem}; {len(tried)} of {len(serving.nodes)} nodes were tried")

    async def _pass_on(self, attempt: Attempt, plan: Plan, decision: Decision, admission: Admission) -> None:
        record = self._record
        record.status = attempt.status
        headers = [
            (b"content-type", attempt.content_type.encode("latin-1")),
            (b"x-request-id", self._wanted.request_id.encode()),
            contract.header("epoch", admission.epoch), contract.header("capsules", ", ".join(record.capsules)),
            contract.header("attempts", len(record.attempts)),
            contract.header("fence", f"readmitted={record.readmitted}" if record.readmitted else "passed"),
            *contract.decided(decision),
        ]  # fmt: skip
        if attempt.refused or not self._body.stream:
            self._learn(attempt, plan, decision)
            if record.cached is not None:
                headers.append(contract.header("cached", record.cached))
            headers.append((b"content-length", str(len(attempt.body)).encode()))
            record.outcome = "refused" if attempt.refused else "ok"
            if not attempt.refused:
                record.ttft_ms = (time.monotonic() - self._begin) * 1e3
            await self._start(attempt.status, headers)
            await self._send({"type": "http.response.body", "body": attempt.body})
            self._write_back(attempt, plan, None if attempt.refused else _text_of(attempt.answer))
            return
        headers.append((b"cache-control", b"no-store"))
        await self._start(attempt.status, headers)
        keep = self._wanted.writeback != "none"
        async for part in attempt.events(keep_text=keep, pass_usage=self._body.asked_usage):
            if record.ttft_ms is None:
                record.ttft_ms = (time.monotonic() - self._begin) * 1e3
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._overlaps(admission)
        self._learn(attempt, plan, decision)
        end = b""
        if attempt.broken:
            record.outcome = "broken"
        else:
            record.outcome = "ok"
            end = sse.comment({"cached_tokens": record.cached, "overlapped": list(record.overlapped)}) + sse.DONE
        await self._send({"type": "http.response.body", "body": end})
        if not attempt.broken:
            self._write_back(attempt, plan, "".join(attempt.text))

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _overlaps(self, admission: Admission) -> None:
        if admission.capsules:
            fence = await self._serving.hot.fence(self._ticket, admission)
            self._record.overlapped = tuple(map(str, fence.ended))

    def _learn(self, attempt: Attempt, plan: Plan, decision: Decision) -> None:
        """From what the engine reported: residency, speed, where the capsules' KV lies."""
        record, node = self._record, attempt.node
        details = (attempt.usage or {}).get("prompt_tokens_details")
        cached = tokens(details.get("cached_tokens")) if isinstance(details, dict) else None
        total = tokens((attempt.usage or {}).get("prompt_tokens"))
        if cached is None or total is None or cached > total:
            return
        record.cached, record.prompt_tokens = cached, total
        attempt.measured(total, cached)
        chain, size = self._serving.planner.chain(plan, node), node.block_size
        if chain and size:
            if decision.cached_tokens is not None:
                node.found(chain, decision.cached_tokens // size, cached // size, attempt.position)
            self._serving.segments.learn(self._tenant, plan, self._serving.planner, node)
        self._serving.forecast_reuse(self._tenant, plan.capsules, node)

    def _question(self) -> str:
        return layout.question_of(self._body.fields)[:MAX_QUERY]

    def _write_back(self, attempt: Attempt, plan: Plan, text: str | None) -> None:
        serving, caller = self._serving, self._ticket.principal
        if serving.hot_sets is not None and text is not None:
            serving.hot_sets.used(self._tenant, self._question(), plan.capsules)
        if self._wanted.writeback != "none" and text and text.strip():
            sources = tuple(capsule.ref for capsule in plan.capsules)
            serving.writeback.answer(caller, self._wanted.writeback, text, sources, self._record.id)
        if serving.settings.record_segments and text is not None and plan.capsules and not self._record.overlapped:
            draft = serving.segments.locator(self._tenant, plan, serving.planner, attempt.node)
            if draft is not None:
                serving.writeback.segment(caller, draft)


def _text_of(answer: dict[str, Any]) -> str:
    """What was said, of a whole answer; nothing if it is not where the protocol has it."""
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return ""
    message = first.get("message")
    said = first.get("text") or (message.get("content") if isinstance(message, dict) else None)
    return said if isinstance(said, str) else ""
