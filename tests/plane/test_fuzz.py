"""Requests made from the OpenAPI specification: none may crash the server or break what the specification says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from tests.plane.front import MODEL, front
from tests.plane.http import API, bearer, body, site

CHECKS = (not_a_server_error, response_schema_conformance, status_code_conformance)
BOUNDED = settings(
    max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def fuzzed(new_url):
    with site(new_url()) as plane:
        for name in ("a", "b"):
            plane.send("POST", "/capsules", json=body(name))
        yield plane


def test_the_specification_holds_for_generated_requests(fuzzed):
    schema = schemathesis.openapi.from_asgi("/openapi.json", fuzzed.client.app)
    seen = set()
    for found in schema.get_all_operations():
        # The stream has no end; test_server.py reads it.
        if found.ok().path != f"{API}/stream":
            probe(found.ok(), bearer(fuzzed.tokens["one"]), seen)
    statuses = {status for _, status in seen}
    assert len({label for label, _ in seen}) >= 24 and {200, 404} <= statuses and max(statuses) < 500, statuses


def probe(operation, headers, seen, **options):
    @BOUNDED
    @given(case=operation.as_strategy())
    def send(case):
        response = case.call(headers=headers, **options)
        case.validate_response(response, checks=CHECKS)
        seen.add((operation.label, response.status_code))

    send()


def test_the_specification_holds_for_the_routes_of_a_plane_with_a_node(tmp_path_factory):
    """Without one these answer with empty lists and 404. The names in the bodies are those of the plane, which nobody
    would guess; layer replay is left out, a refusal by contract (501)."""
    with front(tmp_path_factory.mktemp("served"), engines=1) as plane:
        plane.create("fact", "The code is 17. " * 4)
        plane.ask(headers={"X-PlaceMem-Capsules": "fact"})
        plane.caught_up()
        plane.last()
        assert plane.get("/requests").json() and plane.get("/nodes").json()[0]["resident_capsules"]
        document = plane.http.get("/openapi.json").json()
        properties = document["components"]["schemas"]["PlacementBody"]["properties"]
        properties["mode"] = {"enum": ["auto", "text", "kv"]}
        properties["model"] = {"enum": [MODEL, "another"]}
        properties["capsules"] = {"type": "array", "maxItems": 2, "items": {"enum": ["fact", "nobody"]}}
        wanted = {f"{API}/{name}" for name in ("nodes", "requests", "placements")}
        document["paths"] = {path: document["paths"][path] for path in wanted}
        seen = set()
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            probe(found.ok(), bearer(plane.tokens["one"]), seen, base_url=plane.url)
        assert {
            (f"{m} {API}/{name}", 200) for m, name in (("GET", "nodes"), ("GET", "requests"), ("POST", "placements"))
        } <= seen, seen
        assert (f"POST {API}/placements", 404) in seen and max(status for _, status in seen) < 500, seen


def _header(name):
    return {"name": name, "in": "header", "schema": {"type": "string", "pattern": "^[!-~]{0,40}$"}}


_TEXT = {"type": "string", "maxLength": 60}
_MESSAGES = {
    "type": "array", "minItems": 1, "maxItems": 3,
    "items": {"type": "object", "required": ["role", "content"], "additionalProperties": False,
              "properties": {"role": {"enum": ["system", "user", "assistant"]}, "content": _TEXT}},
}  # fmt: skip
_COMMON = {
    "model": {"enum": [MODEL, "another"]}, "stream": {"type": "boolean"}, "user": _TEXT,
    "cache_salt": _TEXT, "priority": {"type": "integer"}, "vllm_xargs": {"type": "object"},
    "stream_options": {"type": "object", "properties": {"include_usage": {"type": "boolean"}}},
}  # fmt: skip


def _operation(own):
    schema = {"type": "object", "required": ["model", own[0]], "properties": {**_COMMON, own[0]: own[1]}}
    names = [f"X-PlaceMem-{n}" for n in ("Capsules", "Retrieve", "Mode", "Session", "Writeback", "Tenant", "Odd")]
    return {
        "post": {
            "parameters": [_header(name) for name in [*names, "X-Request-Id"]],
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": {"default": {"description": "any"}},
        }
    }


_SIDECAR = {
    "openapi": "3.1.0", "info": {"title": "sidecar", "version": "1"},
    "paths": {
        "/v1/chat/completions": _operation(("messages", _MESSAGES)),
        "/v1/completions": _operation(("prompt", _TEXT)),
    },
}  # fmt: skip


def test_the_sidecar_answers_every_generated_request(tmp_path_factory):
    seen = set()
    with front(tmp_path_factory.mktemp("fuzz"), engines=1) as plane:
        plane.create("fact", "The code is 17.")
        token = bearer(plane.tokens["one"])
        for found in schemathesis.openapi.from_dict(_SIDECAR).get_all_operations():

            @settings(BOUNDED, max_examples=10)
            @given(case=found.ok().as_strategy(), plain=booleans(), layer=booleans())
            def send(case, plain, layer):
                # With a header each, nearly every request is refused for one of them; half are sent without.
                case.headers = {"X-PlaceMem-Capsules": "fact"} if plain else dict(case.headers or {})
                if layer:
                    case.headers["X-PlaceMem-Mode"] = "layer"
                answer = case.call(base_url=plane.url, headers=token)
                seen.add(answer.status_code)
                # 501: layer replay, refused by contract. The engine is well, so nothing else is the server's fault.
                assert answer.status_code < 500 or (answer.status_code == 501 and layer), answer.text
                if answer.status_code != 200:
                    assert set(answer.json()) == {"error"} and answer.json()["error"]["message"]

            send()
        (node,) = plane.serving.nodes
        plane.wait(lambda: node.in_flight == 0)
        assert node.breaker_state == "closed"
    assert {200, 404, 501} <= seen, seen
