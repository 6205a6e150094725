"""Nothing stale after an acknowledged correction (claim P07), judged by a checker that is itself tested."""

import threading

import pytest

from scripts.plane import stress
from scripts.plane.checker import check
from solarjax.plane.admission import Fence
from solarjax.plane.capsules import VersionRef
from solarjax.plane.catalogue import Catalogue
from solarjax.plane.commit import Intent
from solarjax.plane.errors import Conflict
from solarjax.plane.hotpath import HotPath
from tests.plane.helpers import content, draft, ref


def write(epoch, made, target=None, sources=(), time=None):
    time = epoch * 100 if time is None else time
    return {"type": "write", "epoch": epoch, "started": time, "acked": time + 10, "target": target, "made": made,
            "sources": list(sources)}  # fmt: skip


def admission(epoch, started, *used, **fence):
    return {"type": "admission", "epoch": epoch, "started": started, "used": list(used), **fence}


HISTORY = [
    write(1, ["fact", 1]),
    write(2, ["summary", 1], sources=[["fact", 1]]),
    write(3, ["fact", 2], target=["fact", 1]),
]


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (admission(3, 320, ["fact", 1]), "torn"),
        (admission(2, 320, ["fact", 1]), "stale"),
        (admission(2, 320, ["summary", 1]), "stale"),  # derived from what was corrected
        (admission(3, 305, ["fact", 2], ["summary", 1]), "torn"),
        (admission(2, 305, ["fact", 2]), "torn"),
        (admission(2, 305, ["fact", 1], fence_started=311, passed=True), "fence"),
        (admission(2, 305, ["fact", 7]), "unknown"),
        (write(4, ["fact", 3], target=["fact", 1]), "lost update"),
        (write(4, ["fact", 2], target=["fact", 2]), "lost update"),
        (write(5, ["other", 1]), "order"),
        (write(4, ["other", 1], time=10), "order"),
    ],
)
def test_the_checker_catches_a_planted_violation(entry, kind):
    assert not check(HISTORY).violations
    assert {v.split(":")[0] for v in check([entry, *HISTORY]).violations} >= {kind}


@pytest.mark.parametrize(
    "entry",
    [
        admission(2, 305, ["fact", 1], ["summary", 1]),  # began before the correction was acknowledged
        admission(3, 320, ["fact", 2]),
        admission(2, 305, ["fact", 1], fence_started=320, passed=False),  # the fence caught it
        admission(2, 301, ["fact", 1], fence_started=309, passed=True),
    ],
)
def test_the_checker_accepts_what_is_allowed(entry):
    assert not check([*HISTORY, entry]).violations


@pytest.mark.parametrize("path", stress.PATHS)
def test_no_admission_after_a_correction_uses_what_it_ended(new_url, path):
    """64 clients and two racing correctors, some seconds; the full minute is `python -m scripts.plane.stress`."""
    verdict, facts = stress.run(new_url(), path=path, threads=64, seconds=1.5, rate=20.0, min_rounds=12, think=0.1)
    assert not verdict.violations, verdict.violations[:5]
    # A run without races would prove nothing: each correction was raced for and lost once, and admissions came close.
    assert verdict.writes == 3 * stress.FACTS + 4 * facts["corrections"]
    assert facts["lost_races"] == facts["corrections"] >= 12
    assert verdict.fenced > 64 and verdict.close > 0, verdict[1:]
    if path == "hot":  # what the sidecar keeps was used, and what the fence refused was asked for again
        assert facts["kept"] > 0 and facts["readmitted"] > 0, facts


async def _kept_whatever_the_epoch(self, ticket, capsules, *, again=False):
    key = (ticket.tid, tuple(capsules))
    if key not in self._kept:
        await USUAL_ADMIT(self, ticket, capsules)
    return self._kept[key].admission


async def _passed_whatever_the_epoch(self, ticket, admission):
    return Fence(epoch=admission.epoch, passed=True)


USUAL_ADMIT = HotPath.admit


@pytest.mark.parametrize(
    ("method", "broken", "kind"),
    [("admit", _kept_whatever_the_epoch, "stale"), ("fence", _passed_whatever_the_epoch, "fence")],
)
def test_a_hot_path_that_does_not_look_at_the_epoch_is_caught(new_url, monkeypatch, method, broken, kind):
    monkeypatch.setattr(HotPath, method, broken)
    verdict, _ = stress.run(new_url(), path="hot", threads=16, seconds=0.5, rate=20.0, min_rounds=8, think=0.1)
    assert any(v.startswith(kind) for v in verdict.violations), verdict[1:]


@pytest.mark.parametrize(("mode", "kind"), [("ttl", "stale"), ("two_reads", "torn")])
def test_the_controls_fail_the_same_check(new_url, mode, kind):
    verdict, _ = stress.run(new_url(), mode=mode, threads=16, seconds=0.5, rate=20.0, min_rounds=8)
    assert any(v.startswith(kind) for v in verdict.violations), verdict[1:]


def test_of_many_simultaneous_corrections_one_wins(new_url):
    catalogue = Catalogue(new_url())
    catalogue.add_tenant("t")
    intent = Intent("t", "x")
    catalogue.create(intent, draft("a", "old"))
    gate, won, lost = threading.Barrier(12), [], []

    def correct(i):
        gate.wait()
        try:
            won.append((i, catalogue.correct(intent, ref("a@1"), content(f"by {i}"))))
        except Conflict:
            lost.append(i)

    threads = [threading.Thread(target=correct, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 11)
    assert catalogue.get("t", "a").text == f"by {won[0][0]}"
    assert [c.version for c in catalogue.history("t", "a")] == [1, 2] and catalogue.state("t").epoch == 2
    catalogue.close()


def test_the_fence_tells_what_ended_since_and_by_time(world):
    world.create("a")
    world.create("b", end=world.clock.now + 1000)
    admission = world.gate.admit(world.tenant, ["a", "b"])
    assert world.gate.fence(world.tenant, admission).passed
    world.create("unrelated")
    fence = world.gate.fence(world.tenant, admission)
    assert fence.passed and fence.epoch == admission.epoch + 1, "another epoch alone is no reason to refuse"
    world.clock.now += 2000
    assert world.gate.fence(world.tenant, admission).ended == (VersionRef(id="b", version=1),)
    world.correct("a@1")
    assert {str(r) for r in world.gate.overlaps(world.tenant, admission)} == {"a@1", "b@1"}
    made_up = world.gate.check(world.tenant, 10**6, admission.refs)
    assert not made_up.passed, "an epoch that never was proves nothing"
