"""Tables as changes need them: rows are found by a column's values, and edited by one atomic commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Edit:
    """The effect of one batch of changes on a table.

    Rows are the same row if their columns ``identity`` are equal. ``put`` has the rows that are inserted, or
    replace the same row. ``removed`` has the identities of rows that go, if they are there. With
    ``everything``, all rows go but those in ``put``.
    """

    identity: tuple[str, ...]
    put: pa.Table
    removed: pa.Table
    everything: bool = False

    @property
    def changes_anything(self) -> bool:
        return bool(self.everything or self.put.num_rows or self.removed.num_rows)


class TargetTable(Protocol):
    """A table that `apply_changes` keeps: of Delta, of Iceberg, or of a class of the user's."""

    def columns(self) -> pa.Schema | None:
        """Return the table's columns; None if there is no table yet."""

    def applied(self, writer: str) -> int | None:
        """Return the id of the last batch that a query has committed; None if there is none."""

    def rows(self, column: str, values: pa.Array | None) -> pa.Table:
        """Return the rows in which a column has one of the values, or all rows; further rows do no harm."""

    def write(self, edit: Edit, writer: str, batch: int) -> None:
        """Commit an edit and that a query's batch was applied, both or neither.

        Creates the table if there is none, and adds the columns of ``put`` that it lacks.
        """


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a table's column for values of a type: times with a zone are stored in UTC."""
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) and kind.tz is not None else kind
