"""Bearer tokens: who calls, and for which tenant.

A token is `sjp_<id>_<secret>` with 256 random bits of secret. Only the secret's SHA-256 is stored: with that much
randomness there is nothing to guess, so a slow password hash would add cost and no safety. Digests are compared in
constant time, and an unknown id is compared too.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, update

from solarjax.plane import tables as t
from solarjax.plane import versions
from solarjax.plane.clock import Clock
from solarjax.plane.database import Database
from solarjax.plane.errors import Invalid, NotFound, Unauthorized

TOKEN = re.compile(r"sjp_([0-9a-f]{16})_([0-9a-f]{64})\Z")
NOBODY = hashlib.sha256(b"nobody's secret").hexdigest()
_FIND = (
    select(t.token.c.digest, t.token.c.actor, t.token.c.revoked_at, t.tenant.c.name)
    .join(t.tenant, t.tenant.c.tid == t.token.c.tid)
    .where(t.token.c.id == bindparam("id"))
)


class Principal(NamedTuple):
    """An authenticated caller."""

    tenant: str
    actor: str
    token_id: str


class TokenInfo(NamedTuple):
    """What is known of a token; never its secret."""

    id: str
    tenant: str
    actor: str
    revoked: bool


class Access:
    """Tokens in a catalogue's database.

    Args:
      database: the catalogue's.
      clock: its clock.
    """

    def __init__(self, database: Database, clock: Clock):
        self._database = database
        self._clock = clock

    def issue(self, tenant: str, actor: str) -> str:
        """Makes a token and returns it; it cannot be read again.

        Args:
          actor: name that the audit trail shows for writes with this token.

        Raises:
          NotFound: for an unknown tenant. Invalid: for an actor that is not 1 to 100 printable characters.
        """
        if not (0 < len(actor) <= 100 and actor.isprintable()):
            raise Invalid(f"actor {actor[:80]!r} is not 1 to 100 printable characters", "actor")
        key, secret = secrets.token_hex(8), secrets.token_hex(32)

        def work(connection: Connection) -> None:
            tid = versions.tenant_state(connection, tenant).tid
            row = {"id": key, "tid": tid, "actor": actor, "digest": digest_of(secret), "created_at": self._clock()}
            connection.execute(insert(t.token), row)

        self._database.write(work)
        return f"sjp_{key}_{secret}"

    def revoke(self, token_id: str) -> None:
        """Ends a token at once and for good; raises NotFound if there is none of this id."""

        def work(connection: Connection) -> None:
            chosen = update(t.token).where(t.token.c.id == token_id)
            done = connection.execute(chosen.where(t.token.c.revoked_at.is_(None)).values(revoked_at=self._clock()))
            known = select(t.token.c.id).where(t.token.c.id == token_id)
            if not done.rowcount and connection.execute(known).first() is None:
                raise NotFound(f"token {token_id[:80]!r} does not exist")

        self._database.write(work)

    def tokens(self) -> list[TokenInfo]:
        """All tokens, by tenant and id."""
        query = select(t.token.c.id, t.tenant.c.name, t.token.c.actor, t.token.c.revoked_at)
        query = query.join(t.tenant, t.tenant.c.tid == t.token.c.tid).order_by(t.tenant.c.name, t.token.c.id)

        def work(connection: Connection) -> list[TokenInfo]:
            rows = connection.execute(query)
            return [TokenInfo(row.id, row.name, row.actor, row.revoked_at is not None) for row in rows]

        return self._database.read(work)

    def authenticate(self, token: str | None) -> Principal:
        """The caller behind a token.

        Raises:
          Unauthorized: the same for a missing, malformed, unknown, wrong and revoked token.
        """
        match = TOKEN.match(token or "")
        if match is None:
            raise Unauthorized("a valid bearer token is needed")
        row = self._database.read(lambda connection: connection.execute(_FIND, {"id": match[1]}).one_or_none())
        fits = hmac.compare_digest(digest_of(match[2]), row.digest if row else NOBODY)
        if row is None or not fits or row.revoked_at is not None:
            raise Unauthorized("a valid bearer token is needed")
        return Principal(row.name, row.actor, match[1])


def digest_of(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
