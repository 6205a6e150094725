"""The hot set: any registered policy decides, and a correction leaves no trace."""

import subprocess
import sys

import numpy as np
import pytest

from solarjax.plane.bridge import HotSet
from solarjax.plane.capsules import VersionRef
from solarjax.plane.errors import Invalid
from solarjax.policies.registry import POLICIES
from tests.plane.helpers import ref

DIM = 8
ONLINE = sorted(name for name, spec in POLICIES.items() if spec.online)


@pytest.fixture
def made(world):
    rng = np.random.default_rng(7)
    vectors = {name: rng.normal(size=DIM) for name in "abcdefgh"}
    for name in vectors:
        world.create(name)

    def hot(policy, capacity=3, **options):
        found = HotSet(world.tenant, world.audit, capacity, policy, **options)
        world.catalogue.listeners.append(found.written)
        return found

    return world, vectors, hot


def use(hot, vectors, names):
    rng = np.random.default_rng(3)
    for name in names:
        hot.used(VersionRef(id=name, version=1), vectors[name] + 0.1 * rng.normal(size=DIM), vectors[name])


def shown(hot):
    return sorted(r.id for r in hot.residents())


def remembered(hot):
    return sum(len(held) for held in vars(hot).values() if hasattr(held, "__len__"))


def plain_fifo(names, capacity):
    held = []
    for name in names:
        if name not in held:
            held = [*held, name][-capacity:]
    return sorted(held)


def test_fifo_keeps_what_a_plain_fifo_keeps(made):
    _, vectors, make = made
    names = "abcadbeafgah"
    hot = make("fifo")
    use(hot, vectors, names)
    assert shown(hot) == plain_fifo(names, 3)


@pytest.mark.parametrize("policy", ONLINE)
def test_a_correction_leaves_no_trace(made, policy):
    """After it the residents are those of a world in which the capsule was never used."""
    world, vectors, make = made
    names = "abcdabefacghbadceh"
    hot, other = make(policy, seed=5), make(policy, seed=5)
    use(hot, vectors, names)
    victim = hot.residents()[0].id
    # The fixed threshold is met once; every other policy fills its cache.
    size = len(set(names)) if POLICIES[policy].unbounded else 1 if policy == "solar_fixed" else 3
    assert len(hot.residents()) == size
    world.correct(f"{victim}@1")
    rng = np.random.default_rng(3)
    for name in names:
        noise = 0.1 * rng.normal(size=DIM)
        if name != victim:
            other.used(VersionRef(id=name, version=1), vectors[name] + noise, vectors[name])
    assert hot.residents() == other.residents() and victim not in shown(hot)
    hot.used(ref(f"{victim}@1"), vectors[victim], vectors[victim])
    assert victim not in shown(hot), "what has ended cannot come back"


def test_what_ended_before_the_set_was_made_does_not_enter_and_nothing_is_remembered_of_it(made):
    world, vectors, make = made
    world.correct("a@1")
    hot = make("fifo")
    size = remembered(hot)
    for i in range(50):
        world.create(f"gone{i}")
        world.correct(f"gone{i}@1")
    use(hot, vectors, "ab")
    assert shown(hot) == ["b"]
    assert remembered(hot) <= size + 3, "a use, and where it is resident"


def test_a_large_cascade_is_followed_whole(made):
    world, vectors, make = made
    hot = make("fifo")
    for i in range(120):
        world.create(f"x{i}", "a@1")
    hot.used(ref("x119@1"), vectors["a"], vectors["b"])
    hot.used(ref("h@1"), vectors["h"], vectors["h"])
    result = world.correct("a@1")
    assert result.ended == 121 > len(result.ended_sample), "the sample alone would miss it"
    assert shown(hot) == ["h"]


def test_the_history_is_bounded_and_bad_input_is_refused(made):
    _, vectors, make = made
    hot = make("fifo", history=2)
    use(hot, vectors, "abcd")
    assert shown(hot) == ["c", "d"]
    for bad in ([0.0] * DIM, [1.0] * (DIM - 1), [float("nan")] * DIM):
        with pytest.raises(Invalid, match="finite"):
            hot.used(ref("a@1"), vectors["a"], bad)
    for policy in ("no_such_policy", "oracle", "fifo,lru"):
        wrong = make(policy)
        use(wrong, vectors, "a")
        with pytest.raises(Invalid):
            wrong.residents()
    with pytest.raises(Invalid, match="capacity is 0"):
        make("fifo", capacity=0)


def test_importing_it_brings_no_jax():
    code = "import sys, solarjax.plane.bridge, solarjax.plane.sidecar.serving; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
