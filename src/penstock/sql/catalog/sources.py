"""Streams and tables over topics, as the catalog describes them: their columns, keys and formats."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.sql.language import types
from penstock.sql.language.statements import SourceKind, WindowKind
from penstock.sql.language.types import SqlType

PSEUDO_COLUMNS: Final[dict[str, SqlType]] = {
    "ROWTIME": types.BIGINT,
    "ROWPARTITION": types.INTEGER,
    "ROWOFFSET": types.BIGINT,
}
"""The columns that every row has in addition to the declared ones."""
WINDOW_COLUMNS: Final[dict[str, SqlType]] = {"WINDOWSTART": types.BIGINT, "WINDOWEND": types.BIGINT}
"""The further columns of the rows of a windowed source."""
SYSTEM_COLUMNS: Final = frozenset(PSEUDO_COLUMNS) | frozenset(WINDOW_COLUMNS)


class Role(Enum):
    KEY = "KEY"
    VALUE = "VALUE"
    HEADERS = "HEADERS"
    PSEUDO = "PSEUDO"


@dataclass(frozen=True)
class Column:
    """A column of a source. A HEADERS column holds the header with key ``header``, or all if it is None."""

    name: str
    type: SqlType
    role: Role = Role.VALUE
    header: str | None = None


@dataclass(frozen=True)
class WindowedKey:
    """The windowing of a source whose row keys include a window. Session windows have no size."""

    kind: WindowKind
    size_ms: int | None = None


@dataclass(frozen=True)
class DataSource:
    """A stream or table over a topic.

    ``is_queryable`` means that its state is materialized, so pull queries may read it. ``timestamp`` is the
    column that supplies ROWTIME.
    """

    name: str
    kind: SourceKind
    columns: tuple[Column, ...]
    topic: str
    key_format: str
    value_format: str
    window: WindowedKey | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    partitions: int | None = None
    replicas: int | None = None
    read_only: bool = False
    is_queryable: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role is Role.KEY)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def pseudo_columns(self) -> tuple[Column, ...]:
        windows = WINDOW_COLUMNS if self.window is not None else {}
        return tuple(
            Column(name, type_, Role.PSEUDO) for name, type_ in {**PSEUDO_COLUMNS, **windows}.items()
        )
