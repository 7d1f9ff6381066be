"""A table as sinks need it. Staging and committing are separate: each may run in another process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.errors import ConnectError

Covered = Mapping[TopicPartition, range]
"""For each partition, the offsets from the first record of some rows to behind the last one."""


class OffsetsTaken(ConnectError):
    """Another task has committed some of the same records, so that the others must be committed alone."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that were written, but are not in the table yet; `content` is the format's own and can be pickled.

    Files of rows that are never committed are garbage, which the format's own maintenance removes.
    """

    content: Any
    row_count: int


class LakeTable(Protocol):
    """A table of one format. All methods raise RetriableError where repeating them may help."""

    @property
    def evolves(self) -> bool:
        """Whether `stage` adds columns that the table lacks."""
        ...

    @property
    def widens(self) -> bool:
        """Whether `stage` changes columns to wider types."""
        ...

    def columns(self) -> pa.Schema | None:
        """Return the table's columns as they are now; None if there is no table yet."""
        ...

    def offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset behind the last record that the table has, as far as it has any."""
        ...

    def stage(self, rows: Sequence[pa.Table]) -> Staged:
        """Write rows, in their order, where `commit` finds them.

        This creates the table, or adds columns, if that is allowed and needed.

        Raises:
            DataError: the rows do not fit the table's columns.
        """
        ...

    def commit(self, staged: Sequence[Staged], covered: Covered) -> None:
        """Make rows part of the table and store the offsets behind them, both or neither.

        Does nothing if the table has these offsets already, so that a commit can be repeated if it is not
        known whether it succeeded.

        Raises:
            OffsetsTaken: another task has committed some of the records.
        """
        ...


def has_all(stored: Mapping[TopicPartition, int], covered: Covered) -> bool:
    """Whether a table with the stored offsets has all covered records; if not, it has none of them.

    Raises:
        OffsetsTaken: it has some of them.
    """
    if all(stored.get(tp, 0) >= offsets.stop for tp, offsets in covered.items()):
        return True
    for tp, offsets in covered.items():
        if (found := stored.get(tp, 0)) > offsets.start:
            raise OffsetsTaken(
                f"the table has the records of {tp} below offset {found}, expected those below "
                f"{offsets.start}: another task writes them too"
            )
    return False
