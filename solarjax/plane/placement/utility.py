"""The value of running a request on a node, in milliseconds, term by term.

PlaceMem (arXiv 2607.04089) ranks by U = w1 P_reuse + w2 C_saved + w3 V_sem - w4 R_stale - w5 B_remote - w6 L_target and
publishes neither units nor weights. Here every term is in milliseconds and comes from a measurement:

  P_reuse   p(used again before eviction) x prefill of the capsules; p = 1 - exp(-rate x residency), the rate of use of
            the capsules (decayed), the residency of the node (room / rate of new blocks).
  C_saved   TTFT(all tokens) - TTFT(uncached tokens), by the node's own fitted curve (latency.py).
  V_sem     retrieval score x `semantic_ms`. The same on every node: it ranks what to include, not where.
  R_stale   p(a capsule is corrected before the first byte, or its window ends) x TTFT: the prefill that a re-admission
            would throw away. What is known to be invalid never gets here: that is a filter, not a weight.
  B_remote  TTFT(all tokens) here - TTFT(all tokens) on the fastest node: the price of computing away from the best
            place. (No KV is moved between nodes in this stack; if it were, its transfer time would belong here.)
  L_target  predicted wait on the node (nodes.Node.queue_ms).

With all weights 1 a difference between two nodes is the difference in predicted time to first token, plus what the
placement is worth later, minus what a correction may cost. So 1 is the default, and each weight is a switch for an
ablation.
"""

from __future__ import annotations

from collections.abc import Mapping

from solarjax.plane.placement.config import Weights
from solarjax.plane.placement.decision import Mode, Terms
from solarjax.plane.placement.latency import Curve


def terms(
    *,
    node: str,
    mode: Mode,
    curve: Curve,
    measured: bool,
    fastest: Mapping[str, Curve],
    prompt_tokens: int,
    capsule_tokens: int,
    cached_tokens: int | None,
    p_reuse: float,
    p_stale: float,
    relevance: float,
    queue_ms: float,
    weights: Weights,
) -> Terms:
    """All terms of one candidate.

    Args:
      fastest: curves of all candidate nodes, this one among them.
      prompt_tokens, capsule_tokens: of the whole prompt and of the part up to the end of its last capsule.
      relevance: sum of the retrieval scores of the capsules used; 0 if they were named.
    """
    used = (cached_tokens or 0) if mode == "kv" else 0
    whole = curve(prompt_tokens)
    ttft = curve(prompt_tokens - used)
    values = {
        "reuse_ms": p_reuse * (curve(capsule_tokens) - curve(0)) if mode == "kv" else 0.0,
        "saved_ms": whole - ttft,
        "semantic_ms": relevance * weights.semantic_ms,
        "stale_ms": p_stale * ttft,
        "remote_ms": whole - min(other(prompt_tokens) for other in fastest.values()),
        "load_ms": queue_ms,
    }
    utility = (
        weights.reuse * values["reuse_ms"] + weights.saved * values["saved_ms"]
        + weights.semantic * values["semantic_ms"] - weights.stale * values["stale_ms"]
        - weights.remote * values["remote_ms"] - weights.load * values["load_ms"]
    )  # fmt: skip
    return Terms(
        node=node, mode=mode, utility=utility, cached_tokens=cached_tokens, ttft_ms=ttft, p_reuse=p_reuse,
        p_stale=p_stale, measured=measured, **values,
    )  # fmt: skip
