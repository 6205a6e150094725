"""The HTTP control plane: what it answers, to whom, in which shape."""

import json

import pytest
from starlette.routing import Route

from solarjax.plane.api.problems import ProblemBody
from solarjax.plane.errors import Unavailable
from tests.plane.http import API, bearer, body, change, site


@pytest.fixture(scope="module")
def plane(new_url):
    with site(new_url()) as made:
        yield made


def is_problem(answer, status):
    assert answer.status_code == status, answer.text
    problem = ProblemBody.model_validate(answer.json()).error
    assert set(answer.json()) == {"error"} and problem.code == status and problem.message
    return problem


def routes(plane):
    """(method, path with harmless values filled in) of every documented operation."""
    paths = plane.client.get("/openapi.json").json()["paths"]
    filled = {"{capsule}": "secret", "{version}": "1", "{epoch}": "1"}
    for path, operations in sorted(paths.items()):
        for name, value in filled.items():
            path = path.replace(name, value)
        for method in operations:
            yield method.upper(), path


BODIES = {
    f"{API}/capsules": body("probe", "probe"),
    f"{API}/artifacts": {"artifact": {"locator": {"kind": "embedding", "model": "m", "dimensions": 2, "uri": "u"},
                                      "made_from": [{"id": "secret", "version": 1}]}},
    f"{API}/dependencies": {"source": {"id": "secret", "version": 1}, "derived": {"id": "mine", "version": 1}},
    f"{API}/dependencies/around": {"versions": [{"id": "secret", "version": 1}]},
    f"{API}/search": {"text": "xylophone"},
    f"{API}/admissions": {"capsules": ["secret"]},
    f"{API}/placements": {"model": "m", "prompt": "x", "capsules": ["secret"]},
    f"{API}/admissions/check": {"epoch": 1, "capsules": [{"id": "secret", "version": 1}]},
    **{f"{API}/capsules/secret/{verb}": change(1) for verb in ("correct", "supersede")},
    **{f"{API}/capsules/secret/{verb}": {"version": 1} for verb in ("expire", "restore")},
}  # fmt: skip


def test_a_story_from_creation_to_audit(plane):
    created = plane.send("POST", "/capsules", json=body("refund", "30 days", summary="short"))
    assert created.status_code == 201 and created.json()["ref"] == {"id": "refund", "version": 1}
    plane.send("POST", "/capsules", json=body("digest", "30 days it is", "refund@1"))
    impact = plane.send("GET", "/capsules/refund/versions/1/impact").json()
    assert [i["ref"]["id"] for i in impact["impacts"]] == ["refund", "digest"]
    admission = plane.send("POST", "/admissions", json={"capsules": ["refund", "digest"]}).json()
    used = {"epoch": admission["epoch"], "capsules": [{"id": c["id"], "version": 1} for c in admission["capsules"]]}
    assert plane.send("POST", "/admissions/check", json=used).json()["passed"] is True
    done = plane.send("POST", "/capsules/refund/correct", json=change(1, "14 days")).json()
    assert done["ended"] == 2
    fence = plane.send("POST", "/admissions/check", json=used).json()
    assert fence["passed"] is False and len(fence["ended"]) == 2
    (why,) = plane.send("GET", "/capsules/digest/versions/1/why").json()
    assert (why["event"]["actor"], why["event"]["reason"], why["cause"]) == ("one-actor", "because", "derived")
    assert plane.send("GET", "/capsules/refund").json()["text"] == "14 days"
    assert plane.send("POST", "/search", json={"text": "days"}).json()["hits"][0]["capsule"]["version"] == 2
    ended = plane.send("GET", f"/events/{done['epoch']}/ended").json()
    assert [(i["ref"]["id"], i["depth"]) for i in ended["items"]] == [("refund", 0), ("digest", 1)]
    is_problem(plane.send("POST", "/capsules/refund/correct", json=change(1)), 409)


