"""What each operation ends, and what it leaves alone."""

import pytest

from solarjax.plane.capsules import VersionRef
from solarjax.plane.errors import Conflict, Invalid, NotFound
from tests.plane.helpers import HOUR, content, draft, kv, ref, refs, vector


def family(world):
    """fact -> summary -> plan, fact -> plan, and a sibling of each that hangs on something else."""
    world.create("fact")
    world.create("other")
    world.create("summary", "fact@1")
    world.create("plan", "fact@1", "summary@1")
    world.create("sibling", "other@1")


def test_a_correction_ends_everything_derived_and_nothing_else(world):
    family(world)
    result = world.correct("fact@1", text="right")
    assert result.ended == 3 and refs(result.ended_sample) == ["fact@1", "summary@1", "plan@1"]
    assert world.in_force() == {"fact@2", "other@1", "sibling@1"}
    assert world.get("fact").text == "right"
    with pytest.raises(NotFound):
        world.get("summary")
    assert world.get("summary", version=1).ended_epoch == result.epoch


def test_a_preview_says_what_a_correction_then_does(world):
    family(world)
    world.catalogue.attach(world.intent, kv("fact@1", "other@1"))
    world.catalogue.attach(world.intent, kv("sibling@1"))
    before = world.in_force()
    preview = world.catalogue.preview(world.tenant, ref("fact@1"))
    assert world.in_force() == before, "a preview changed something"
    result = world.correct("fact@1")
    assert {str(i.ref) for i in preview.impacts} == world.ended_by(result.epoch)
    assert (preview.ended, preview.artifacts_ended) == (result.ended, result.artifacts_ended) == (3, {"kv_segment": 1})
    assert [(str(i.ref), i.depth, str(i.via)) for i in preview.impacts] == [
        ("fact@1", 0, "None"), ("summary@1", 1, "fact@1"), ("plan@1", 1, "fact@1"),
    ]  # fmt: skip


def test_the_audit_says_who_why_when_and_by_which_path(world):
    world.create("a")
    world.create("b", "a@1")
    world.create("c", "b@1")
    result = world.correct("a@1")
    (ending,) = world.audit.why(world.tenant, ref("c@1"))
    assert (ending.event.actor, ending.event.reason, ending.event.epoch) == ("tester", "because", result.epoch)
    assert ending.cause == "derived" and refs(ending.path) == ["a@1", "b@1", "c@1"]
    assert world.audit.why(world.tenant, ref("a@2")) == []
    events = world.audit.events(world.tenant)
    assert [e.operation for e in events] == ["create", "create", "create", "correct"]
    assert [e.epoch for e in events] == [1, 2, 3, 4] and events[0].at < events[3].at
    assert [e.epoch for e in world.audit.events(world.tenant, capsule="a", after=1)] == [4]


def test_a_cascade_ends_on_a_cycle_and_counts_each_once(world):
    for name in "abc":
        world.create(name, begin=world.clock.now - HOUR)
    for source, derived in ("ab", "bc", "ca"):
        world.catalogue.link(world.intent, ref(f"{source}@1"), ref(f"{derived}@1"))
    assert world.catalogue.preview(world.tenant, ref("b@1")).ended == 3
    result = world.correct("b@1")
    assert result.ended == 3 and world.ended_by(result.epoch) == {"a@1", "b@1", "c@1"}
    # The explanation must lead to the change also where the graph has no beginning.
    (ending,) = world.audit.why(world.tenant, ref("a@1"))
    assert refs(ending.path) == ["b@1", "c@1", "a@1"]


def test_two_corrections_of_one_version_are_one_and_a_conflict(world):
    world.create("a")
    world.correct("a@1")
    with pytest.raises(Conflict, match="newest version is 2"):
        world.correct("a@1")
    assert [e.epoch for e in world.audit.events(world.tenant)] == [1, 2], "a refused write must not use up an epoch"


