"""The three workload families, generated from a key: support desk, coding loops, revision of facts.

They differ in what real ones differ in: who shares what, how long a reader stays with one subject, and how corrections
come. Support: many customers, one handbook, any topic at any time. Coding: loops of several turns on one module before
the next. Revision: one reader, and the same fact is revised again and again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from experiments.placemem import workload as w

_THINGS = ("form", "case", "report", "request", "record", "parcel", "account", "branch", "release", "meeting")
_VERBS = ("is checked", "is filed", "is answered", "is closed", "is opened", "is kept", "is signed", "is moved")
_WHEN = ("within a day", "before noon", "on weekdays", "after review", "by two people", "once a week", "at the desk")
_WHY = ("so that nothing is lost", "because others wait for it", "as agreed", "to keep the order", "for the archive")


def background(draw: random.Random, about: str, sentences: int) -> str:
    """Prose without identifiers: what fills a long, stable document."""
    return " ".join(
        f"Every {about} {draw.choice(_THINGS)} {draw.choice(_VERBS)} {draw.choice(_WHEN)}, {draw.choice(_WHY)}."
        for _ in range(sentences)
    )


def beside(sizes: w.Sizes) -> int:
    """Sentences of the short documents beside the long one."""
    return min(6, max(1, sizes.background // 5))


@dataclass(frozen=True)
class Plan:
    """What one turn is about, before corrections are known. sides: further documents between background and answer."""

    session: str
    subject: int
    sides: tuple[str, ...]


@dataclass(frozen=True)
class Material:
    """A family without its history: documents that are never corrected, labels of the subjects, and an order of turns.

    turns: draws a plan for each turn, given the subject corrected last (None before the first correction).
    corrected: draws which subject is corrected.  derived: kind and opening words of what is derived from a fact.
    """

    name: str
    documents: tuple[w.Document, ...]
    labels: tuple[str, ...]
    next_turn: Callable[[int, int | None], Plan]
    corrected: Callable[[int], int]
    derived: tuple[str, str]


def support(draw: random.Random, sizes: w.Sizes) -> Material:
    """Customers of a support desk: one handbook for all, a history for each customer, any topic at any time."""
    labels = ("refund policy", "shipping rule", "warranty policy", "invoice rule")
    customers = [f"customer-{i}" for i in range(4)]
    handbook = w.Document("support-handbook", background(draw, "support", sizes.background), "stable", "handbook")
    histories = tuple(
        w.Document(name, f"{name} wrote before. {background(draw, 'customer', beside(sizes))}", kind="history")
        for name in customers
    )

    def next_turn(_number: int, latest: int | None) -> Plan:
        asks = draw.randrange(len(labels))
        customer = draw.choice(customers)
        subject = latest if latest is not None and draw.random() < sizes.focus else asks
        return Plan(customer, subject, (customer,))

    return Material(
        "support", (handbook, *histories), labels, next_turn, lambda _: draw.randrange(len(labels)),
        ("reply", "Reply to customers who ask."),
    )  # fmt: skip


def coding(draw: random.Random, sizes: w.Sizes) -> Material:
    """Loops of a coding agent: conventions for all, notes for each module, several turns on one before the next."""
    labels = ("parser entry", "scheduler flag", "storage schema", "release tag")
    modules = [f"module-{label.split()[0]}" for label in labels]
    rules = w.Document("coding-rules", background(draw, "code", sizes.background), "stable", "rules")
    notes = tuple(
        w.Document(name, f"Notes on {name}. {background(draw, 'module', beside(sizes))}", kind="notes")
        for name in modules
    )
    loop = {"subject": draw.randrange(len(labels)), "left": 0}

    def next_turn(_number: int, latest: int | None) -> Plan:
        if loop["left"] == 0:
            loop["subject"], loop["left"] = draw.randrange(len(labels)), draw.randrange(3, 7)
        loop["left"] -= 1
        subject = latest if latest is not None and draw.random() < sizes.focus else loop["subject"]
        return Plan(f"loop-{modules[subject]}", subject, (modules[subject],))

    return Material(
        "coding", (rules, *notes), labels, next_turn, lambda _: draw.randrange(len(labels)),
        ("plan", "Plan of the next change."),
    )  # fmt: skip


def revision(draw: random.Random, sizes: w.Sizes) -> Material:
    """One reader of a dossier in which the same fact is revised again and again, beside others that stay."""
    labels = ("budget line", "site code", "project lead", "supplier key")
    dossier = w.Document("revision-dossier", background(draw, "project", sizes.background), "stable", "dossier")
    revised = draw.randrange(len(labels))

    def next_turn(_number: int, latest: int | None) -> Plan:
        other = draw.randrange(len(labels))
        subject = latest if latest is not None and draw.random() < sizes.focus else other
        beside = (subject + 1) % len(labels)
        # With a fact beside it, unless that one is what is being revised: its text must stay what it is.
        sides = () if beside == revised else (fact_id("revision", labels[beside]),)
        return Plan("reader", subject, sides)

    return Material(
        "revision", (dossier,), labels, next_turn, lambda _: revised, ("conclusion", "Conclusion for the reader.")
    )  # fmt: skip


FAMILIES: dict[str, Callable[[random.Random, w.Sizes], Material]] = {
    "support": support,
    "coding": coding,
    "revision": revision,
}


def fact_id(family: str, label: str) -> str:
    """Name of the capsule with a subject's fact."""
    return f"{family}-{label.replace(' ', '-')}"


