"""From a request and its admitted capsules to a node: lay out, tokenise, name the blocks, value each node, choose."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from solarjax.plane.admission import Admission
from solarjax.plane.capsules import Capsule, VersionRef
from solarjax.plane.clock import Clock
from solarjax.plane.errors import NotFound, Unsupported, UpstreamBusy
from solarjax.plane.placement import layout
from solarjax.plane.placement.config import Rule, Weights
from solarjax.plane.placement.decision import AskedMode, Decision, Mode, Terms
from solarjax.plane.placement.experience import Experience
from solarjax.plane.placement.fleet import Fleet
from solarjax.plane.placement.nodes import Node
from solarjax.plane.placement.prompts import Prompt, PromptModel
from solarjax.plane.placement.routing import Key, Router
from solarjax.plane.placement.utility import terms

GUESS_CHARACTERS = 4
"""Characters a token, where no tokenizer can count them."""


@dataclass(frozen=True)
class Plan:
    """A laid-out request, before and after a node is chosen.

    Attributes:
      body: with the capsules in the prompt. capsules: in the order of the layout.
      prompt: None if its tokens are not known.
      chains: names of its blocks by (algorithm, block size, seed) of the nodes asked.
      ends: tokens up to the end of each capsule; empty if not known.
    """

    body: dict[str, Any]
    capsules: tuple[Capsule, ...]
    prompt: Prompt | None
    salt: str
    chains: dict[Any, list[int]]
    ends: tuple[int, ...]
    relevance: float


class Planner:
    """Plans requests over some nodes.

    Args:
      nodes: in the order of the configuration.
      models: template and tokenizer by folder, as the nodes' configurations name them.
      experience: of capsules.
      weights, rule: of the choice.
      clock: the catalogue's, for windows.
      residents: a tenant's hot capsules, if a policy decides which they are; else the experience does. Asked for each
        request, so looking a version up in what it returns should be quick.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        models: Mapping[str, PromptModel],
        experience: Experience,
        clock: Clock,
        *,
        weights: Weights | None = None,
        rule: Rule = "utility",
        residents: Callable[[str], Collection[VersionRef]] | None = None,
    ):
        self.nodes = tuple(nodes)
        self.weights = weights or Weights()
        self.router = Router(rule)
        self._models = dict(models)
        self._experience = experience
        self._clock = clock
        self._residents = residents
        self._fleet = Fleet()

    def lay_out(
        self, tenant: str, body: Mapping[str, Any], admission: Admission, salt: str, relevance: float = 0.0
    ) -> Plan:
        """Puts the capsules in the prompt, in canonical order, and names its blocks.

        Raises:
          NotFound: no node serves `body["model"]`. Invalid: there is no place for capsules.
        """
        served = [node for node in self.nodes if node.config.model == body.get("model")]
        if not served:
            raise NotFound(f"the model {str(body.get('model'))[:200]!r} does not exist", "model")
        capsules = layout.ordered(admission.capsules, self._heat(tenant))
        text = layout.memory(capsules)
        laid_out = layout.with_memory(body, text.text) if capsules else dict(body)
        model = self._models.get(served[0].config.tokenizer or "")
        prompt = model.prompt(laid_out) if model is not None else None
        chains = {}
        if prompt is not None and all(n.fingerprint == served[0].fingerprint for n in served):
            for node in served:
                hasher = node.hasher()
                if hasher is not None and (key := _space(node)) not in chains:
                    chains[key] = hasher.chain(prompt.tokens, salt)
        return Plan(
            body=laid_out, capsules=tuple(capsules), prompt=prompt, salt=salt, chains=chains,
            ends=_token_ends(prompt, text) if capsules else (), relevance=relevance,
        )  # fmt: skip

    def _heat(self, tenant: str) -> Callable[[Capsule], int]:
        if self._residents is None:
            return partial(self._experience.heat, tenant)
        hot = self._residents(tenant)
        return lambda capsule: int(capsule.ref in hot)

    def choose(
        self,
        tenant: str,
        plan: Plan,
        *,
        mode: AskedMode = "auto",
        session: str = "",
        without: frozenset[str] = frozenset(),
    ) -> Decision:
        """A node for a plan.

        Args:
          mode: `text` lets residency out of the decision; `kv` is the same as `auto`, which uses it where it is known.
          session: key for the session rule.
          without: names of nodes that were tried already.

        Raises:
          Unsupported: for layer replay. UpstreamBusy: if no node can be asked now.
        """
        if mode == "layer":
            raise Unsupported("layer replay is a contract only: no engine here can do it; use text or kv", "mode")
        peers = [n for n in self.nodes if n.config.model == plan.body["model"]]
        usable = [n for n in peers if n.usable and n.name not in without]
        if not usable:
            raise UpstreamBusy(f"no node serves {plan.body['model']!r} now")
        known = self._fleet.curves([(node.name, node.latency) for node in peers])
        curves = {node.name: known[node.name] for node in usable}
        candidates = [self._terms(tenant, plan, node, curves, mode) for node in usable]
        names = ",".join(f"{c.id}@{c.version}" for c in plan.capsules)
        chosen = self.router.choose(
            candidates, Key(f"{tenant}\x00{names}", f"{tenant}\x00{session}" if session else "")
        )
        return Decision(
            node=chosen.node, mode=chosen.mode, rule=self.router.rule,
            prompt_tokens=None if plan.prompt is None else len(plan.prompt.tokens),
            cached_tokens=chosen.cached_tokens, chosen=chosen, candidates=tuple(candidates),
        )  # fmt: skip

    def chain(self, plan: Plan, node: Node) -> list[int]:
        """Names of the prompt's blocks on a node; empty if not known."""
        return plan.chains.get(_space(node), [])

    def _terms(self, tenant: str, plan: Plan, node: Node, curves: Mapping[str, Any], mode: AskedMode) -> Terms:
        length = len(plan.prompt.tokens) if plan.prompt else _guess(plan.body)
        cached = predicted_tokens(node, plan)
        tried: Mode = "kv" if mode != "text" and cached is not None else "text"
        p_reuse = self._experience.p_reuse(tenant, plan.capsules, node.residency_seconds()) if plan.capsules else 0.0
        seconds = curves[node.name](length - (cached or 0)) / 1e3
        return terms(
            node=node.name, mode=tried, curve=curves[node.name], measured=node.latency.measured, fastest=curves,
            prompt_tokens=length, capsule_tokens=plan.ends[-1] if plan.ends else 0, cached_tokens=cached,
            p_reuse=p_reuse, p_stale=self._experience.p_stale(tenant, plan.capsules, seconds, self._clock()),
            relevance=plan.relevance, queue_ms=node.queue_ms(), weights=self.weights,
        )  # fmt: skip


