"""The sidecar in front of scripted engines: what engines receive, what clients get, and what is predicted."""

import json

import openai
import pytest

from tests.plane.front import MODEL, front
from tests.plane.http import bearer


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with front(tmp_path_factory.mktemp("sidecar")) as made:
        made.create("refund", "Refunds are possible for 30 days. " * 4, stability="stable")
        made.create("ship", "Shipping takes 5 days within the country. " * 4)
        made.create("secret", "Tenant two's own words", tenant="two")
        yield made


@pytest.fixture(autouse=True)
def fresh(request):
    """Engines without a past."""
    if "plane" in request.fixturenames:
        request.getfixturevalue("plane").fresh()
    yield


def seen(plane):
    return [body for engine in plane.engines for body in engine.seen]


def test_capsules_come_first_in_canonical_order_and_the_question_last(plane):
    answer = plane.ask("How long?", headers={"X-PlaceMem-Capsules": "ship, refund@1"})
    assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == "Hello there!"
    (body,) = seen(plane)
    (message,) = body["messages"]
    assert message["content"].startswith("Memory:\n[refund v1] Refunds"), "stable before normal"
    assert message["content"].index("[ship v1]") > 0 and message["content"].endswith("\n\nHow long?")
    headers = answer.headers
    assert headers["x-placemem-capsules"] == "refund@1, ship@1" and headers["x-placemem-fence"] == "passed"
    assert int(headers["x-placemem-epoch"]) == plane.services.catalogue.state("one").epoch
    assert "saved_ms=" in headers["x-placemem-terms"] and headers["x-placemem-node"] in ("a", "b")


def test_cached_tokens_are_predicted_exactly_and_requests_follow_the_blocks(plane):
    predicted, actual, nodes = [], [], set()
    for i in range(16):
        capsules = ("refund", "ship", "refund,ship")[i % 3]
        answer = plane.ask(f"Question number {i}?", headers={"X-PlaceMem-Capsules": capsules}, stream=i % 2 == 0)
        plane.caught_up()
        record = plane.last()
        predicted.append(record.predicted)
        actual.append(record.cached)
        nodes.add((capsules, record.node))
        assert answer.headers["x-placemem-predicted-cached"] == str(record.predicted)
    assert predicted == actual and sum(actual) > 1000 and len(set(actual)) >= 3, (predicted, actual)
    assert len([node for capsules, node in nodes if capsules == "ship"]) == 1, "the same capsules stay on one node"
    shown = {n["name"]: n for n in plane.get("/nodes").json()}
    assert any("refund@1" in n["resident_capsules"] for n in shown.values())
    assert all(n["resident_capsules"] == [] for n in plane.get("/nodes", tenant="two").json()), "tenants see their own"


def test_a_reset_that_an_idle_engine_does_not_tell_is_noticed(plane):
    plane.ask("warm", headers={"X-PlaceMem-Capsules": "refund", "X-PlaceMem-Session": "s"})
    plane.caught_up()
    for engine in plane.engines:
        assert plane.http.post(f"{engine.url}/reset_prefix_cache").status_code == 200
    plane.ask("warm again", headers={"X-PlaceMem-Capsules": "refund"})
    first = plane.last()
    assert first.predicted > 0 and first.cached == 0, "the plane could not know"
    plane.caught_up()
    plane.ask("and again", headers={"X-PlaceMem-Capsules": "refund"})
    second = plane.last()
    assert second.predicted == second.cached > 0
    (node,) = [n for n in plane.serving.nodes if n.name == second.node]
    assert plane.on_loop(plane.serving.monitor.reset(node)) and len(node.log.index) == 0, "its own resets it knows"
    plane.ask("once more", headers={"X-PlaceMem-Capsules": "refund"})
    assert plane.last().predicted == plane.last().cached


def test_salts_are_the_planes_own_and_differ_between_tenants(plane):
    for tenant in ("one", "two"):
        plane.ask("x", tenant=tenant, cache_salt="chosen", session_id="s", kv_transfer_params={"a": 1}, priority=-5)
    one, two = sorted(seen(plane), key=lambda body: body["cache_salt"])
    assert len({one["cache_salt"], two["cache_salt"], "chosen"}) == 3 and len(one["cache_salt"]) == 64
    assert not {"session_id", "kv_transfer_params", "priority", "request_id"} & set(one)
    salt = plane.serving.salt_secret
    assert salt.hex() not in json.dumps([one, two])


