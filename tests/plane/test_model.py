"""Random histories: the catalogue does, refuses and remembers exactly what the plain model says, on both databases."""

import uuid

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from solarjax.plane.capsules import VersionRef
from solarjax.plane.commit import Intent
from solarjax.plane.errors import Conflict, NotFound
from solarjax.plane.listing import Listing
from tests.plane.helpers import HOUR, START, content, draft, kv
from tests.plane.model import Model

NAMES = st.sampled_from("abcd")
HOURS = st.integers(-3, 3)
INSTANTS = [START + h * HOUR + d for h in range(-3, 8) for d in (-1, 0)]
SETTINGS = settings(
    max_examples=25, stateful_step_count=25, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def machine(catalogue, clock):
    class Histories(RuleBasedStateMachine):
        @initialize()
        def begin(self):
            clock.fixed = START
            self.model = Model()
            self.tenant = f"model-{uuid.uuid4().hex[:8]}"
            catalogue.add_tenant(self.tenant)
            self.intent = Intent(self.tenant, "model")
            self.listing = Listing(catalogue.database, catalogue.clock)
            self.known = {}

        def both(self, work, operation, *arguments):
            expected, error = self.model.attempt(operation, *arguments)
            try:
                result = work()
            except (Conflict, NotFound) as raised:
                assert type(raised) is error, f"{operation} {arguments}: {raised!r}, the model: {error or expected}"
                return
            assert error is None, f"{operation} {arguments} went through, the model: {error}"
            (name, number), ended = expected
            assert (str(result.ref), result.epoch) == (f"{name}@{number}", self.model.epoch), operation
            assert result.ended == len(ended), f"{operation} {arguments}: {result.ended_sample} instead of {ended}"
            assert set(map(str, result.ended_sample)) == {f"{n}@{v}" for n, v in ended}
            self.known[self.model.epoch] = self.model.in_force(clock.fixed), clock.fixed

        def pick(self, data, count=1, also=None):
            pool = sorted(self.model.versions) + [("a", 9)]
            return [data.draw(st.sampled_from(pool)) for _ in range(count)]

        def sources(self, data):
            return list(dict.fromkeys(self.pick(data, data.draw(st.integers(0, 2)))))

        @rule(data=st.data(), name=NAMES, begin=st.none() | HOURS, length=st.none() | st.integers(1, 4))
        def create(self, data, name, begin, length):
            sources = self.sources(data) if self.model.versions else []
            start = None if begin is None else START + begin * HOUR
            end = None if length is None else (clock.fixed if start is None else start) + length * HOUR
            made = draft(name, f"{name} text", *map(shown, sources), begin=start, end=end)
            self.both(
                lambda: catalogue.create(self.intent, made), "create", name, made.text, sources, start, end, clock.fixed
            )

        @precondition(lambda self: self.model.versions)
        @rule(data=st.data())
        def correct(self, data):
            (target,), sources = self.pick(data), self.sources(data)
            new = content("corrected", *map(shown, sources))
            work = lambda: catalogue.correct(self.intent, as_ref(target), new)  # noqa: E731
            self.both(work, "correct", target, "corrected", sources)

        @precondition(lambda self: self.model.versions)
        @rule(data=st.data(), at=HOURS)
        def supersede(self, data, at):
            (target,) = self.pick(data)
            new = content("next", begin=START + at * HOUR)
            work = lambda: catalogue.supersede(self.intent, as_ref(target), new)  # noqa: E731
            self.both(work, "supersede", target, "next", START + at * HOUR)

        @precondition(lambda self: self.model.versions)
        @rule(data=st.data(), at=HOURS)
        def expire(self, data, at):
            (target,) = self.pick(data)
            work = lambda: catalogue.expire(self.intent, as_ref(target), START + at * HOUR)  # noqa: E731
            self.both(work, "expire", target, START + at * HOUR)

        @rule(name=NAMES)
        def delete(self, name):
            self.both(lambda: catalogue.delete(self.intent, name), "delete", name)

        @precondition(lambda self: self.model.versions)
        @rule(data=st.data())
        def restore(self, data):
            (target,) = self.pick(data)
            self.both(lambda: catalogue.restore(self.intent, as_ref(target)), "restore", target)

        @precondition(lambda self: self.model.versions)
        @rule(data=st.data())
        def link(self, data):
            source, derived = self.pick(data, 2)
            work = lambda: catalogue.link(self.intent, as_ref(source), as_ref(derived))  # noqa: E731
            self.both(work, "link", source, derived)

        @precondition(lambda self: self.model.versions)
        @rule(data=st.data())
        def attach(self, data):
            sources = list(dict.fromkeys(self.pick(data, 2)))
            self.both(lambda: catalogue.attach(self.intent, kv(*map(shown, sources))), "attach", sources)

        @rule()
        def time_passes(self):
            clock.fixed = min(clock.fixed + HOUR, START + 4 * HOUR)

        @invariant()
        def the_present_agrees(self):
            if hasattr(self, "model"):
                assert self.found(None, None) == self.model.in_force(clock.fixed)

        def found(self, at, epoch):
            return {str(c.ref) for c in self.listing.capsules(self.tenant, at=at, epoch=epoch, limit=1000)}

        def teardown(self):
            if not hasattr(self, "model"):
                return
            for at in INSTANTS:
                assert self.found(at, None) == self.model.in_force(at), at
            for epoch, (held, at) in self.known.items():
                assert self.found(at, epoch) == held == self.model.in_force(at, epoch), epoch
            assert catalogue.state(self.tenant).epoch == self.model.epoch

    return Histories


class FixedClock:
    """Stands still until a history moves it."""

    fixed = START

    def __call__(self):
        return self.fixed


def shown(ref):
    return f"{ref[0]}@{ref[1]}"


def as_ref(ref):
    return VersionRef(id=ref[0], version=ref[1])


def test_random_histories_agree_with_the_plain_model(new_url):
    from solarjax.plane.catalogue import Catalogue

    clock = FixedClock()
    catalogue = Catalogue(new_url(), clock=clock)
    try:
        run_state_machine_as_test(machine(catalogue, clock), settings=SETTINGS)
    finally:
        catalogue.close()