def predicted_tokens(node: Node, plan: Plan) -> int | None:
    """Prompt tokens that the node will not compute: whole resident blocks from the start, never the last token."""
    hasher, chain = node.hasher(), plan.chains.get(_space(node))
    if hasher is None or chain is None or plan.prompt is None:
        return None
    resident = node.resident_blocks(chain)
    if resident is None:
        return None
    return min(resident, hasher.reusable(len(plan.prompt.tokens))) * hasher.block_size


def _space(node: Node) -> tuple[Any, ...]:
    return node.config.hash_algorithm, node.block_size, node.config.hash_seed


def _guess(body: Mapping[str, Any]) -> int:
    messages = body.get("messages")
    if isinstance(messages, list):
        return sum(len(str(m)) for m in messages) // GUESS_CHARACTERS
    return len(str(body.get("prompt", ""))) // GUESS_CHARACTERS


def _token_ends(prompt: Prompt | None, text: layout.Memory) -> tuple[int, ...]:
    if prompt is None:
        return ()
    begin = prompt.text.find(text.text)
    if begin < 0:  # the template rewrites what it is given
        return ()
    return tuple(_covering(prompt.ends, begin + end) for end in text.ends)


def _covering(ends: Sequence[int], position: int) -> int:
    """Tokens that hold everything before a character position; a character may be several tokens, or share one."""
    count = bisect_right(ends, position)
    return count if count and ends[count - 1] == position else min(count + 1, len(ends))
