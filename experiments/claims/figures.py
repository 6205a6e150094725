"""Stored figures as judges read them; every row that was read is remembered, so a verdict can name its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.store import StoredArtefact
from experiments.types import Row


class NotStored(Exception):
    """The figure a judge asks for is not stored; the message says which command would store it."""


class Figures:
    """Read access to stored artefacts and to rows that other parts of the project made.

    Args:
      stored: by artefact id.
      external: check results of `theory`, replay and the memory plane, see `experiments.external`.
    """

    def __init__(self, stored: Mapping[str, StoredArtefact], external: Sequence[Mapping[str, Any]] = ()):
        self._stored = stored
        self._external = list(external)
        self.used: list[str] = []
        self.commands: list[str] = []

    def has(self, artefact: str) -> bool:
        """True if that artefact is stored and could run."""
        return artefact in self._stored and self._stored[artefact].done

    def all(self, artefact: str, **fields: Any) -> list[Row]:
        """The rows whose fields have these values, in stored order; a tuple or list means any of its values.

        Raises:
          NotStored: the artefact is not stored or could not run.
        """
        if artefact not in self._stored:
            raise NotStored(f"run `python -m experiments run {artefact}`")
        stored = self._stored[artefact]
        if not stored.done:
            raise NotStored(f"{artefact} could not run: {stored.record.get('reason', '')}")

        def fits(row: Row) -> bool:
            for name, wanted in fields.items():
                value = getattr(row, name)
                if not (value in wanted if isinstance(wanted, tuple | list | set) else value == wanted):
                    return False
            return True

        found = [row for row in stored.rows if fits(row)]
        self.used += [f"{artefact}:{row.key}" for row in found]
        for row in found:
            command = stored.record["entries"].get(row.entry, {}).get("command") or stored.record["command"]
            if command not in self.commands:
                self.commands.append(command)
        return found

    def some(self, artefact: str, **fields: Any) -> list[Row]:
        """As `all`, but not empty.

        Raises:
          NotStored: there is none (a reduced run stores less), or the artefact is missing.
        """
        found = self.all(artefact, **fields)
        if not found:
            raise NotStored(_too_few(artefact, 0, fields))
        return found

    def one(self, artefact: str, **fields: Any) -> Row:
        """The only row with these values.

        Raises:
          NotStored: there is none (a quick run stores less), or the artefact is missing.
        """
        found = self.all(artefact, **fields)
        if len(found) != 1:
            raise NotStored(_too_few(artefact, len(found), fields))
        return found[0]

    def maybe(self, artefact: str, **fields: Any) -> list[Row]:
        """As `all`, but empty where the artefact is not stored."""
        return self.all(artefact, **fields) if self.has(artefact) else []

    def external(self, claim: str) -> list[Mapping[str, Any]]:
        """Check results whose source names the claim, made elsewhere and taken over by `ledger --rows FILE`."""
        names = [(result, {part.strip() for part in str(result["source"]).split(",")}) for result in self._external]
        found = [result for result, sources in names if claim in sources]
        for result in found:
            self.used.append(f"external:{result['id']}")
            if result["command"] not in self.commands:
                self.commands.append(result["command"])
        return found


def _too_few(artefact: str, count: int, fields: Mapping[str, Any]) -> str:
    asked = ", ".join(f"{k}={v}" for k, v in fields.items())
    return f"{artefact} holds {count} rows with {asked}; run `python -m experiments run {artefact} --full`"