def test_every_route_asks_for_a_token(plane):
    asked = 0
    for method, path in routes(plane):
        if not path.startswith(API):
            continue
        for headers in ({}, bearer("sjp_" + "0" * 16 + "_" + "0" * 64), {"Authorization": "Basic eDp5"}):
            answer = plane.client.request(method, path, json=BODIES.get(path), headers=headers)
            assert is_problem(answer, 401).type == "unauthorized", (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
            asked += 1
    assert asked > 60


def test_what_another_tenant_has_is_indistinguishable_from_nothing(plane):
    """Every operation, aimed at a capsule of the other tenant and at one that nobody has: the same answer."""
    plane.send("POST", "/capsules", "two", json=body("secret", "xylophone"))
    plane.send("POST", "/capsules", "one", json=body("mine", "mine"))
    artifact = {**BODIES[f"{API}/artifacts"]}
    plane.send("POST", "/artifacts", "two", json=artifact)
    plane.send("POST", "/capsules", "two", json=body("child", "of the xylophone", "secret@1"))
    before = plane.send("GET", "/capsules/secret", "two").json(), plane.services.catalogue.state("two")
    probed = 0
    for method, path in routes(plane):
        if not path.startswith(API) or path.endswith(("/stream", f"{API}/capsules", "/state")):
            continue
        answers = []
        for name in ("secret", "nobody"):
            sent = json.loads(json.dumps(BODIES.get(path)).replace("secret", name))
            answer = plane.send(method, path[len(API) :].replace("secret", name), json=sent)
            assert answer.status_code < 500, (method, path)
            answers.append((answer.status_code, answer.text.replace("nobody", "secret")))
            assert "xylophone" not in answer.text
        strip = [(status, text.split('"at"')[0]) for status, text in answers]
        assert strip[0] == strip[1], (method, path)
        probed += 1
    assert probed >= 20
    assert (plane.send("GET", "/capsules/secret", "two").json(), plane.services.catalogue.state("two")) == before
    listed = plane.send("GET", "/capsules").json()["items"]
    assert all(item["id"] != "secret" for item in listed)


def in_chunks():
    """A body whose length no header tells."""
    return (b"x" * 10_000 for _ in range(200))


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("PUT", "/capsules", {}, 405),
        ("GET", "/capsules/nobody", {}, 404),
        ("GET", "/capsules/a@b", {}, 422),
        ("GET", "/capsules?limit=0", {}, 422),
        ("GET", "/capsules?as_of=2020-01-01T00:00:00", {}, 422),
        ("GET", "/events?cursor=x", {}, 422),
        ("GET", f"/events/{2**63}", {}, 422),
        ("GET", "/events/99999999", {}, 404),
        ("POST", "/capsules", {"content": b"{"}, 422),
        ("POST", "/capsules", {"content": b"\xff\xfe"}, 422),
        ("POST", "/capsules", {"json": {"capsule": {"text": "x"}}}, 422),
        ("POST", "/capsules", {"json": body("a b")}, 422),
        ("POST", "/capsules", {"json": body("a", "nul \x00")}, 422),
        ("POST", "/capsules", {"content": b'{"capsule": {"text": "\\ud800", "provenance": {"source": "x"}}}'}, 422),
        ("POST", "/capsules", {"json": body("a", unknown_field=1)}, 422),
        (
            "POST",
            "/capsules",
            {"json": body("a", valid_from="2021-01-02T00:00:00Z", valid_to="2021-01-01T00:00:00Z")},
            422,
        ),
        ("POST", "/capsules", {"json": body("a"), "headers": {"Idempotency-Key": "spaces are not allowed"}}, 422),
        ("POST", "/capsules", {"content": b"x" * 1_000_001}, 413),
        ("POST", "/capsules", {"content": in_chunks}, 413),
        ("GET", "/capsules", {"headers": {"X-Long": "y" * 17_000}}, 431),
        ("GET", "/capsules", {"headers": {"Content-Length": "ten"}}, 422),
    ],
)
def test_every_error_has_the_one_shape(plane, method, path, options, status):
    if options.get("content") is in_chunks:
        options = {"content": in_chunks()}
    is_problem(plane.send(method, path, **options), status)


