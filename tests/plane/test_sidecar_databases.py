"""What of the sidecar depends on its database: admission, fence, overlap and write-back, on every kind of one."""

import json

import pytest

from tests.plane.front import front


@pytest.fixture(scope="module")
def plane(new_url, tmp_path_factory):
    with front(tmp_path_factory.mktemp("databases"), database=new_url()) as made:
        yield made


def epoch(plane):
    """Writes that the sidecar itself does in the background, such as located segments, move it too."""
    return plane.services.catalogue.state("one").epoch


def held(plane, act, capsule):
    """A streamed request that an engine holds back, before the first byte (`hold`) or after it (`pause`)."""
    plane.fresh()
    for engine in plane.engines:
        engine.script.append(act)
    answer = plane.asking("code?", headers={"X-PlaceMem-Capsules": capsule}, stream=True)
    request = plane.held()
    for engine in plane.engines:
        engine.script.clear()

    def finish():
        request.release()
        return answer()

    return finish


def test_the_database_is_the_one_that_was_asked_for(plane, backend):
    assert plane.services.catalogue.database.is_sqlite == (backend == "sqlite")


def test_named_capsules_are_used_and_what_was_kept_ends_with_a_correction(plane):
    plane.create("refund", "Refunds are possible for 30 days. " * 4, stability="stable")
    plane.create("ship", "Shipping takes 5 days. " * 4)
    plane.create("secret", "Tenant two's own words", tenant="two")
    used = {"X-PlaceMem-Capsules": "ship,refund"}
    for _ in range(2):  # the second may be served from what the first left in the sidecar
        before = epoch(plane)
        answer = plane.ask("How long?", headers=used)
        assert answer.status_code == 200 and answer.headers["x-placemem-capsules"] == "refund@1, ship@1"
        assert before <= int(answer.headers["x-placemem-epoch"]) <= epoch(plane)
    result = plane.correct("refund@1", "Refunds are possible for 14 days. " * 4)
    answer = plane.ask("How long?", headers=used)
    assert answer.headers["x-placemem-capsules"] == "ship@1, refund@2", "the new version is not marked stable"
    assert int(answer.headers["x-placemem-epoch"]) >= result.epoch
    assert plane.ask("x", headers={"X-PlaceMem-Capsules": "secret"}).status_code == 404
    assert plane.ask("x", headers={"Authorization": "Bearer sjp_bad"}).status_code == 401


def test_a_correction_before_the_first_byte_means_another_admission(plane):
    plane.create("code", "The code is 17. " * 6)
    finish = held(plane, "hold", "code")
    result = plane.correct("code@1", "The code is 18. " * 6)
    answer = finish()
    assert answer.status_code == 200 and answer.headers["x-placemem-capsules"] == "code@2"
    assert int(answer.headers["x-placemem-epoch"]) >= result.epoch
    assert answer.headers["x-placemem-fence"] == "readmitted=1" and plane.last().readmitted == 1


def test_a_stream_that_a_correction_overlaps_is_reported(plane):
    plane.create("read", "The code is 17. " * 6)
    finish = held(plane, "pause", "read")
    plane.correct("read@1", "Corrected while you read.")
    answer = finish()
    assert answer.text.rstrip().endswith("data: [DONE]")
    report = json.loads(next(line for line in answer.text.split("\n") if line.startswith(": placemem "))[11:])
    assert report["overlapped"] == ["read@1"] == list(plane.last().overlapped)


def test_answers_and_segments_are_written_back_and_die_with_their_source(plane):
    plane.create("fact", "The code is 17. " * 5)
    plane.fresh()
    used = {"X-PlaceMem-Capsules": "fact", "X-PlaceMem-Writeback": "note"}
    assert plane.ask("code?", headers=used, stream=True).status_code == 200
    plane.wait(lambda: plane.get("/capsules/note").status_code == 200)
    note = plane.services.catalogue.get("one", "note")
    assert note.text == "Hello there!" and [str(ref) for ref in note.depends_on] == ["fact@1"]
    plane.wait(lambda: plane.services.artifacts.of_capsule("one", "fact"))
    result = plane.correct("fact@1", "The code is 18.")
    assert result.artifacts_ended["kv_segment"] >= 1 and result.ended >= 2
    assert plane.ask("x", headers={"X-PlaceMem-Capsules": "note"}).status_code == 404
