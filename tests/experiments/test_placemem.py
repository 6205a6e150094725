"""The memory plane's benchmark: workloads against a replay by hand, the scripted engine against a slow one, statistics
against closed forms, verdicts against edited figures."""

import json
import random

import numpy as np
import pytest

from experiments import external
from experiments import ledger as book
from experiments.claims.registry import CLAIMS
from experiments.placemem import controls, families, ledger, report, routing, standin, table
from experiments.placemem import workload as w
from experiments.placemem.cli import guarded
from experiments.placemem.loop import Plan
from experiments.placemem.parts import PARTS, Outcome

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


def turn(condition, number, **fields):
    given = {"type": "turn", "repeat": 0, "family": "support", "number": number, "condition": condition,
             "wants": "fact", "after": True, "ttft_ms": 100.0, "engine_ms": 90.0, "plane_ms": 2.0,
             "prompt_tokens": 1000, "cached": 500, "predicted": 500, "right": True, "old": False,
             "stale": False}  # fmt: skip
    return {**given, **fields}


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


# -- verdicts ----------------------------------------------------------------------------------------------------------


def world():
    """Stored parts in which every claim is true."""
    rng = np.random.default_rng(0)
    jitter = rng.uniform(0.99, 1.01, (6, 48))
    speed = {"prompt_only": 500, "text_no_cache": 400, "text_cache": 360, "text_hash": 200, "no_invalidation": 180,
             "full": 180}  # fmt: skip
    records = []
    for j, (condition, ms) in enumerate(speed.items()):
        for i in range(48):
            wrong = condition == "no_invalidation" and i >= 21
            cached = {"prompt_only": 0, "text_no_cache": 0}.get(condition, 4400)
            records.append(turn(condition, i, ttft_ms=ms * jitter[j, i], engine_ms=ms * jitter[j, i], after=i >= 21,
                                prompt_tokens=4700, cached=cached, predicted=cached, right=not wrong, old=wrong,
                                stale=None if condition == "prompt_only" else wrong and i >= 31))  # fmt: skip
    full = [turn("full", i, repeat=r) for r in range(3) for i in range(340)]
    cascades = [{"dependants": n, "nth": i, "ended": n + 1, "wall_ms": 0.9 + i / 100, "cpu_ms": 0.5 + i / 100}
                for n in (0, 1, 10) for i in range(5)]  # fmt: skip
    modes = (("snapshot", {}), ("ttl", {"stale": 9}), ("two_reads", {"torn": 2}))
    stress = [{"mode": mode, "violations": bad, "admissions": 1000, "corrections": 50, "close": 40, "fenced": 900,
               "refused": 3} for mode, bad in modes]  # fmt: skip
    rows = {
        "pilot": table.rows("pilot", records, True), "trace": table.rows("trace", records, True),
        "probe": table.rows("probe", records), "deployment": table.rows("deployment", full),
        "invalidation": controls.invalidation_rows("invalidation", cascades),
        "concurrency": controls.concurrency_rows("concurrency", stress),
    }  # fmt: skip
    config = {"turns": 340, "repeats": 3}
    return {name: Outcome(PARTS[name], config, [], found, True, 1.0) for name, found in rows.items()}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    out = tmp_path_factory.mktemp("placemem")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "RESAMPLES", 200)
        for name, outcome in world().items():
            report.save(outcome, out, f"python -m experiments.placemem run {name}")
    return out


def verdicts(out):
    return {result.id: str(result.verdict) for result in ledger.results(report.load(out))}


def test_all_claims_hold_where_they_are_true(stored):
    found = ledger.results(report.load(stored))
    assert {str(r.verdict) for r in found} == {"holds"}, [(r.id, str(r.verdict), r.figure) for r in found]
    assert {r.source for r in found} == {f"P0{i}" for i in range(1, 8)} and len(found) == len(ledger.JUDGES)


