"""What one tenant has, on a plane with a node, is nothing to another: routes that need an engine, and `/v1`.

test_api.py does the same for the routes of a plane without nodes.
"""

import json
import threading

import pytest

from tests.plane.front import MODEL, front
from tests.plane.http import API, bearer

WORDS = "The xylophone is kept in the cellar. " * 4


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with front(tmp_path_factory.mktemp("tenants"), engines=1) as made:
        made.create("secret", WORDS)
        made.ask(headers={"X-PlaceMem-Capsules": "secret"})
        made.caught_up()
        made.last()
        yield made


def prompts(plane):
    return json.dumps([body["messages"] for body in plane.engines[0].seen])


def test_requests_are_listed_to_their_own_tenant(plane):
    assert ["secret@1"] in [r["capsules"] for r in plane.get("/requests").json()]
    assert plane.get("/requests", "two").json() == []


def test_nodes_name_the_capsules_of_their_own_tenant(plane):
    (mine,), (theirs,) = plane.get("/nodes").json(), plane.get("/nodes", "two").json()
    assert "secret@1" in mine["resident_capsules"] and theirs["resident_capsules"] == []


def place(plane, tenant, **fields):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "what?"}], **fields}
    return plane.http.post(f"{API}/placements", json=body, headers=bearer(plane.tokens[tenant]))


def test_placements_know_neither_the_others_capsules_nor_their_blocks(plane):
    own = place(plane, "one", capsules=["secret"])
    assert own.status_code == 200 and own.json()["decision"]["cached_tokens"] > 0
    answers = [place(plane, "two", capsules=[name]) for name in ("secret", "nobody")]
    assert {a.status_code for a in answers} == {404}
    assert answers[0].text == answers[1].text.replace("nobody", "secret")
    # The same prompt to the letter, of capsules that each tenant wrote itself, lies under another salt.
    for tenant in ("one", "two"):
        plane.create("twin", WORDS, tenant)
    plane.ask(headers={"X-PlaceMem-Capsules": "twin"})
    plane.caught_up()
    known = [place(plane, tenant, capsules=["twin"]).json()["decision"]["cached_tokens"] for tenant in ("one", "two")]
    assert known[0] > 0 and known[1] == 0


@pytest.mark.parametrize("asked", ["secret", "secret@1"])
def test_named_and_pinned_capsules_of_another_tenant_do_not_exist(plane, asked):
    sent = len(plane.engines[0].seen)
    answers = [
        plane.ask(tenant="two", headers={"X-PlaceMem-Capsules": name})
        for name in (asked, asked.replace("secret", "nobody"))
    ]
    assert {a.status_code for a in answers} == {404} and len(plane.engines[0].seen) == sent
    assert answers[0].text == answers[1].text.replace("nobody", "secret")


def test_retrieval_does_not_find_the_others_words(plane):
    headers = {"X-PlaceMem-Retrieve": "5"}
    plane.create("hay", "Hay is kept on the xylophone's roof.", "two")
    own = plane.ask("where is the xylophone?", headers=headers)
    assert "secret@1" in own.headers["x-placemem-capsules"] and "cellar" in prompts(plane)
    plane.engines[0].seen.clear()
    other = plane.ask("where is the xylophone?", tenant="two", headers=headers)
    named = other.headers["x-placemem-capsules"]
    assert other.status_code == 200 and "hay@1" in named and "secret" not in named
    assert "[secret v" not in prompts(plane)


def test_an_answer_kept_under_the_others_id_is_ones_own(plane):
    plane.on_loop(plane.serving.writeback.settled())  # locators of what the first tenant asked before
    before = plane.get("/capsules/secret").json(), plane.get("/state").json()
    plane.ask(tenant="two", headers={"X-PlaceMem-Writeback": "secret"})
    plane.wait(lambda: plane.get("/capsules/secret", "two").status_code == 200)
    assert plane.get("/capsules/secret", "two").json()["text"] == "Hello there!"
    assert (plane.get("/capsules/secret").json(), plane.get("/state").json()) == before


def test_the_stream_and_the_state_are_a_tenants_own(plane):
    plane.on_loop(plane.serving.writeback.settled())
    epoch = plane.get("/state", "two").json()["epoch"]
    seen = []

    def read():
        headers = bearer(plane.tokens["two"])
        with plane.http.stream("GET", f"{API}/stream?after=0", headers=headers) as answer:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    seen.append(json.loads(line[5:]))
                    if seen[-1]["capsule"] == "mark":
                        return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    plane.wait(lambda: len(seen) == epoch)
    for i in range(5):
        plane.create(f"hidden{i}", "not for you")
    assert plane.get("/state", "two").json()["epoch"] == epoch
    plane.create("mark", "the end", "two")
    reader.join(timeout=30)
    assert not reader.is_alive() and [e["epoch"] for e in seen] == list(range(1, epoch + 2))
    assert not any("hidden" in json.dumps(event) for event in seen)
