"""A live replay decides as the engine does: the same feedback gives the same cache, step by step, for every policy.

The engine runs the recorded feedback as a trace: one item a step, offered after its own question, and a table of answer
qualities that holds, for each question, the recorded score whatever was retrieved. The first question finds an empty
cache, which the engine scores 0, so its recorded score is 0; what a gate hears there has a test of its own.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solarjax.core.execute import _maker
from solarjax.core.lanes import Lanes, Rules
from solarjax.core.rollout import rollout
from solarjax.core.tables import Schedule, Tables, workload_tables
from solarjax.core.trace import NO_ITEM
from solarjax.policies.registry import POLICIES, case
from solarjax.replay import stepper
from solarjax.replay.errors import BadOption
from tests.oracles.gates import RegretGate

STEPS, DIM, CAPACITY, K = 24, 6, 3, 3
ONLINE = sorted(name for name, spec in POLICIES.items() if spec.online)
SEED = 5


@pytest.fixture(scope="module", autouse=True)
def few_programs_stay():
    """Sixty programs are of no use to other tests."""
    yield
    stepper.program.cache_clear()


@pytest.fixture(scope="module")
def recorded():
    """(questions, items, scores): unit rows with some clustering, and scores on both sides of 0.5."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(4, DIM))
    rows = [centres[rng.integers(0, 4, STEPS)] + 0.4 * rng.normal(size=(STEPS, DIM)) for _ in range(2)]
    questions, items = ((r / np.linalg.norm(r, axis=1, keepdims=True)).astype(np.float32) for r in rows)
    scores = rng.choice(np.array([0.0, 0.2, 0.55, 1.0], np.float32), STEPS)
    scores[0] = 0
    return questions, items, scores


def settings_of(name):
    """Gates that open now and then within 24 steps; every victim rule gets work."""
    params = POLICIES[name].params
    wanted = {"signal": "miss", "fill": "free", "lam": 0.5, "p": 0.5}
    return case(name, **{k: v for k, v in wanted.items() if k in params})


def engine(one, recorded, feedback):
    """(admitted, slot, evicted, retrieved) of the engine's rollout."""
    questions, items, scores = recorded
    slots = STEPS if one.spec.unbounded else CAPACITY
    needs = one.needs
    rules = Rules(
        make=_maker(one.spec.make, one.static), num_slots=slots, k=K, quality="answer_recall", feedback=feedback,
        costly_victim=needs.costly_victim, candidate_similarity=needs.candidate_similarity, pairwise=needs.pairwise,
        per_step=True,
    )  # fmt: skip
    relevance = jnp.zeros((STEPS, STEPS), bool)
    similarity, _, total, near = workload_tables(jnp.asarray(items), jnp.asarray(questions), relevance, True)
    tables = Tables(
        similarity[:, None], relevance[:, None], total[:, None], near[None],
        jnp.broadcast_to(jnp.asarray(scores)[:, None, None], (STEPS, 1, STEPS)),
    )  # fmt: skip
    number = jnp.arange(STEPS, dtype=jnp.int32)[:, None]
    schedule = Schedule(
        query=number, arrival=number, arrival_on_miss=None, mode=jnp.full((STEPS, 1), 3, jnp.uint8),
        second_half=jnp.zeros((STEPS, 1), bool), slope_weight=jnp.zeros((STEPS, 1), jnp.float32),
    )  # fmt: skip
    zero = jnp.zeros(1, jnp.int32)
    lanes = Lanes(
        zero, zero, jnp.full(1, slots, jnp.int32), jnp.asarray(stepper.lane_key(0, "trace", SEED)).reshape(2, 1),
        {name: jnp.full(1, value, jnp.float32) for name, value in one.traced},
    )  # fmt: skip
    _, outcome = jax.jit(rollout, static_argnums=0)(rules, tables, schedule, lanes)
    return [np.asarray(x)[..., 0] for x in (outcome.admitted, outcome.slot, outcome.evicted, outcome.retrieved)]


