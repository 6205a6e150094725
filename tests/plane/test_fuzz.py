"""Requests made from the OpenAPI specification: none may crash the server or break what the specification says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

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


def probe(operation, headers, seen):
    @BOUNDED
    @given(case=operation.as_strategy())
    def send(case):
        response = case.call(headers=headers)
        case.validate_response(response, checks=CHECKS)
        seen.add((operation.label, response.status_code))

    send()