def test_failures_of_the_server_have_the_shape_and_keep_their_secrets(plane, monkeypatch):
    def fail(*_args, **_options):
        raise RuntimeError("password is hunter2")

    monkeypatch.setattr(type(plane.services.catalogue), "state", fail)
    answer = plane.send("GET", "/state")
    assert is_problem(answer, 500).type == "internal" and "hunter2" not in answer.text
    monkeypatch.undo()

    def unavailable(*_args, **_options):
        raise Unavailable("the database is away")

    monkeypatch.setattr(type(plane.services.catalogue.database), "ping", unavailable)
    answer = plane.client.get("/readyz")
    assert is_problem(answer, 503).type == "unavailable" and answer.headers["retry-after"] == "1"
    assert plane.client.get("/healthz").json() == {"status": "ok"}


def test_a_repeated_idempotency_key_is_answered_once(plane):
    headers = {"Idempotency-Key": "key-1"}
    first = plane.send("POST", "/capsules", json=body("once"), headers=headers)
    again = plane.send("POST", "/capsules", json=body("once"), headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == {**first.json(), "replayed": True} and again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    is_problem(plane.send("POST", "/capsules", json=body("once", "another"), headers=headers), 409)
    other = plane.send("POST", "/capsules", "two", json=body("once"), headers=headers)
    assert other.status_code == 201 and not other.json()["replayed"], "keys are a tenant's own"


def test_pages_cover_everything_once(plane):
    for i in range(7):
        plane.send("POST", "/capsules", "two", json=body(f"p{i}", kind="paged"))
    for path, extra in (("/capsules", "&kind=paged"), ("/events", "")):
        whole = plane.send("GET", f"{path}?limit=1000{extra}", "two").json()
        assert whole["next"] is None and len(whole["items"]) >= 7
        found, cursor = [], ""
        while True:
            page = plane.send("GET", f"{path}?limit=3{extra}{cursor}", "two").json()
            assert len(page["items"]) <= 3
            found += page["items"]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert found == whole["items"]


def test_metrics_name_routes_and_outcomes_but_no_tenant(plane):
    plane.send("GET", "/capsules/nobody")
    plane.send("POST", "/capsules", json=body("metered", "x"))
    plane.send("POST", "/capsules/metered/correct", json=change(1))
    text = plane.client.get("/metrics").text
    assert 'plane_writes_total{operation="correct"}' in text
    assert 'plane_versions_ended_count{operation="correct"}' in text
    assert 'plane_transaction_seconds_count{kind="write",outcome="committed"}' in text
    assert 'status="404"' in text and "nobody" not in text and "metered" not in text
    assert "one-actor" not in text and "plane_http_in_flight 1.0" in text


def test_the_specification_documents_every_route_and_its_errors(plane):
    document = plane.client.get("/openapi.json").json()
    served = {
        (r.path, m)
        for r in plane.client.app.routes
        if isinstance(r, Route) and r.include_in_schema
        for m in r.methods - {"HEAD"}
    }
    described = {(path, method.upper()) for path, operations in document["paths"].items() for method in operations}
    assert served <= described
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), (path, method)
            if path.startswith(API):
                assert {"401", "409", "422", "503"} <= set(operation["responses"])
                assert operation["security"] == [{"HTTPBearer": []}]


def test_traces_have_a_span_a_request_under_the_callers(new_url):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with site(new_url(), tracer_provider=provider) as plane:
        trace = "0af7651916cd43dd8448eb211c80319c"
        plane.send("GET", "/capsules/nobody", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
        plane.client.get("/healthz")
    (span,) = exporter.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == trace and span.name == f"GET {API}/capsules/{{capsule}}"
    assert span.attributes.get("http.status_code", span.attributes.get("http.response.status_code")) == 404


def test_embeddings_are_made_on_writing_when_there_is_an_encoder(new_url):
    from tests.plane.test_retriever import ENCODER

    with site(new_url(), encoder=ENCODER) as plane:
        plane.send("POST", "/capsules", json=body("a", "aaa"))
        plane.send("POST", "/capsules", json=body("b", "bbb"))
        plane.send("POST", "/capsules/a/correct", json=change(1, "eee"))
        hits = plane.send("POST", "/search", json={"text": "ee", "weight_words": 0}).json()["hits"]
        assert [h["capsule"]["id"] for h in hits] == ["a", "b"] and hits[0]["cosine"] > 0.99