def test_nothing_of_the_client_but_its_body_and_request_id_reaches_an_engine(plane):
    plane.ask("x", headers={"X-PlaceMem-Mode": "text", "X-Request-Id": "pm-77", "X-Evil": "1", "Cookie": "c=1",
                            "TE": "trailers", "X-Forwarded-For": "1.2.3.4"})  # fmt: skip
    headers = next(h for engine in plane.engines for h in engine.headers)
    allowed = {"host", "content-type", "content-length", "x-request-id", "accept-encoding", "accept", "connection",
               "user-agent"}  # fmt: skip
    assert set(headers) <= allowed and headers["x-request-id"] == "pm-77"
    assert plane.tokens["one"] not in json.dumps(headers)
    bad = plane.ask("x", headers={"X-Request-Id": "a b"})
    assert bad.headers["x-request-id"].startswith("pm-")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-PlaceMem-Capsules": "nobody"}, 404), ({"X-PlaceMem-Capsules": "secret"}, 404),
        ({"X-PlaceMem-Capsules": "refund@7"}, 409), ({"X-PlaceMem-Capsules": "a b"}, 422),
        ({"X-PlaceMem-Capsules": "refund@0"}, 422),
        ({"X-PlaceMem-Capsules": ",".join(map("c{}".format, range(65)))}, 422),
        ({"X-PlaceMem-Retrieve": "0"}, 422), ({"X-PlaceMem-Retrieve": "two"}, 422), ({"X-PlaceMem-Mode": "fast"}, 422),
        ({"X-PlaceMem-Mode": "layer"}, 501), ({"X-PlaceMem-Tenant": "two"}, 403), ({"X-PlaceMem-Capsule": "x"}, 422),
        ({"X-PlaceMem-Writeback": "a b"}, 422), ({"X-PlaceMem-Session": "a b"}, 422),
        ({"Authorization": "Bearer sjp_bad"}, 401), ({"Authorization": "Basic x"}, 401),
    ],
)  # fmt: skip
def test_the_header_contract_is_strict(plane, headers, status):
    answer = plane.ask("x", headers=headers)
    assert answer.status_code == status and set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == status and seen(plane) == []


@pytest.mark.parametrize(
    ("raw", "status"),
    [(b"{", 400), (b"[]", 400), (b'{"model": 3}', 400), (b'{"model":"nope","messages":[]}', 404),
     (b'{"model":"tiny","messages":[{"role":"user","content":"x"}],"stream":"yes"}', 400),
     (b'{"model":"tiny","messages":[{"role":"user","content":"\\ud800"}]}', 400),
     (b"x" * 1_000_001, 413), (b"[" * 100_000, 400)],
)  # fmt: skip
def test_bad_bodies_get_one_clear_error(plane, raw, status):
    answer = plane.http.post("/v1/chat/completions", content=raw, headers=bearer(plane.tokens["one"]))
    assert answer.status_code == status and answer.json()["error"]["code"] == status and seen(plane) == []


def test_capsules_need_a_place_in_the_prompt(plane):
    used = {"X-PlaceMem-Capsules": "refund"}
    for path, body in (
        ("/v1/completions", {"prompt": ["a", "b"]}), ("/v1/chat/completions", {"messages": []}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": 7}]}),
    ):  # fmt: skip
        sent = {"messages": None, **body} if "prompt" in body else body
        assert plane.ask(path=path, headers=used, **sent).status_code == 422
    answer = plane.ask(path="/v1/completions", headers=used, messages=None, prompt="Go on")
    assert answer.status_code == 200 and seen(plane)[0]["prompt"].endswith("\n\nGo on")
    system = [{"role": "system", "content": "Be brief."}]
    plane.ask(headers=used, messages=system)
    assert [m["role"] for m in seen(plane)[-1]["messages"]] == ["system", "user"]
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "x"}}]
    plane.ask(headers=used, messages=[{"role": "user", "content": parts}])
    assert plane.last().predicted is None, "what an image becomes is not guessed at"


def test_the_retriever_chooses_when_asked(plane):
    answer = plane.ask("How many days does shipping take?", headers={"X-PlaceMem-Retrieve": "1"})
    assert answer.headers["x-placemem-capsules"] == "ship@1"
    both = plane.ask("shipping days", headers={"X-PlaceMem-Retrieve": "2", "X-PlaceMem-Capsules": "refund"})
    assert both.headers["x-placemem-capsules"] == "refund@1, ship@1"
    none = plane.ask("zebra", headers={"X-PlaceMem-Retrieve": "3"})
    assert none.status_code == 200 and none.headers["x-placemem-capsules"] == ""


