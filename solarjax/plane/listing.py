"""Pages of capsules in force, in the order of their ids."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

from solarjax.plane import versions
from solarjax.plane.capsules import Capsule
from solarjax.plane.clock import Clock
from solarjax.plane.database import Database


class Listing:
    """Lists a catalogue's capsules.

    Args:
      database: the catalogue's.
      clock: its clock.
    """

    def __init__(self, database: Database, clock: Clock):
        self._database = database
        self._clock = clock

    def capsules(
        self,
        tenant: str,
        *,
        after: str = "",
        limit: int = 100,
        kind: str | None = None,
        entity: str | None = None,
        at: int | None = None,
        epoch: int | None = None,
    ) -> list[Capsule]:
        """The versions in force of capsules with ids above `after`.

        Args:
          kind, entity: only versions of this kind, naming this entity.
          at: instant of validity, default now. epoch: as the catalogue knew it then, default now.

        Raises:
          NotFound: for an unknown tenant.
        """
        moment = self._clock() if at is None else at
        values: dict[str, Any] = {"at": moment, "after": after, "limit": limit}
        parts = [versions.HOLDS if epoch is None else versions.HELD]
        for name, value, condition in (
            ("epoch", epoch, "1 = 1"),
            ("kind", kind, "v.kind = :kind"),
            ("entity", entity, "v.vid IN (SELECT n.vid FROM entity n WHERE n.tid = :tid AND n.name = :entity)"),
        ):
            if value is not None:
                values[name] = value
                parts.append(condition)

        def work(connection: Connection) -> list[Capsule]:
            values["tid"] = versions.tenant_state(connection, tenant).tid
            # Bytes decide the order: a locale's order would differ between the two databases.
            order = "v.capsule" if connection.dialect.name == "sqlite" else 'v.capsule COLLATE "C"'
            query = text(
                f"SELECT v.vid FROM version v WHERE v.tid = :tid AND {order} > :after AND {' AND '.join(parts)} "
                f"ORDER BY {order} LIMIT :limit"
            )
            return versions.load(connection, list(connection.execute(query, values).scalars()), moment)

        return self._database.read(work)
