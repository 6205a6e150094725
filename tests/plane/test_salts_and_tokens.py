"""Secrets: salts that cannot be guessed or confused, tokens that cannot be read back."""

import re

import pytest
from sqlalchemy import text

from solarjax.plane.access import Access
from solarjax.plane.errors import Invalid, NotFound, Unauthorized
from solarjax.plane.salts import cache_salt

SECRET = b"0123456789abcdef"


def test_salts_differ_where_naive_joining_would_not():
    made = {cache_salt(SECRET, tenant, epoch) for tenant, epoch in (("org_1", 2345), ("org_12345", 0), ("org_1", 234))}
    assert len(made) == 3
    assert cache_salt(SECRET, "a", 1) == cache_salt(SECRET, "a", 1) != cache_salt(b"another secret 16", "a", 1)
    assert re.fullmatch(r"[0-9a-f]{64}", made.pop())
    with pytest.raises(Invalid):
        cache_salt(b"short", "a", 1)


def test_tokens_are_stored_hashed_and_end_when_revoked(world):
    access = Access(world.catalogue.database, world.clock)
    token = access.issue(world.tenant, "desk")
    secret = token.rsplit("_", 1)[1]
    stored = world.catalogue.database.read(lambda c: str(c.execute(text("SELECT * FROM token")).all()))
    assert secret not in stored and token.split("_")[1] in stored
    assert access.authenticate(token)[:2] == (world.tenant, "desk")
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    for bad in (None, "", "x", token + "\n", wrong, "sjp_" + "0" * 16 + "_" + "0" * 64, token.upper()):
        with pytest.raises(Unauthorized) as refused:
            access.authenticate(bad)
        assert str(refused.value) == "a valid bearer token is needed", "one answer for every reason"
    access.revoke(token.split("_")[1])
    access.revoke(token.split("_")[1])
    with pytest.raises(Unauthorized):
        access.authenticate(token)
    with pytest.raises(NotFound):
        access.revoke("0" * 16)
    with pytest.raises(NotFound):
        access.issue("nobody", "x")