# part, condition, measure, versus, what is written, row of the ledger, the verdict that must follow
EDITS = [
    ("probe", "full", "TTFT ms change", "prompt_only", {"value": -0.5, "low": -0.55, "high": -0.4}, "p01-vLLM",
     "refuted"),
    ("probe", "full", "TTFT ms change", "prompt_only", {"high": -0.5}, "p01-vLLM", "undecided"),
    ("probe", "full", "TTFT ms change", "prompt_only", {"n": 47}, "p01-vLLM", "undecided"),
    ("pilot", "full", "stale selections", "", {"value": 1.0}, "p02-pilot", "refuted"),
    ("pilot", "no_invalidation", "stale selections", "", {"value": 0.0}, "p02-pilot", "refuted"),
    ("trace", "no_invalidation", "stale selections", "", {"value": 27.0}, "p02-trace", "holds under"),
    ("invalidation", "1 dependants", "correction ms", "", {"high": 2.0}, "p03-wall time", "undecided"),
    ("invalidation", "1 dependants", "correction CPU ms", "", {"low": 1.2, "high": 2.0}, "p03-CPU time", "refuted"),
    ("probe", "no_invalidation", "right after", "", {"value": 0.3, "low": 0.1, "high": 0.5}, "p04-without", "refuted"),
    ("probe", "full", "right after", "", {"value": 0.5, "low": 0.3, "high": 0.7},
     "p04-full p05-accuracy", "refuted"),
    ("probe", "full", "TTFT ms change", "no_invalidation", {"high": 0.2}, "p04-wall time", "undecided"),
    ("probe", "full", "engine CPU ms change", "no_invalidation", {"low": 0.06, "high": 0.2}, "p04-CPU time", "refuted"),
    ("probe", "text_no_cache", "right after", "", {"value": 0.5, "high": 0.7}, "p05-accuracy", "refuted"),
    ("probe", "text_cache", "TTFT ms change", "full", {"low": 0.2}, "p05-prefix cache on", "undecided"),
    ("probe", "text_cache", "TTFT ms change", "full", {"low": 0.1, "high": 0.3}, "p05-prefix cache on", "refuted"),
    ("probe", "no_invalidation", "right after", "", {"n": 6}, "p04-without", "holds under"),
    ("deployment", "full", "TTFT ms", "", {"n": 400}, "p06", "holds under"),
    ("concurrency", "snapshot", "violations", "", {"value": 1.0}, "p07", "refuted"),
    ("concurrency", "ttl", "violations", "", {"value": 0.0}, "p07", "undecided"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "condition", "measure", "versus", "change", "row", "verdict"), EDITS)
def test_a_verdict_follows_an_edited_figure(stored, part, condition, measure, versus, change, row, verdict):
    path = stored / f"{part}.json"
    text = path.read_text()
    data = json.loads(text)
    (found,) = [
        r for r in data["rows"]
        if (r["family"], r["condition"], r["measure"], r["versus"]) == ("all", condition, measure, versus)
    ]  # fmt: skip
    found.update(change)
    before = verdicts(stored)
    try:
        path.write_text(json.dumps(data))
        after = verdicts(stored)
    finally:
        path.write_text(text)
    moved = [name for name in before if before[name] != after[name]]
    assert " ".join(moved) == row and {before[name] for name in moved} == {"holds"}
    assert {after[name] for name in moved} == {verdict}


def test_the_ledger_takes_the_rows_over(stored, tmp_path):
    report.render(stored)
    claims = json.loads((stored / "claims.json").read_text())
    assert [c for c in claims if c["interval"] is None] and [c for c in claims if c["interval"] is not None]
    external.take(stored / "claims.json", tmp_path)
    judged = {claim.id: book.judge(claim, {}, external.load(tmp_path)) for claim in CLAIMS if claim.id[0] == "P"}
    assert {row["label"] for row in judged.values()} == {"holds"}
    assert judged["P02"]["interval"] is None and judged["P05"]["interval"] is not None
    assert judged["P06"]["command"] == "python -m experiments.placemem run deployment"


def test_a_part_that_was_not_run_gives_no_row(stored, tmp_path):
    (tmp_path / "pilot.json").write_text((stored / "pilot.json").read_text())
    assert {r.source for r in ledger.results(report.load(tmp_path))} == {"P01", "P02"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "pilots"], "pilots"), (["run", "pilot", "--conditions", "fullest"], "fullest"),
        (["render", "--out", "nowhere"], "nowhere"),
    ],
)  # fmt: skip
def test_user_errors_are_one_line(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert guarded(words) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_damaged_parts_are_named(tmp_path):
    (tmp_path / "pilot.json").write_text('{"rows": [{}]}')
    with pytest.raises(report.BenchError, match="pilot.json is no stored part"):
        report.render(tmp_path)


def test_plans_that_cannot_be_are_refused():
    with pytest.raises(report.BenchError, match="repeats is 0"):
        Plan(repeats=0)
