"""Which policies the tables of the paper hold, and ours beside them as controls."""

from __future__ import annotations

from experiments.types import Context

PAPER = "all"
"""The eight of the paper, in the release's behaviour."""

CONTROLS = "gated_fifo,bernoulli,bernoulli(p=0.1),keep_first,reservoir,random"
"""What every claim about admission has to beat: the gate with plain FIFO eviction, coins of the two admission rates
that the paper reports (17 % and about 10 %), and rules that look at nothing."""

VARIANTS = "solar_paper,solar_eoq,solar_fixed,solar_a(fill=free),solar(fill=free)"
"""SOLAR as printed and with the thresholds of the theory; the release's gate with a free fill instead of its
bootstrap."""

DRAWN = ("unlimited", "fifo", "lru", "lfu", "arc", "solar_e", "solar_a", "solar", "gated_fifo", "bernoulli(p=0.1)",
         "keep_first", "oracle_cover")  # fmt: skip
"""Lines that a figure can still tell apart; its table holds the others too."""

QUICK = f"{PAPER},gated_fifo,bernoulli(p=0.1),keep_first,solar_a(fill=free),oracle_cover"

# On real streams the gate listens to the answer, as the release does there.
ON_DIALOGUES = (
    "unlimited,fifo,lru,lfu,arc,solar_e,solar_a(signal=miss),solar(signal=miss),gated_fifo(signal=miss),"
    "solar_paper(fill=free),solar_e_paper,bernoulli,keep_first,reservoir,random,oracle_cover"
)
DRAWN_ON_DIALOGUES = ("unlimited", "fifo", "lru", "lfu", "arc", "solar_e", "solar_a(signal=miss)", "solar(signal=miss)",
                      "gated_fifo(signal=miss)", "bernoulli", "keep_first", "oracle_cover")  # fmt: skip
ON_DIALOGUES_QUICK = (
    "unlimited,fifo,lru,lfu,arc,solar_e,solar_a(signal=miss),solar(signal=miss),gated_fifo(signal=miss),"
    "solar_paper(fill=free),bernoulli,oracle_cover"
)


def synthetic(context: Context) -> str:
    """The policies of a table on a generated workload; a quick run keeps the controls that the ledger needs."""
    return QUICK if context.quick else f"{PAPER},{CONTROLS},{VARIANTS},oracle_cover"
