"""Parts of the plane that are replaced while some requests are asked: what is left out, and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from solarjax.plane.admission import Admission, Fence
from solarjax.plane.hotpath import HotPath, Ticket
from solarjax.plane.placement.config import Rule
from solarjax.plane.placement.decision import Terms
from solarjax.plane.placement.routing import Key, Router


class Unaware(HotPath):
    """Reuse without invalidation: what was admitted once is admitted for ever, and every fence passes.

    The rest of the path is the plane's own. This is the ablation: corrections are written to the catalogue as always,
    and reach nobody.
    """

    def __init__(self, *parts: Any):
        super().__init__(*parts)
        self._known: dict[tuple[int, str], Any] = {}

    async def admit(self, ticket: Ticket, capsules: Sequence[str], *, again: bool = False) -> Admission:
        """The versions seen first."""
        new = [name for name in capsules if (ticket.tid, name) not in self._known]
        if new:
            found = await super().admit(ticket, new)
            self._known.update({(ticket.tid, capsule.id): capsule for capsule in found.capsules})
            at = found.at
        else:
            at = self._known[ticket.tid, capsules[0]].recorded_at
        chosen = tuple(self._known[ticket.tid, name] for name in capsules)
        return Admission(epoch=ticket.epoch, at=at, capsules=chosen)

    async def fence(self, ticket: Ticket, admission: Admission) -> Fence:
        """Always passes."""
        return Fence(epoch=admission.epoch, passed=True)


class To(Router):
    """Everything goes to one node; turns of other rules are not counted on."""

    def __init__(self, node: str, rule: Rule):
        super().__init__(rule)
        self._node = node

    def choose(self, candidates: Sequence[Terms], key: Key) -> Terms:
        """The candidate on that node; the rule's, if it cannot be asked now."""
        there = [candidate for candidate in candidates if candidate.node == self._node]
        return there[0] if there else super().choose(candidates, key)
