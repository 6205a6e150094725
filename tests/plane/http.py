"""A plane behind HTTP, in this process."""

from __future__ import annotations

from contextlib import contextmanager

from starlette.testclient import TestClient

from solarjax.plane.api.app import PREFIX, create_app
from solarjax.plane.services import build
from solarjax.plane.settings import Settings

API = PREFIX


def bearer(token, **more):
    return {"Authorization": f"Bearer {token}", **more}


def body(name="a", text="some text", *sources, **fields):
    capsule = {"id": name, "text": text, "provenance": {"source": "test"}, **fields}
    capsule["depends_on"] = [
        dict(zip(("id", "version"), (s.split("@")[0], int(s.split("@")[1])), strict=True)) for s in sources
    ]
    return {"capsule": capsule, "reason": "because"}


def change(version, text="right"):
    return {"version": version, "content": {"text": text, "provenance": {"source": "test"}}, "reason": "because"}


class Site:
    """The application, a client, and two tenants with a token each."""

    def __init__(self, services, client):
        self.services = services
        self.client = client
        self.tokens = {}
        for tenant in ("one", "two"):
            services.catalogue.add_tenant(tenant)
            self.tokens[tenant] = services.access.issue(tenant, f"{tenant}-actor")

    def send(self, method, path, tenant="one", **options):
        headers = {**bearer(self.tokens[tenant]), **options.pop("headers", {})}
        return self.client.request(method, f"{API}{path}", headers=headers, **options)


@contextmanager
def site(url, **options):
    services = build(Settings(database=url), **{k: v for k, v in options.items() if k in ("encoder", "clock")})
    app = create_app(services, tracer_provider=options.get("tracer_provider"))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Site(services, client)
