"""The four gates against a plain-Python gate on a stream without chance, and the corrected laws by hand."""

import itertools

import numpy as np
import pytest

from theory import bounds, checks_admissions
from theory.bounds import admissions_bootstrap, bootstrap_size
from theory.errors import TheoryError
from theory.families.base import exact_match
from theory.gates import GATES, MARKS, growth_cost, growth_period, pass_gate, unlearning_lag
from theory.results import Budget, Verdict

SETTINGS = ((0.0213, 1.07), (0.0517, 0.53))
STEPS = 220


def plain_gate(gate, g, lam, steps):
    """Opening steps, summed loss, thresholds after each step, and overshoots; float32, as the gates compute."""
    one = np.float32
    numbers = dict(GATES[gate].traced)
    lam, tau = one(lam), one(0)
    if gate == "fixed":
        tau = one(2) * lam
    elif gate == "paper_ema":
        tau = one(numbers["tau0"])
    else:
        tau = np.sqrt(lam) if gate == "release" else np.sqrt(2 * lam)
    c, since, loss_hat, window = one(0), 0, one(0 if gate == "release" else 1), []
    opened, total, taus, over = [], 0.0, [], 0.0
    for t in range(steps):
        loss = min(one(g) * one(since), one(1))
        total += float(loss)
        c = c + loss
        if gate == "release":
            window = [*window, loss][-30:]
            if len(window) == 30:
                spread = max(2 * np.std(np.array(window, np.float32)), one(0.1))
                loss_hat = spread if loss_hat == 0 else one(0.7) * loss_hat + one(0.3) * spread
                tau = np.clip(np.sqrt(2 * lam / loss_hat), one(0.1), one(5))
            fires = c > tau
        else:
            fires = c >= tau and c > 0
        if fires:
            opened.append(t)
            over += float(c - tau)
            c, since = one(0), 0
        else:
            since += 1
        if gate == "paper_ema":
            tau = (1 - one(numbers["ema"])) * tau + one(numbers["ema"]) * loss
        if gate == "eoq":
            loss_hat = (1 - one(numbers["ema"])) * loss_hat + one(numbers["ema"]) * loss
            tau = np.sqrt(2 * lam / loss_hat)
        taus.append(float(tau))
    return opened, total, taus, over


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_does_what_a_plain_loop_does(gate):
    found = pass_gate(gate, "growth", [s[0] for s in SETTINGS], [s[1] for s in SETTINGS], STEPS, 2, 0)
    for (g, lam), run in zip(SETTINGS, found, strict=True):
        opened, total, taus, over = plain_gate(gate, g, lam, STEPS)
        assert len(opened) > 3
        assert run.opened.tolist() == [len(opened)] * 2
        np.testing.assert_allclose(run.loss, total, rtol=1e-5)
        np.testing.assert_allclose(run.overshoot, over, rtol=1e-3)
        marks = [m for m in MARKS if m <= STEPS]
        np.testing.assert_allclose(run.tau[: len(marks), 0], [taus[m - 1] for m in marks], rtol=1e-4)
        np.testing.assert_allclose(run.tau_late, np.mean(taus[STEPS // 2 :]), rtol=1e-4)


def test_the_best_period_by_trying_all():
    for g, lam in itertools.product((0.003, 0.01, 0.07), (0.3, 1.0, 5.0)):
        n = np.arange(1, 400)
        best = int(n[np.argmin(growth_cost(n, g, lam))])
        assert growth_period(g, lam) == best
        # About sqrt(2 lam / g) steps, over which about lam is lost, whatever g is.
        assert abs(best - bounds.eoq_period(lam, g)) <= 1
        assert abs(g * best * (best - 1) / 2 - bounds.eoq_accumulated(lam)) <= g * (best + 1)


def test_costs_of_a_period_by_adding_up():
    for n in (1, 2, 7):
        assert growth_cost(np.array(n), 0.1, 2.0) == pytest.approx((2.0 + sum(0.1 * j for j in range(n))) / n)


def test_a_used_resident_sinks_after_100_queries_per_use():
    assert abs(unlearning_lag(1, 260) - bounds.unlearning_lag(1)) <= 5
    with pytest.raises(TheoryError, match="still above 1/2 after 40"):
        unlearning_lag(0, 40)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gate": "x"}, "gate 'x'"),
        ({"stream": "x"}, "stream 'x'"),
        ({"level": [0.0]}, r"levels \[0.0\]"),
        ({"stream": "graded", "level": [0.6]}, r"must lie in \(0, 0.5\]"),
        ({"lam": [-1.0]}, r"lam = \[-1.0\] must be positive"),
        ({"lam": [float("inf")]}, r"lam = \[inf\] must be positive and finite"),
    ],
)
def test_impossible_streams_are_refused(change, message):
    fields = {
        "gate": "fixed",
        "stream": "bernoulli",
        "level": [0.5],
        "lam": [1.0],
        "steps": 4,
        "keys": 1,
        "root_key": 0,
    }
    with pytest.raises(TheoryError, match=message):
        pass_gate(**{**fields, **change})


def bootstrapped(signals, capacity, tau):
    """Writes of the release's gate with a fixed threshold, every arrival new; from an empty cache, oldest out first."""
    held, c, writes = [], 0.0, 0
    for t, signal in enumerate(signals):
        c += signal
        if c > tau or len(held) < min(max(capacity // 2, 5), 25):
            held = [*held, t][-capacity:]
            writes, c = writes + 1, 0.0
    return writes


def test_the_bound_with_bootstrap_over_every_stream():
    """All 3^8 streams of signals 0, 1/2, 1: never broken, and met with equality at every capacity."""
    tau, steps = 0.75, 8
    for capacity in (1, 2, 3, 4, 5, 6, 8, 11, 12):
        slack = []
        for signals in itertools.product((0.0, 0.5, 1.0), repeat=steps):
            limit = admissions_bootstrap(sum(signals), tau, capacity, steps)
            slack.append(limit - bootstrapped(signals, capacity, tau))
        assert min(slack) == 0, capacity
    # Below five slots the bootstrap never ends: every new arrival is written, whatever the signal is.
    assert bootstrapped([0.0] * 50, 4, tau) == 50 == admissions_bootstrap(0.0, tau, 4, 50)
    assert bootstrapped([0.0] * 50, 5, tau) == 5 == admissions_bootstrap(0.0, tau, 5, 50)
    assert [bootstrap_size(k) for k in (1, 5, 12, 50, 99)] == [5, 5, 6, 25, 25]


def test_the_release_itself_writes_every_arrival_below_five_slots():
    """Every item new, every query met by what has just arrived or by nothing: the registered gate, not the loop."""
    one = exact_match([-1] * 12, list(range(12)), 12, 4, 5.0, "fresh")
    assert checks_admissions.count("release", one).admitted.tolist() == [12]


def test_a_planted_bound_is_refuted(tmp_path, monkeypatch):
    """The formula that forgets K < 5, planted in `bounds`: the check that holds with the derived one refutes it."""
    monkeypatch.setattr(checks_admissions, "GATES", {"release": "gated_fifo"})
    monkeypatch.setattr(checks_admissions, "CAPACITIES", (3,))
    budget = Budget(full=False, keys=2, root_key=0, workdir=tmp_path)
    right = checks_admissions.mod_bound_bootstrap.run(budget)
    assert right.verdict is Verdict.HOLDS and right.figure >= 0

    def forgetful(signal_sum, tau_min, K, T):
        return min(bootstrap_size(K), K) + bounds.admissions_by_loss(signal_sum, tau_min)

    monkeypatch.setattr(bounds, "admissions_bootstrap", forgetful)
    wrong = checks_admissions.mod_bound_bootstrap.run(budget)
    assert wrong.verdict is Verdict.REFUTED and wrong.figure < 0
