"""Makes the edit of a table from the rows or versions that a batch of changes leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.arrow.table_rows import Identity, comparable
from penstock.spark.changes.current import CurrentRows
from penstock.spark.changes.events import Events
from penstock.spark.changes.history import History, Version
from penstock.spark.changes.targets.table import Edit, stored_type

SEQUENCE: Final = "__SEQUENCE"
"""The column with a row's last value of `sequence_by`; only in tables of queries that set it."""
START: Final = "__START_AT"
END: Final = "__END_AT"
"""The time or sequence from which a version is valid, and up to which; names as in Databricks' AUTO CDC."""
ADDED: Final = frozenset({SEQUENCE, START, END})
"""The columns of a table that are not columns of the source's rows."""


def current_edit(
    events: Events,
    current: CurrentRows,
    sequence_type: pa.DataType | None,
    keys: tuple[str, ...],
) -> Edit:
    """Return the edit for a table of current rows; ``sequence_type`` is None if it has no sequences."""
    put = {key: row for key, row in current.rows.items() if row is not None}
    rows = events.table_of(list(put.values()))
    if sequence_type is not None:
        values = pa.array([current.sequences[key] for key in put], stored_type(sequence_type))
        rows = rows.append_column(SEQUENCE, values)
    gone = [] if current.cleared else [key for key, row in current.rows.items() if row is None]
    return Edit(keys, rows, _identified(rows.schema, keys, gone), current.cleared)


def history_edit(
    events: Events,
    before: Mapping[Identity, Sequence[Version]],
    after: Mapping[Identity, History],
    sequence_type: pa.DataType,
    keys: tuple[str, ...],
) -> Edit:
    """Return the edit for a table of versions, of which only those that changed are written."""
    known = {(*key, version.start): version for key, versions in before.items() for version in versions}
    left = {(*key, version.start): version for key, history in after.items() for version in history.versions}
    changed = {identity: version for identity, version in left.items() if known.get(identity) != version}
    rows = events.table_of([version.row for version in changed.values()])
    for name, values in (
        (START, [version.start for version in changed.values()]),
        (END, [version.end for version in changed.values()]),
    ):
        rows = rows.append_column(name, pa.array(values, sequence_type))
    gone = [identity for identity in known if identity not in left]
    identity = (*keys, START)
    return Edit(identity, rows, _identified(rows.schema, identity, gone))


def versions_of(
    events: Events, added: Mapping[str, pa.ChunkedArray], keys: Sequence[str]
) -> dict[Identity, list[Version]]:
    """Return the versions that the table has, by key. Raises ValueError for a table without history."""
    versions: defaultdict[Identity, list[Version]] = defaultdict(list)
    if not events.first:
        return versions
    if START not in added:
        raise ValueError(
            f"the table has rows and no column {START}: expected a table of stored_as_scd_type=2"
        )
    times = zip(comparable(added[START]), comparable(added[END]), strict=True)
    for row, (key, (start, end)) in enumerate(zip(events.existing_keys(keys), times, strict=True)):
        versions[key].append(Version(start, end, row))
    return versions


def _identified(columns: pa.Schema, names: Sequence[str], identities: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return a table of the columns that identify rows."""
    kinds = pa.schema([columns.field(name) for name in names])
    arrays = [pa.array([each[at] for each in identities], kind.type) for at, kind in enumerate(kinds)]
    return pa.table(arrays, schema=kinds)