def live(one, recorded, feedback):
    """The same of the stepper, one question at a time."""
    steps = stepper.Stepper(one, CAPACITY, STEPS, DIM, stepper.lane_key(0, "trace", SEED), k=K, feedback=feedback)
    rows = []
    for question, item, score in zip(*recorded, strict=True):
        found = steps.look(question)
        done = steps.decide(item, float(score))
        rows.append((done.admitted, done.slot, done.evicted, found.items))
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("name", ONLINE)
def test_decisions_equal_the_engines_step_by_step(name, recorded):
    # Feedback that tells good answers from bad ones, so the recorded scores matter beyond the gate.
    expected = engine(settings_of(name), recorded, "liked_disliked")
    got = live(settings_of(name), recorded, "liked_disliked")
    for what, theirs, ours in zip(("admitted", "slot", "evicted", "retrieved"), expected, got, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{name}: {what}")
    if name not in ("unlimited", "keep_first"):
        assert (got[2] != NO_ITEM).any(), "nothing was ever evicted, so no victim rule was compared"


def test_the_score_decides(recorded):
    questions, items, scores = recorded
    one = settings_of("solar")
    usual, worse = live(one, recorded, "retrieved"), live(one, (questions, items, 0 * scores), "retrieved")
    assert (usual[0] != worse[0]).any()


@pytest.mark.parametrize(
    "params",
    [
        {"threshold": "fixed", "lam": 0.7},
        {"threshold": "paper_ema"},
        {"threshold": "eoq", "lam": 0.3},
        {"threshold": "release", "lam": 0.3},
    ],
    ids=lambda params: params["threshold"],
)
def test_a_gate_hears_the_answer_of_an_empty_cache_too(params, recorded):
    """Spec 5: the signal is 1 - F1. With `fill=gated` the cache stays empty until the first opening, and the first
    answers are good. Expected: the gate in plain Python (tests/oracles), fed with 1 - F1."""
    questions, items, _ = recorded
    f1 = np.random.default_rng(4).choice(np.array([0.0, 0.25, 0.75, 1.0], np.float32), STEPS)
    f1[:4] = 1.0, 1.0, 0.75, 1.0
    one = case("solar", signal="miss", fill="gated", **params)
    admitted = live(one, (questions, items, f1), "retrieved")[0]
    gate = RegretGate(signal="miss", fill="gated", **params)
    expected = [gate.admit(SimpleNamespace(shown=True, miss=1 - float(score), candidate=0)) for score in f1]
    assert admitted.tolist() == expected
    first = expected.index(True)
    assert first >= 2 and sum(expected) > 2, "the cache is empty for a while, and the gate opens afterwards"
    # A signal of 1 for as long as the cache is empty would open it earlier.
    deaf = RegretGate(signal="miss", fill="gated", **params)
    assert any(deaf.admit(SimpleNamespace(shown=True, miss=1.0, candidate=0)) for _ in range(first))


def test_programs_are_shared_and_bad_use_is_refused(recorded):
    questions, items, _ = recorded
    one = settings_of("fifo")
    made = [stepper.Stepper(one, CAPACITY, STEPS, DIM, stepper.lane_key(0, t, 0), k=K) for t in ("x", "y")]
    assert made[0]._program is made[1]._program
    with pytest.raises(RuntimeError, match="needs a look-up"):
        made[0].decide(items[0], 1.0)
    made[0].look(questions[0])
    with pytest.raises(RuntimeError, match="twice"):
        made[0].look(questions[0])
    made[0].decide(items[0], 1.0)
    assert made[0].residents() == [0] and made[1].residents() == []
    made[0].look(questions[1])
    done = made[0].decide(items[1], 1.0, frozen=True)
    assert not done.admitted and made[0].residents() == [0]
    with pytest.raises(BadOption, match="sees the future"):
        stepper.Stepper(case("oracle"), CAPACITY, STEPS, DIM, stepper.lane_key(0, "x", 0))
    with pytest.raises(BadOption, match="feedback 'loved' is unknown"):
        stepper.rules_of(one, CAPACITY, K, "loved", 0.5)
