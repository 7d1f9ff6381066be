"""Patterns of tables, such as ``inv.*``, and what a connector and a query need of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from penstock.mirroring.errors import MirrorError

MARKS: Final = "penstock.mirror"
"""The prefix of the logical messages with which a mirror marks places in the database's log."""

_SPECIAL: Final = re.compile(r"[^\w*?]")


@dataclass(frozen=True, slots=True)
class Selection:
    """The tables of a mirror: patterns ``SCHEMA.TABLE`` with ``*`` and ``?``, and columns that are keys.

    A table matches if it matches one of ``included`` and none of ``excluded``.
    """

    included: Sequence[str]
    excluded: Sequence[str] = ()
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @staticmethod
    def of(included: Sequence[str], excluded: Sequence[str] = (), keys: Sequence[str] = ()) -> Selection:
        """Read patterns, and keys as ``SCHEMA.TABLE=COLUMN,…``. Raises MirrorError."""
        for pattern in (*included, *excluded):
            if pattern.count(".") != 1 or not all(pattern.split(".")):
                raise MirrorError(
                    f"the pattern {pattern!r} is not SCHEMA.TABLE: expected one such as inv.orders or inv.*"
                )
        found = {}
        for each in keys:
            table, separator, columns = each.partition("=")
            names = tuple(name.strip() for name in columns.split(",") if name.strip())
            if not separator or table.count(".") != 1 or not names:
                raise MirrorError(f"the keys {each!r} are not SCHEMA.TABLE=COLUMN,…")
            found[table.strip()] = names
        return Selection(tuple(included), tuple(excluded), found)

    def has(self, schema: str, table: str) -> bool:
        """Whether a table is mirrored."""
        name = f"{schema}.{table}"
        return any(fnmatchcase(name, each) for each in self.included) and not any(
            fnmatchcase(name, each) for each in self.excluded
        )

    def connector_properties(self) -> dict[str, str]:
        """The connector's lists of tables and keys, which are regular expressions."""
        left_out = "".join(f"(?!{expression(each)}$)" for each in self.excluded)
        properties = {"table.include.list": ",".join(left_out + expression(each) for each in self.included)}
        if self.keys:
            properties["message.key.columns"] = ";".join(
                f"{expression(table)}:{','.join(columns)}" for table, columns in self.keys.items()
            )
        return properties


def expression(pattern: str) -> str:
    """Return the regular expression of a pattern; a ``*`` does not cross the point after the schema."""
    escaped = _SPECIAL.sub(lambda found: "\\" + found[0], pattern)
    return escaped.replace("*", "[^.]*").replace("?", "[^.]")


def topics_expression(prefix: str) -> str:
    """Return the regular expression of the topics with the changes of a connector with this prefix."""
    return rf"^{re.escape(prefix)}\.[^.]+\.[^.]+$"