def test_a_repeated_key_gives_the_first_answer_and_writes_nothing(world):
    world.create("a")
    intent = world.intent.__class__(world.tenant, "tester", "r", key="k1")
    first = world.catalogue.correct(intent, ref("a@1"), content("x"))
    again = world.catalogue.correct(intent, ref("a@1"), content("x"))
    assert again.replayed and again.model_copy(update={"replayed": False}) == first
    assert world.catalogue.state(world.tenant).epoch == first.epoch
    with pytest.raises(Conflict, match="used before"):
        world.catalogue.correct(intent, ref("a@1"), content("y"))
    # The invented id of a create is part of the first answer too.
    intent = world.intent.__class__(world.tenant, "tester", "r", key="k2")
    made = [world.catalogue.create(intent, draft(None, "no name")).ref for _ in range(2)]
    assert made[0] == made[1]


def test_superseding_keeps_the_past(world):
    start = world.clock.now
    world.create("price", begin=start - 10 * HOUR)
    world.create("offer", "price@1", begin=start - 9 * HOUR)
    world.supersede("price@1", begin=start - 2 * HOUR)
    assert world.in_force() == {"price@2"}
    assert world.in_force(at=start - 3 * HOUR) == {"price@1", "offer@1"}
    assert world.in_force(at=start - 2 * HOUR) == {"price@2"}, "the window is half open"
    assert world.in_force(epoch=2) == {"price@1", "offer@1"}, "as the catalogue knew it before"


def test_superseding_in_the_future_lets_the_old_version_hold_until_then(world):
    later = world.clock.now + HOUR
    world.create("rule")
    world.create("digest", "rule@1")
    world.supersede("rule@1", begin=later)
    assert world.in_force() == {"rule@1", "digest@1"}
    assert world.in_force(at=later) == {"rule@2"}
    # What is derived from it now must not outlive it.
    made = world.create("late", "rule@1")
    assert world.get("late").ends_at == world.get("rule").ends_at and made.ref.version == 1


def test_history_can_be_corrected_after_it_was_superseded(world):
    start = world.clock.now
    world.create("a", begin=start - 10 * HOUR)
    world.supersede("a@1", begin=start - 5 * HOUR)
    result = world.correct("a@1", text="the past was different")
    assert str(result.ref) == "a@3" and result.ended == 1
    assert world.in_force(at=start - 6 * HOUR) == {"a@3"} and world.in_force() == {"a@2"}
    with pytest.raises(Conflict):
        world.supersede("a@1", begin=start - 7 * HOUR)
    with pytest.raises(Conflict):
        world.supersede("a@3", begin=start - 2 * HOUR)  # it holds no longer then


def test_a_back_dated_superseding_fits_between(world):
    start = world.clock.now
    world.create("a", begin=start - 10 * HOUR)
    world.supersede("a@1", begin=start - 2 * HOUR)
    world.supersede("a@1", begin=start - 6 * HOUR)
    held = {hours: world.in_force(at=start - hours * HOUR) for hours in (9, 5, 1)}
    assert held == {9: {"a@1"}, 5: {"a@3"}, 1: {"a@2"}}


def test_expiring_ends_what_was_derived_at_the_same_instant(world):
    world.create("a")
    world.create("b", "a@1")
    at = world.clock.now + HOUR
    assert world.expire("a@1", at).ended == 2
    assert world.in_force(at=at - 1) == {"a@1", "b@1"} and world.in_force(at=at) == set()
    with pytest.raises(Conflict):
        world.expire("a@1", at + 1)
    assert world.expire("a@1", at - 5).ended == 2, "an earlier end is stronger"
    assert world.in_force(at=at - 5) == set()


def test_a_derived_capsule_can_be_corrected_and_keeps_its_place(world):
    family(world)
    result = world.correct("summary@1", "fact@1", text="a better summary")
    assert world.ended_by(result.epoch) == {"summary@1", "plan@1"}
    assert world.in_force() == {"fact@1", "other@1", "sibling@1", "summary@2"}
    assert world.correct("fact@1").ended == 2  # fact@1 and summary@2: the new edge counts


