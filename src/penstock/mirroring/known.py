"""The tables that a mirror knows from its earlier runs, so that it notices rows that it never copied.

The connector copies rows only in its first run. Later it captures changes, so a table that is new to it is
complete only if all of its changes were captured from its creation on, or if it has no rows yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.mirroring.database import Table
from penstock.mirroring.errors import MirrorError
from penstock.mirroring.selection import Selection


class LeftOut:
    """The tables that were not mirrored because their rows had no key, as ``SCHEMA.TABLE`` in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def names(self) -> list[str]:
        return sorted({*self._file.read_text("utf-8").splitlines()}) if self._file.exists() else []

    def add(self, name: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")


class KnownTables:
    """The tables and the patterns of a mirror's last run, in a file below its state."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._is_first = not file.exists()
        self._oids: dict[str, list[int]] = {}
        """The ids that each table has had; one that is created again has another."""
        self._before = Selection(())
        if not self._is_first:
            try:
                found = json.loads(file.read_text())
                self._oids = {str(name): [int(oid) for oid in oids] for name, oids in found["tables"].items()}
                self._before = Selection(tuple(found["included"]), tuple(found["excluded"]))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise MirrorError(
                    f"the file {file} of the mirror's tables cannot be read: {error!r}; expected JSON as an "
                    "earlier run has written it"
                ) from error

    def suspects(self, tables: Sequence[Table], published: Mapping[str, bool]) -> list[Table]:
        """Return the tables whose first changes may not have been captured.

        ``published`` tells of each schema whether its later tables are published from their creation on.
        """
        if self._is_first:
            return []
        return [
            each
            for each in tables
            if each.oid not in self._oids.get(each.full_name, ())
            and not (published[each.schema] and self._before.has(each.schema, each.name))
        ]

    def recreated(self, tables: Sequence[Table]) -> list[Table]:
        """Return the tables that were dropped and created again since the mirror has copied them."""
        return [each for each in tables if {*self._oids.get(each.full_name, ())} - {each.oid}]

    def remember(self, tables: Sequence[Table], selection: Selection) -> None:
        """Write the file."""
        kept = dict(self._oids)
        for each in tables:
            kept[each.full_name] = sorted({*kept.get(each.full_name, ()), each.oid})
        content = {"tables": kept, "included": selection.included, "excluded": selection.excluded}
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(content, indent=1))
        draft.replace(self._file)
