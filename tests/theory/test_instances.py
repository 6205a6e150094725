"""Instances: validation, files, conventions, and the loss table."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.policies.registry import case, parse_cases
from theory import instances
from theory.engine import play
from theory.errors import TheoryError
from theory.families.base import IRREDUCIBLE, exact_match
from theory.losses import loss_table, set_losses
from theory.model import Batch, Conventions, instance

GATE = "gated_fifo(threshold=fixed,signal=miss,fill=gated)"


def small(**changes):
    fields = {"relevance": np.eye(3), "query": np.array([0, 1, 2, -1]), "arrival": np.array([0, 1, 2, -1])}
    return instance(**{**fields, "capacity": 2, "lam": 1.0, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": 4}, r"capacity K = 4 is out of range; allowed are 1\.\.N = 3"),
        ({"lam": -1.0}, "lam = -1.0 must be finite and >= 0"),
        ({"lam": float("nan")}, "lam = nan must be finite"),
        ({"relevance": np.full((3, 3), np.inf)}, "relevance holds inf; it must be finite"),
        ({"relevance": 2 * np.eye(3)}, r"relevance holds 2.0; allowed are 0\.\.1"),
        ({"query": np.array([0, 1, 3, 0])}, r"query holds 3; allowed are 0\.\.2, or -1"),
        ({"arrival": np.array([0, 1])}, "query .* and arrival .* need one entry per step"),
        ({"arrival": np.array([0.5, 1, 2, 0])}, "arrival must hold whole numbers"),
        ({"quality": "answer_f1"}, "quality 'answer_f1' is not one of hit, recall"),
        ({"k": 0}, "k = 0 must be >= 1"),
        ({"similarity": np.zeros((3, 3))}, "equal similarity and unequal relevance"),
        ({"conventions": Conventions(initial=(0, 1, 2))}, "initial = .* at most K = 2"),
        ({"colour": 1}, "unknown field 'colour'"),
    ],
)
def test_bad_instances_are_refused(change, message):
    with pytest.raises(TheoryError, match=message):
        small(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": "any"}, "actions = 'any' is not one of online"),
        ({"additive": -1.0}, "additive = -1.0"),
        ({"fill_free": True, "actions": "store_step"}, "fill_free needs actions = online"),
    ],
)
def test_bad_conventions_are_refused(change, message):
    with pytest.raises(TheoryError, match=message):
        Conventions(**change)


def test_cosines_have_no_direction():
    """A table that is not symmetric is refused; one that is but for rounding becomes so to the bit."""
    near = np.eye(3)
    near[0, 1], near[1, 0] = 0.5, 0.5 + 1e-9
    got = small(item_similarity=near).item_similarity
    assert np.array_equal(got, got.swapaxes(1, 2))
    near[0, 1] = 0.4
    with pytest.raises(TheoryError, match="symmetric"):
        small(item_similarity=near)


def test_files_keep_every_bit(tmp_path):
    rng = np.random.default_rng(0)
    one = small(
        relevance=rng.random((3, 3)), lam=0.1, quality="max_similarity", item_similarity=np.eye(3) * 0.5,
        conventions=Conventions(initial=(2,), touch="liked", additive=0.25), name="mine",
    )  # fmt: skip
    instances.save(tmp_path / "i.json", one)
    again = instances.load(tmp_path / "i.json")
    for field in dataclasses.fields(Batch):
        left, right = getattr(one, field.name), getattr(again, field.name)
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, field.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("lam"), r"fields \['lam'\] are missing"),
        (lambda d: d.update(lam="much"), "i.json: could not convert"),
        (lambda d: d.update(capacity=9), "capacity K = 9"),
        (lambda d: d["conventions"].update(taste=1), "unknown conventions"),
        (lambda d: d.update(query=[0, 1, 2, 99999999999999999999]), "i.json"),
    ],
)
def test_bad_files_are_refused(tmp_path, change, message):
    data = instances.to_json(small())
    change(data)
    (tmp_path / "i.json").write_text(json.dumps(data))
    with pytest.raises(TheoryError, match=message):
        instances.load(tmp_path / "i.json")


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(TheoryError, match="No such file"):
        instances.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(TheoryError, match="not a JSON file"):
        instances.load(tmp_path / "bad.json")


def test_trace_needs_unit_vectors():
    with pytest.raises(TheoryError, match="cosines of norm 1.73"):
        instances.to_trace(small(relevance=np.ones((3, 3)), quality="max_similarity"))
    trace = instances.to_trace(small(conventions=Conventions(initial=(1,))))
    assert trace.num_steps == 5 and trace.query[0] == -1
    assert np.array_equal(trace.relevance_matrix(), np.eye(3))


@pytest.mark.parametrize(
    ("quality", "k"), [("hit", 2), ("recall", 2), ("f1", 3), ("precision", 2), ("mean_similarity", 2)]
)
def test_table_and_set_losses_agree(quality, k):
    """Two forms of the same loss: by rank counts over all subsets, and by sorting one content."""
    rng = np.random.default_rng(1)
    order = rng.permuted(np.tile(np.arange(1, 6) / 8, (4, 6, 1)), axis=2)
    contents = rng.random((4, 6, 5)) < 0.5
    batch = Batch(
        rng.integers(0, 2, (4, 6, 5)),
        order,
        np.tile(np.arange(6), (4, 1)),
        np.zeros((4, 6), int),
        np.ones(4),
        3,
        k,
        quality,
    )
    with jax.enable_x64(True):
        table = np.asarray(
            loss_table(jnp.asarray(batch.relevance), jnp.asarray(batch.similarity), k=k, quality=quality)
        )
    mask = (contents << np.arange(5)).sum(axis=2)
    picked = np.take_along_axis(table, mask[:, :, None], axis=2)[:, :, 0]
    np.testing.assert_allclose(set_losses(batch, contents), picked, atol=1e-12)


def gate(requests, arrivals, items, lam, **conventions):
    """N, and the contents of a gated cache of capacity 1, step by step."""
    one = exact_match(requests, arrivals, items, 1, lam, "x", conventions=Conventions(**conventions))
    played = play(parse_cases(GATE)[0][0], one)
    return int(played.changed.sum()), [np.flatnonzero(row).tolist() for row in played.contents[0, 0]]


def test_threshold_reached_or_passed():
    """A5: two misses make c = tau exactly."""
    miss = [IRREDUCIBLE] * 4
    assert gate(miss, [0, 0, 1, 1], 2, 1.0)[1] == [[], [], [0], [0], [1]]
    assert gate(miss, [0, 0, 1, 1], 2, 1.0, fires="above")[1] == [[], [], [], [1], [1]]
    with pytest.raises(TheoryError, match="threshold = fixed"):
        play(case("solar"), exact_match(miss, [0] * 4, 1, 1, 1.0, "x", conventions=Conventions(fires="above")))


def test_resident_arrival_resets_or_not():
    """A6: at the fourth miss the resident itself arrives; ignored, the gate opens for the next item."""
    miss, arrivals = [IRREDUCIBLE] * 5, [0, 0, 0, 0, 1]
    assert gate(miss, arrivals, 2, 1.0)[1][-1] == [0]
    assert gate(miss, arrivals, 2, 1.0, resident_arrival="ignored")[1][-1] == [1]


def test_overshoot_dropped_or_carried():
    """A8: tau = 1.5; two misses pass it by 1/2, which one more miss completes if it is carried."""
    miss, arrivals = [IRREDUCIBLE] * 3, [0, 0, 1]
    assert gate(miss, arrivals, 2, 0.75)[1][-1] == [0]
    assert gate(miss, arrivals, 2, 0.75, overshoot="carried")[1][-1] == [1]


def test_fill_and_initial_content():
    """A1, A3, A7."""
    one = exact_match([0, 1], [0, 1], 2, 1, 1.0, "x")
    for free, count in ((False, 2), (True, 1)):
        played = play(case("fifo"), dataclasses.replace(one, conventions=Conventions(fill_free=free)))
        assert played.changed.sum() == count and played.admitted.sum() == 2
    started = play(case("fifo"), dataclasses.replace(one, conventions=Conventions(initial=(1,))))
    assert started.contents[0, 0, 0].tolist() == [False, True] and started.changed.sum() == 2
    assert gate([IRREDUCIBLE], [0], 1, 1.0, fill="free")[1] == [[], [0]]
    assert gate([IRREDUCIBLE], [0], 1, 1.0)[1] == [[], []]


def test_additive_constant_comes_off_the_cost():
    one = exact_match([0, 1], [0, 1], 2, 1, 1.0, "x")
    assert play(case("fifo"), dataclasses.replace(one, conventions=Conventions(additive=0.5))).cost[0, 0] == 3.5


def test_play_refuses(tmp_path):
    one = exact_match([0, 1], [0, 1], 2, 1, 1.0, "x")
    with pytest.raises(TheoryError, match="sees the future"):
        play(case("oracle"), one)
    with pytest.raises(TheoryError, match="no numeric parameter 'speed'"):
        play(case("fifo"), one, params={"speed": np.ones(1)})
    with pytest.raises(TheoryError, match="no regret gate"):
        play(case("fifo"), one, gauge=True)
    with pytest.raises(TheoryError, match="keys = 0"):
        play(case("fifo"), one, keys=0)
