"""Where the KV of each capsule version lies in the engines' address space, learnt from the prompts that used it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

from solarjax.plane.artifacts import ArtifactDraft, KvSegmentLocator
from solarjax.plane.capsules import VersionRef
from solarjax.plane.placement.nodes import Node
from solarjax.plane.placement.planner import Plan, Planner

_KEPT = 10_000


class Segment(NamedTuple):
    """Blocks from the start of a prompt up to the last whole one of a capsule, on nodes of one address space."""

    model: str
    block_size: int
    chain: tuple[int, ...]


class Segments:
    """The latest segment of each capsule version, by tenant."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Segment] = OrderedDict()
        self._recorded: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._lock = threading.Lock()

    def learn(self, tenant: str, plan: Plan, planner: Planner, node: Node) -> None:
        """From a prompt that a node has computed."""
        chain, size = planner.chain(plan, node), node.block_size
        if not chain or not size:
            return
        with self._lock:
            for capsule, end in zip(plan.capsules, plan.ends, strict=False):
                key = (tenant, f"{capsule.id}@{capsule.version}")
                self._kept[key] = Segment(node.config.model, size, tuple(chain[: end // size]))
                self._kept.move_to_end(key)
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)

    def resident(self, tenant: str, node: Node) -> list[str]:
        """`id@version` of the tenant's capsules whose whole segment a node is known to hold."""
        with self._lock:
            known = [(ref, s) for (owner, ref), s in self._kept.items() if owner == tenant]
        return sorted(
            ref
            for ref, s in known
            if s.chain and s.model == node.config.model and s.block_size == node.block_size
            and node.resident_blocks(s.chain) == len(s.chain)
        )  # fmt: skip

    def locator(self, tenant: str, plan: Plan, planner: Planner, node: Node) -> ArtifactDraft | None:
        """What the catalogue should know of a prompt's capsules, once for each new prefix; None if it does already."""
        chain, size = planner.chain(plan, node), node.block_size
        if not chain or not size or not plan.ends or not (blocks := chain[: plan.ends[-1] // size]):
            return None
        with self._lock:
            if (tenant, blocks[-1]) in self._recorded:
                return None
            self._recorded[tenant, blocks[-1]] = None
            if len(self._recorded) > _KEPT:
                self._recorded.popitem(last=False)
        locator = KvSegmentLocator(
            model=node.config.model, tokenizer=node.fingerprint, block_size=size,
            hash_algorithm=node.config.hash_algorithm, salt=plan.salt,
            block_hashes=tuple(f"{block:016x}" for block in blocks[:8192]),
        )  # fmt: skip
        return ArtifactDraft(locator=locator, made_from=tuple(capsule.ref for capsule in plan.capsules))

    def ended(self, tenant: str, refs: Collection[VersionRef]) -> None:
        """What ended is nowhere any more, as far as the plane is concerned."""
        with self._lock:
            for ref in refs:
                self._kept.pop((tenant, str(ref)), None)

    def forget(self, tenant: str, ref: VersionRef) -> None:
        """Drops one version."""
        with self._lock:
            self._kept.pop((tenant, str(ref)), None)
