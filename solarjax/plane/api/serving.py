"""Routes about the serving side: nodes, recent requests, and the placement contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from solarjax.plane.api import parts as p
from solarjax.plane.api.problems import ProblemBody
from solarjax.plane.errors import NotFound
from solarjax.plane.placement.views import HotView, NodeView, Placement, PlacementBody, RequestView
from solarjax.plane.salts import cache_salt

_MORE: dict[int | str, dict[str, Any]] = {
    501: {"model": ProblemBody, "description": "Layer replay: a contract that no engine here fulfils"}
}
router = APIRouter(tags=["serving"], responses=p.ERRORS)


def serving(request: Request) -> Any:
    """The sidecar's parts (`sidecar.serving.Serving`); None on a plane without nodes."""
    return request.app.state.serving


Front = Annotated[Any, Depends(serving)]


@router.get("/nodes")
async def list_nodes(caller: p.Caller, front: Front) -> list[NodeView]:
    """All nodes, in the order of the configuration."""
    return [] if front is None else [_view(front, node, caller.tenant) for node in front.nodes]


@router.get("/requests")
async def list_requests(
    caller: p.Caller, front: Front, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[RequestView]:
    """The tenant's latest requests, newest first."""
    if front is None:
        return []
    return [RequestView.model_validate(asdict(record)) for record in front.records.latest(caller.tenant, limit)]


@router.get("/hot")
def hot(caller: p.Caller, plane: p.Plane, front: Front) -> HotView:
    """The tenant's hot capsules as a cache policy keeps them; none without a `[hot]` table in the configuration."""
    if front is None or front.hot_sets is None:
        return HotView()
    config, found = front.hot_sets.config, tuple(front.hot_sets.residents(caller.tenant))
    # The hot set learns of this process's writes; another's, and windows that have run out, are seen here.
    ended = set(plane.gate.check(caller.tenant, plane.catalogue.state(caller.tenant).epoch, found).ended)
    capsules = [str(ref) for ref in found if ref not in ended]
    return HotView(policy=config.policy, capacity=config.capacity, capsules=capsules)


@router.post("/placements", responses=_MORE)
async def place(body: PlacementBody, caller: p.Caller, plane: p.Plane, front: Front) -> Placement:
    """The placement contract: admit capsules, lay out the prompt, say which node should have it. Nothing is sent."""
    if front is None:
        raise NotFound(f"the model {body.model!r} does not exist: no nodes are configured", "model")
    admission = await run_in_threadpool(plane.gate.admit, caller.tenant, body.capsules)
    state = await run_in_threadpool(plane.catalogue.state, caller.tenant)
    salt = cache_salt(front.salt_secret, caller.tenant, state.purge_epoch)
    fields = body.model_dump(include={"model", "messages", "prompt"}, exclude_none=True)
    plan = front.planner.lay_out(caller.tenant, fields, admission, salt)
    decision = front.planner.choose(caller.tenant, plan, mode=body.mode, session=body.session)
    return Placement(epoch=admission.epoch, capsules=tuple(c.ref for c in plan.capsules), decision=decision)


def _view(front: Any, node: Any, tenant: str) -> NodeView:
    sample, curve = node.sample, node.latency.curve
    known = node.log.known and node.log.index.supported and node.config.events is not None
    return NodeView(
        name=node.name, model=node.config.model, health=node.health, breaker=node.breaker_state,
        incarnation=sample and sample.incarnation, block_size=node.block_size, blocks=sample and sample.blocks,
        residency_known=known, resident_blocks=len(node.log.index) if known else None,
        resident_capsules=front.segments.resident(tenant, node), event_position=node.log.position,
        event_gaps=node.log.gaps, restarts=node.log.restarts, running=sample and sample.running,
        waiting=sample and sample.waiting, in_flight=node.in_flight, queue_ms=node.queue_ms(),
        ttft_base_ms=curve.a, ttft_ms_per_1000_tokens=1e3 * curve.b, ttft_ms_per_token_squared=curve.c,
        measured=node.latency.measured, decode_ms=node.latency.decode_ms, prefix_queries=sample and sample.queries,
        prefix_hits=sample and sample.hits,
    )  # fmt: skip