def test_nothing_can_be_derived_from_what_has_ended(world):
    world.create("a")
    world.correct("a@1")
    for attempt in (
        lambda: world.create("b", "a@1"),
        lambda: world.correct("a@2", "a@1"),
        lambda: world.correct("a@2", "a@2"),
        lambda: world.create("b", "missing@1"),
        lambda: world.catalogue.attach(world.intent, kv("a@1")),
        lambda: world.catalogue.link(world.intent, ref("a@1"), ref("a@2")),
    ):
        with pytest.raises(Conflict):
            attempt()
    assert world.in_force() == {"a@2"} and world.catalogue.state(world.tenant).epoch == 2


def test_a_dependency_learnt_later_cannot_outlive_its_source(world):
    at = world.clock.now + HOUR
    world.create("short", end=at)
    world.create("long")
    with pytest.raises(Conflict, match="outlive"):
        world.catalogue.link(world.intent, ref("short@1"), ref("long@1"))
    world.expire("long@1", at - 5)
    with pytest.raises(Conflict):  # now it is the other way round
        world.catalogue.link(world.intent, ref("long@1"), ref("short@1"))
    world.catalogue.link(world.intent, ref("short@1"), ref("long@1"))
    assert world.correct("short@1").ended == 2


def test_deleting_ends_all_versions_and_a_second_time_none(world):
    start = world.clock.now
    world.create("a", begin=start - HOUR)
    world.supersede("a@1")
    world.create("b", "a@2")
    with pytest.raises(Conflict, match="is 2, not 1"):
        world.delete("a", expected=1)
    assert world.delete("a", expected=2).ended == 3
    assert world.in_force() == world.in_force(at=start - 1) == set()
    assert world.delete("a").ended == 0
    with pytest.raises(NotFound):
        world.delete("never")


def test_re_adding_and_restoring_resurrect_nothing(world):
    world.create("a", text="first")
    world.create("b", "a@1")
    world.delete("a")
    assert str(world.create("a", text="second").ref) == "a@2"
    with pytest.raises(Conflict):
        world.restore("a@1")  # version 2 holds, without end
    world.delete("a")
    assert str(world.restore("a@1").ref) == "a@3"
    assert world.get("a").text == "first"
    assert world.in_force() == {"a@3"}, "what was derived from the deleted version stays ended"
    with pytest.raises(Conflict):
        world.restore("b@1")  # its source does not hold


def test_restoring_an_expired_version_lets_it_go_on_where_it_ended(world):
    start = world.clock.now
    world.create("a", begin=start - 3 * HOUR)
    world.expire("a@1", start - HOUR)
    assert str(world.restore("a@1").ref) == "a@2"
    held = [world.in_force(at=at) for at in (start - HOUR - 1, start - HOUR, start)]
    assert held == [{"a@1"}, {"a@2"}, {"a@2"}]


def test_erasing_wipes_content_from_every_path(world):
    world.create("secret", text="the code is zebra", entities=("zebra",), vector=vector(1, 0))
    world.create("digest", "secret@1", text="zebra it is", summary="zebra", vector=vector(1, 1))
    world.create("kept", text="zebra crossing")
    world.catalogue.attach(world.intent, kv("digest@1", "kept@1"))
    before = world.catalogue.state(world.tenant)
    result = world.delete("secret", erase=True)
    assert (result.ended, result.erased) == (2, 2)
    for name in ("secret", "digest"):
        version = world.get(name, version=1)
        assert version.erased and version.text == "" and version.summary is None and version.entities == ()
        assert version.provenance.source == "erased"
        with pytest.raises(Invalid, match="erased"):
            world.restore(f"{name}@1")
    assert list(world.artifacts.of_capsule(world.tenant, "kept")) == []
    assert world.catalogue.state(world.tenant).purge_epoch == before.purge_epoch + 1
    dump = world.catalogue.database.read(lambda c: everything_stored(c))
    assert "zebra crossing" in dump and dump.count("zebra") == 1 + text_copies(world.catalogue)