def derived_id(family: str, kind: str, label: str) -> str:
    """Name of the capsule derived from it."""
    return f"{family}-{kind}-{label.replace(' ', '-')}"


def family_trace(name: str, key: int, sizes: w.Sizes) -> w.Trace:
    """One family's workload.

    Args:
      name: one of FAMILIES.
      key: decides every draw; equal keys give equal traces.
    """
    draw = random.Random(f"placemem {name} {key}")
    made = FAMILIES[name](draw, sizes)
    kind, opening = made.derived
    current = {label: w.identifier(draw) for label in made.labels}
    leads = {label: background(draw, label, 2) for label in made.labels}

    def fact(label: str) -> str:
        return f"{leads[label]} {w.statement(label, current[label])}"

    def derived(label: str) -> str:
        return f"{opening} {w.statement(label, current[label])}"

    documents = list(made.documents)
    for label in made.labels:
        own, after = fact_id(name, label), derived_id(name, kind, label)
        documents.append(w.Document(own, fact(label), "volatile", "fact", label))
        documents.append(w.Document(after, derived(label), "volatile", kind, label, own))
    events = list(_events(made, sizes, draw, current, fact, derived))
    return w.Trace(tuple(documents), tuple(events))


def _events(
    made: Material,
    sizes: w.Sizes,
    draw: random.Random,
    current: dict[str, str],
    fact: Callable[[str], str],
    derived: Callable[[str], str],
) -> Iterator[w.Event]:
    before = dict.fromkeys(current, "")
    due = w.correction_turns(sizes)
    latest: int | None = None
    kind = made.derived[0]
    for number in range(sizes.turns):
        for _ in range(due.count(number)):
            latest = made.corrected(number)
            label = made.labels[latest]
            before[label], current[label] = current[label], w.identifier(draw)
            yield w.Correction(
                made.name, fact_id(made.name, label), label, before[label], current[label], fact(label),
                {derived_id(made.name, kind, label): derived(label)},
            )  # fmt: skip
        plan = made.next_turn(number, latest)
        label = made.labels[plan.subject]
        wants: w.Wants = "derived" if draw.random() < sizes.derived else "fact"
        last = derived_id(made.name, kind, label) if wants == "derived" else fact_id(made.name, label)
        yield w.Turn(
            family=made.name, number=number, session=plan.session, subject=label, wants=wants,
            capsules=(made.documents[0].id, *plan.sides, last), question=w.question(label),
            after=bool(before[label]), expected=current[label], old=before[label],
            answer=draw.random() < (sizes.answered_after if before[label] else sizes.answered),
        )  # fmt: skip


def mixed(key: int, turns: int, names: Sequence[str] = tuple(FAMILIES), **sizes: float) -> w.Trace:
    """All families at once. turns: of all together, shared out evenly (the first families take what is left over)."""
    share = [turns // len(names) + (i < turns % len(names)) for i in range(len(names))]
    return w.interleave(
        [family_trace(name, key, w.Sizes(turns=n, **sizes)) for name, n in zip(names, share, strict=True)]  # type: ignore[arg-type]
    )
