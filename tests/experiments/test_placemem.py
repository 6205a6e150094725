"""The memory plane's benchmark: workloads against a replay by hand, the scripted engine against a slow one, statistics
against closed forms."""

import random

import numpy as np
import pytest

from experiments.placemem import families, routing, standin, table
from experiments.placemem import workload as w
from experiments.placemem.parts import PARTS
from tests.support.placemem_turns import turn

LONG = {"corrections": 3, "first": 4, "focus": 0.5, "derived": 0.4, "background": 8}


# -- workloads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", range(3))
def test_a_turn_expects_what_the_documents_say_then(key):
    trace = families.mixed(key, 90, **LONG)
    texts = {d.id: d.text for d in trace.documents}
    kinds = {d.id: d for d in trace.documents}
    ever_wrong, seen = {}, set()
    for event in trace.events:
        if isinstance(event, w.Correction):
            assert event.old in texts[event.document] and event.new in event.text and event.old not in event.text
            texts[event.document] = event.text
            assert all(kinds[name].source == event.document for name in event.derived) and event.derived
            texts.update(event.derived)
            ever_wrong[event.old] = event.subject
            seen.add((event.family, event.subject))
            continue
        last = event.capsules[-1]
        assert w.identifiers(texts[last]) == [event.expected] and kinds[last].subject == event.subject
        assert (event.wants == "derived") == bool(kinds[last].source)
        assert event.after == ((event.family, event.subject) in seen) == bool(event.old)
        assert not event.old or event.old in ever_wrong
        assert kinds[event.capsules[0]].stability == "stable" and set(event.capsules) <= set(texts)
        # No text that is used beside the answer may carry what was corrected: staleness is the memory's doing.
        assert not [i for name in event.capsules for i in w.identifiers(texts[name]) if i in ever_wrong]


def test_keys_decide_everything_and_sizes_are_kept():
    first, again, other = (families.mixed(k, 91, **LONG) for k in (5, 5, 6))
    assert first == again and first != other
    assert [sum(t.family == f for t in first.turns) for f in families.FAMILIES] == [31, 30, 30]
    assert sum(isinstance(e, w.Correction) for e in first.events) == 9
    ids = [i for d in first.documents if not d.source for i in w.identifiers(d.text)]
    ids += [e.new for e in first.events if isinstance(e, w.Correction)]
    assert len(set(ids)) == len(ids)
    for name in families.FAMILIES:  # turns of a family stay in order
        assert [t.number for t in first.turns if t.family == name] == list(range(31 if name == "support" else 30))


def test_families_differ_in_what_they_are_named_for():
    def changes(name, of):
        turns = families.family_trace(name, 0, w.Sizes(turns=300, corrections=4, first=290, background=4)).turns[:280]
        return sum(of(a) != of(b) for a, b in zip(turns, turns[1:], strict=False)) / len(turns)

    # 4 customers drawn anew each turn: 3 of 4 turns change. Loops of 3 to 6 turns (mean 4.5) over 4 modules:
    # (1 / 4.5) x 3 / 4 = .17. Standard errors at 280 turns: .026 and .022; bounds are 4 of them away.
    assert changes("support", lambda t: t.session) == pytest.approx(0.75, abs=0.104)
    assert changes("coding", lambda t: t.session) == pytest.approx(0.167, abs=0.09)
    revised = [e.document for e in families.family_trace("revision", 1, w.Sizes(turns=60, corrections=5)).events
               if isinstance(e, w.Correction)]  # fmt: skip
    assert len(revised) == 5 and len(set(revised)) == 1


def test_the_pilot_has_the_papers_shape():
    turns = PARTS["pilot"].plan.trace(0).turns
    assert len(turns) == 48
    for name in families.FAMILIES:
        mine = [t for t in turns if t.family == name]
        assert [t.after for t in mine] == [False] * 7 + [True] * 9


# -- the scripted engine -----------------------------------------------------------------------------------------------