def test_the_placement_contract_decides_without_sending(plane):
    plane.ask("warm", headers={"X-PlaceMem-Capsules": "refund"})
    plane.caught_up()
    where = plane.last().node
    body = {"model": MODEL, "messages": [{"role": "user", "content": "warm"}], "capsules": ["refund"]}
    before = len(seen(plane))
    answer = plane.http.post("/plane/v1/placements", json=body, headers=bearer(plane.tokens["one"])).json()
    decision = answer["decision"]
    assert decision["node"] == where and decision["mode"] == "kv" and decision["cached_tokens"] > 0
    assert {c["node"] for c in decision["candidates"]} == {"a", "b"} and len(seen(plane)) == before
    text = {**body, "mode": "text"}
    chosen = plane.http.post("/plane/v1/placements", json=text, headers=bearer(plane.tokens["one"])).json()["decision"]
    assert chosen["mode"] == "text" and chosen["chosen"]["saved_ms"] == 0.0
    layer = plane.http.post("/plane/v1/placements", json={**body, "mode": "layer"}, headers=bearer(plane.tokens["one"]))
    assert layer.status_code == 501


def test_answers_and_segments_are_written_back_and_die_with_their_sources(plane):
    plane.create("fact", "The code is 17. " * 5)
    answer = plane.ask("code?", headers={"X-PlaceMem-Capsules": "fact", "X-PlaceMem-Writeback": "note"}, stream=True)
    assert answer.status_code == 200
    plane.wait(
        lambda: plane.http.get("/plane/v1/capsules/note", headers=bearer(plane.tokens["one"])).status_code == 200
    )
    note = plane.services.catalogue.get("one", "note")
    assert note.text == "Hello there!" and [str(ref) for ref in note.depends_on] == ["fact@1"] and note.kind == "turn"
    plane.wait(lambda: plane.services.artifacts.of_capsule("one", "fact"))
    (segment,) = plane.services.artifacts.of_capsule("one", "fact")
    assert segment.reusable and segment.locator.kind == "kv_segment" and segment.locator.tokens >= 64
    plane.ask("again", headers={"X-PlaceMem-Capsules": "fact", "X-PlaceMem-Writeback": "note"})
    plane.wait(lambda: plane.services.catalogue.get("one", "note").version == 2)
    result = plane.correct("fact@1", "The code is 18.")
    assert result.artifacts_ended["kv_segment"] >= 1 and result.ended >= 2, "segment and note went with the fact"
    assert plane.ask("x", headers={"X-PlaceMem-Capsules": "note"}).status_code == 404
    assert all("fact@1" not in n["resident_capsules"] for n in plane.get("/nodes").json())


def test_models_are_listed_for_callers_only(plane):
    assert [m.id for m in plane.client().models.list()] == [MODEL]
    assert plane.http.get("/v1/models").status_code == 401


def test_the_official_client_works_unchanged(plane):
    client = plane.client()
    messages = [{"role": "user", "content": "hi"}]
    whole = client.chat.completions.create(model=MODEL, messages=messages)
    assert whole.choices[0].message.content == "Hello there!" and whole.usage.prompt_tokens > 0
    headers = {"X-PlaceMem-Capsules": "refund"}
    with client.chat.completions.create(model=MODEL, messages=messages, stream=True, extra_headers=headers) as stream:
        chunks = list(stream)
        assert stream.response.headers["x-placemem-capsules"] == "refund@1"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Hello there!"
    assert all(c.choices for c in chunks), "a usage chunk that nobody asked for is not passed on"
    options = {"include_usage": True}
    asked = list(client.chat.completions.create(model=MODEL, messages=messages, stream=True, stream_options=options))
    assert asked[-1].choices == [] and asked[-1].usage.prompt_tokens > 0
    plain = client.completions.create(model=MODEL, prompt="hi", stream=True)
    assert "".join(c.choices[0].text for c in plain if c.choices) == "Hello there!"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=messages)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(api_key="wrong", base_url=f"{plane.url}/v1", max_retries=0).models.list()
    for engine in plane.engines:
        engine.script.append("400")
    with pytest.raises(openai.BadRequestError, match="scripted 400"):
        client.chat.completions.create(model=MODEL, messages=messages)


def test_the_official_client_can_cancel(plane):
    for engine in plane.engines:
        engine.script.append("pause")
    stream = plane.client().chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "hi"}], stream=True
    )
    assert next(iter(stream)).choices[0].delta is not None
    name = stream.response.headers["x-request-id"]
    stream.close()
    plane.wait(lambda: sum(engine.cancelled for engine in plane.engines) == 1)
    plane.wait(lambda: plane.record(name).outcome == "cancelled")
    plane.wait(lambda: all(node.in_flight == 0 for node in plane.serving.nodes))
    assert plane.serving.in_flight == 0