def everything_stored(connection):
    """All text in all tables of the tenant's database, the text index included."""
    from sqlalchemy import text

    from solarjax.plane.tables import METADATA

    names = [table.name for table in METADATA.sorted_tables]
    if connection.dialect.name == "sqlite":
        tids = connection.execute(text("SELECT tid FROM tenant")).scalars().all()
        names += [f"words_of_{tid}" for tid in tids]
    else:
        names.append("search_document")
    return "\n".join(str(tuple(row)) for name in names for row in connection.execute(text(f"SELECT * FROM {name}")))


def text_copies(catalogue):
    """The text index keeps one more copy of what is still there, on both databases."""
    return 1


def test_artifacts_are_reusable_while_all_their_sources_hold(world):
    family(world)
    both = world.catalogue.attach(world.intent, kv("summary@1", "other@1")).artifact_id
    one = world.catalogue.attach(world.intent, kv("other@1")).artifact_id
    assert [a.reusable for a in world.artifacts.of_capsule(world.tenant, "other")] == [True, True]
    result = world.correct("fact@1")
    assert result.artifacts_ended == {"kv_segment": 1}
    state = {a.id: a.reusable for a in world.artifacts.of_capsule(world.tenant, "other")}
    assert state == {both: False, one: True}
    assert [a.id for a in world.artifacts.ended_at(world.tenant, result.epoch)] == [both]


def test_embeddings_of_ended_versions_are_counted(world):
    world.create("a", vector=vector(1, 2))
    assert world.catalogue.preview(world.tenant, ref("a@1")).artifacts_ended == {"vector": 1}
    assert world.correct("a@1").artifacts_ended == {"vector": 1}


def test_other_tenants_are_like_missing(world, shared_catalogue):
    other = type(world)(shared_catalogue)
    world.create("mine")
    for attempt in (
        lambda: other.get("mine"),
        lambda: other.get("mine", version=1),
        lambda: other.correct("mine@1"),
        lambda: other.delete("mine"),
        lambda: other.restore("mine@1"),
        lambda: other.audit.why(other.tenant, ref("mine@1")),
        lambda: other.artifacts.of_capsule(other.tenant, "mine"),
        lambda: other.gate.admit(other.tenant, ["mine"]),
        lambda: other.catalogue.history(other.tenant, "mine"),
    ):
        with pytest.raises(NotFound) as foreign:
            attempt()
        assert "does not exist" in str(foreign.value)
    with pytest.raises(Conflict):
        other.create("theirs", "mine@1")
    assert other.in_force() == set() and other.catalogue.state(other.tenant).epoch == 0
    assert world.in_force() == {"mine@1"}


def test_an_edge_between_tenants_cannot_be_written_at_all(world, shared_catalogue):
    """The schema refuses it, whatever the code above it does."""
    from sqlalchemy import insert
    from sqlalchemy.exc import IntegrityError

    from solarjax.plane import tables, versions

    other = type(world)(shared_catalogue)
    world.create("mine")
    other.create("theirs")

    def cross(connection):
        mine = versions.tenant_state(connection, world.tenant).tid
        theirs = versions.tenant_state(connection, other.tenant).tid
        source = versions.window(connection, mine, VersionRef(id="mine", version=1)).vid
        derived = versions.window(connection, theirs, VersionRef(id="theirs", version=1)).vid
        connection.execute(insert(tables.edge), {"source": source, "derived": derived, "tid": mine, "epoch": 1})

    with pytest.raises(IntegrityError):
        shared_catalogue.database.write(cross)


def test_reads_cannot_write(shared_catalogue):
    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError

    from solarjax.plane.errors import Unavailable

    with pytest.raises((DBAPIError, Unavailable)):
        shared_catalogue.database.read(lambda c: c.execute(text("UPDATE tenant SET epoch = epoch + 1")))