def test_reuse_is_the_longest_prefix_computed_before():
    draw = random.Random(0)
    cache, block = standin.PrefixCache(10_000, block=4), 4
    stems = ["".join(draw.choices("ab", k=13)) for _ in range(3)]
    past = []
    for _ in range(200):
        prompt = draw.choice(stems)[: draw.randrange(1, 14)] + "".join(draw.choices("ab", k=draw.randrange(1, 9)))
        salt = draw.choice("xy")
        longest = 0
        for old_salt, old in past:
            if old_salt == salt:
                same = next((i for i, (a, b) in enumerate(zip(old, prompt, strict=False)) if a != b),
                            min(len(old), len(prompt)))  # fmt: skip
                longest = max(longest, same // block * block)
        reused, _, dropped = cache.take(salt, prompt.encode())
        assert reused == min(longest, (len(prompt) - 1) // block * block) and not dropped
        past.append((salt, prompt))


def test_the_least_recently_used_block_goes_first_and_ends_before_beginnings():
    cache = standin.PrefixCache(4, block=2)
    assert cache.take("", b"aabb.")[0] == 0  # holds aa, aabb
    assert cache.take("", b"ccdd.")[0] == 0  # and cc, ccdd: full
    assert cache.take("", b"aabb.")[0] == 4  # used again, so cc.. is the oldest
    _, new, dropped = cache.take("", b"ee.")
    assert new == [0] and dropped == [("", b"ccdd")]  # the end of the oldest prompt
    assert cache.take("", b"ccdd.")[0] == 2  # its beginning is still there
    assert len(cache) == 4


def test_the_tokens_of_the_scripted_engine_are_those_of_its_tokenizer(tmp_path):
    from solarjax.plane.placement.prompts import PromptModel

    model = PromptModel(standin.write_model(tmp_path))
    text = 'A "quoted" word, é and €\n~\x7f'
    prompt = model.prompt({"messages": [{"role": "user", "content": text}]})
    expected = f"<user>{text}</user><assistant>".encode()
    assert prompt.tokens == [standin.token_ids()[byte] for byte in expected]


def test_it_answers_with_the_last_statement_about_what_was_asked():
    said = w.statement("a b", "AAA-1111") + w.statement("c", "CCC-2222") + w.statement("a b", "BBB-3333")
    assert standin.answer(said + w.question("a b")) == '"BBB-3333"'
    assert standin.answer(w.statement("a b", "AAA-1111") + w.question("c")) == "I do not know."


# -- statistics --------------------------------------------------------------------------------------------------------


def test_intervals_agree_with_closed_forms():
    assert table.share([False] * 27) == (0.0, 0.0, pytest.approx(1 - 0.025 ** (1 / 27)))
    assert table.share([True] * 27)[1] == pytest.approx(0.025 ** (1 / 27))
    assert table.share([]) == (None, None, None)
    values = np.random.default_rng(1).normal(10, 2, 400)
    mean, low, high = table.mean(values)
    half = 1.96 * values.std(ddof=1) / 20
    assert mean == pytest.approx(values.mean()) and low == pytest.approx(mean - half, abs=0.15 * half)
    assert high == pytest.approx(mean + half, abs=0.15 * half)
    # Pairs: what is common to both falls out.
    assert table.ratio_of_sums([2.0, 20.0, 200.0], [1.0, 10.0, 100.0]) == (2.0, 2.0, 2.0)
    assert table.ratio_of_sums([3.0], [4.0]) == (0.75, None, None)
    assert table.ratio_of_sums([], []) == (None, None, None)


def figures_of(records, modelled=False):
    return {row.key[1:]: row for row in table.rows("t", records, modelled)}


def test_figures_of_a_part_by_hand():
    base = [turn("prompt_only", i, ttft_ms=400.0 + i, cached=0, predicted=0, stale=None) for i in range(4)]
    full = [turn("full", i, ttft_ms=100.0 + i, cached=750 + i, predicted=750) for i in range(4)]
    full += [turn("full", 9, after=False, right=False, prompt_tokens=900, cached=0, predicted=None, engine_ms=None)]
    found = figures_of(base + full)
    full_of = {measure: row for (family, c, measure, v), row in found.items() if (family, c, v) == ("all", "full", "")}
    assert full_of["reuse"].value == pytest.approx((750 * 4 + 6) / 4900)
    assert (full_of["predictions exact"].value, full_of["predictions exact"].n) == (0.25, 4)
    assert full_of["right after"].value == 1 and full_of["right before"].value == 0
    assert full_of["TTFT ms"].value == pytest.approx((406 + 100) / 5) and full_of["TTFT ms, long prompts"].n == 4
    assert full_of["engine CPU ms"].n == 4 and full_of["stale selections"].value == 0
    assert ("all", "prompt_only", "stale selections", "") not in found
    change = found["all", "full", "TTFT ms change", "prompt_only"]
    assert change.n == 4, "the turn without a partner is left out"
    assert change.value == pytest.approx(406 / 1606 - 1) and change.low < change.value < change.high
    modelled = figures_of(base, modelled=True)
    assert modelled["all", "prompt_only", "modelled TTFT ms", ""].value == 62 + 0.87 * 1000 / 4


# -- routing -----------------------------------------------------------------------------------------------------------


def test_routed_requests_are_paired_and_incomplete_cells_left_out():
    def line(rule, number, cached, last=False, repeat=0):
        return {"type": "routed", "capacity": "equal", "load": "small", "rule": rule, "repeat": repeat,
                "number": number, "last": last, "cached": cached, "predicted": cached, "prompt_tokens": 100,
                "ttft_ms": 5.0, "engine_ms": None}  # fmt: skip

    records = [line("consistent_hash", 0, 0), line("consistent_hash", 1, 50, True),
               line("kv_aware", 0, 90), line("kv_aware", 0, 0), line("kv_aware", 1, 80, True),
               line("round_robin", 0, 99)]  # fmt: skip
    found = {(r.condition, r.measure): r for r in routing.rows("routing", records)}
    assert found["kv_aware", "reuse"].value == 0.4, "a cell that was begun anew counts once"
    assert found["kv_aware", "reuse difference"].value == pytest.approx(0.15)
    assert ("round_robin", "reuse") not in found and ("kv_aware", "engine CPU ms") not in found
