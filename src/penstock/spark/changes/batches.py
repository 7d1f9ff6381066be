"""Applies one batch of changes to a table: what `foreachBatch` runs for each batch of the query."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from penstock.arrow.table_rows import Identity, comparable, fitted, identities
from penstock.spark.changes.collected import Collected, collect
from penstock.spark.changes.current import apply_to_current
from penstock.spark.changes.edits import ADDED, SEQUENCE, START, current_edit, history_edit, versions_of
from penstock.spark.changes.events import Events, Kind
from penstock.spark.changes.history import apply_to_history
from penstock.spark.changes.sameness import Sameness, never_same
from penstock.spark.changes.settings import Settings
from penstock.spark.changes.targets.table import (
    Edit,
    TargetTable,
    stored_type,
)
from penstock.spark.changes.typed_rows import are_found_first
from penstock.spark.changes.unchanged import marks_of_list, marks_of_text

Added = dict[str, pa.ChunkedArray]
"""The table's own columns of the rows that changes may touch, by name."""

_QUERY_ID: Final = "sql.streaming.queryId"


class Batches:
    """Applies the batches of one query to a table, each once."""

    def __init__(self, table: TargetTable, settings: Settings) -> None:
        self._table = table
        self._settings = settings

    def __call__(self, batch: DataFrame, number: int) -> None:
        writer = query_of(batch)
        applied = self._table.applied(writer)
        if applied is not None and applied >= number:
            return  # the query stopped after the table's commit and before the checkpoint's
        if are_found_first(batch, self._settings.row_schema):
            batch.persist()
        try:
            collected = collect(batch, self._settings)
        finally:
            batch.unpersist()
        present = self._table.columns()
        if present is None and not _have(collected, Kind.PUT, Kind.DELETE):
            return  # nothing says which columns the table is to have
        edit = self._edit(collected, present)
        if edit.changes_anything or present is None:
            self._table.write(edit, writer, number)

    def _edit(self, collected: Collected, present: pa.Schema | None) -> Edit:
        columns = _columns_of_rows(collected.rows.schema, present)
        changed = fitted(collected.rows, columns)
        kept = self._kept(collected, changed)
        found = None
        if present is not None and (kept or self._settings.needs_rows):
            found = self._existing(collected, changed)
        existing = columns.empty_table() if found is None else fitted(found, columns)
        events = Events(
            kinds=collected.kinds.to_pylist(),
            keys=identities(changed, self._settings.keys),
            sequences=[] if collected.sequences is None else comparable(collected.sequences),
            cells=pa.concat_tables([existing, changed]),
            first=existing.num_rows,
            kept=kept,
            old_keys=_old_keys(collected, columns, self._settings.keys),
        )
        added = {} if found is None else {name: found[name] for name in ADDED if name in found.column_names}
        if self._settings.keeps_history:
            assert collected.sequences is not None, "history has a sequence by default"
            return self._history(events, added, collected.sequences.type)
        return self._current(events, added, None if collected.sequences is None else collected.sequences.type)

    def _current(self, events: Events, added: Added, sequence_type: pa.DataType | None) -> Edit:
        keys = events.existing_keys(self._settings.keys)
        sequences = None
        if sequence_type is not None:
            known = comparable(added[SEQUENCE]) if SEQUENCE in added else [None] * len(keys)
            sequences = {key: each for key, each in zip(keys, known, strict=True) if each is not None}
        current = apply_to_current(events, dict(zip(keys, range(len(keys)), strict=True)), sequences)
        return current_edit(events, current, sequence_type, self._settings.keys)

    def _history(self, events: Events, added: Added, sequence_type: pa.DataType) -> Edit:
        settings = self._settings
        before = versions_of(events, added, settings.keys)
        in_order = settings.sequence_by is None
        tracked = [at for at, name in enumerate(events.cells.column_names) if settings.tracks(name)]
        joins = in_order or settings.tracks_some
        same = Sameness(events.cells, tracked) if joins else never_same
        after = apply_to_history(events, before, same, in_order=in_order)
        kind = added[START].type if START in added else stored_type(sequence_type)
        return history_edit(events, before, after, kind, settings.keys)

    def _existing(self, collected: Collected, changed: pa.Table) -> pa.Table:
        """Return the table's rows that the changes may touch."""
        column = self._settings.keys[0]
        is_selective = self._settings.keeps_history or self._settings.sequence_by is not None
        all_rows = is_selective and _have(collected, Kind.TRUNCATE)
        if all_rows:
            return self._table.rows(column, None)
        values = [changed[column]]
        if collected.old_rows is not None:
            values.append(collected.old_rows[column].cast(changed[column].type))
        chunks = [chunk for each in values for chunk in each.chunks]
        wanted = pa.chunked_array(chunks, changed[column].type)
        return self._table.rows(column, wanted.unique().drop_null())

    def _kept(self, collected: Collected, changed: pa.Table) -> dict[int, frozenset[int]]:
        """Return the changes that keep cells of the row before them, with the numbers of these columns."""
        kept: defaultdict[int, set[int]] = defaultdict(set)
        puts = pc.equal(collected.kinds, int(Kind.PUT))
        for at, name in enumerate(changed.column_names):
            if name in self._settings.keys:
                continue
            keeps = self._keeps(changed[name])
            if keeps is not None:
                for number in pc.indices_nonzero(pc.and_(puts, keeps)).to_pylist():
                    kept[number].add(at)
        return {number: frozenset(columns) for number, columns in kept.items()}

    def _keeps(self, column: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """Return where changes keep the cell of a column; None if they don't in this column."""
        conditions = [pc.is_null(column)] if self._settings.ignore_null_updates else []
        if self._settings.unavailable_value is not None:
            conditions += _equal_to(column, self._settings.unavailable_value)
        return reduce(pc.or_, conditions) if conditions else None


def query_of(batch: DataFrame) -> str:
    """Return the id of the query that runs a batch; it is the same with each start of the query."""
    found = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    assert found is not None, "Spark sets the query's id while it runs a batch"
    return found


def _equal_to(column: pa.ChunkedArray, value: str) -> list[pa.ChunkedArray]:
    """Return where a column has what Debezium writes for a value that it does not have.

    The result is empty for columns of types that have no such marks.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [pc.is_in(column, pa.array(marks_of_text(value), kind))]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [pc.fill_null(pc.equal(column, pa.scalar(value.encode(), kind)), False)]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        marks = marks_of_list(value)
        return [pa.chunked_array([[each in marks for each in column.to_pylist()]], pa.bool_())]
    return []


def _old_keys(collected: Collected, columns: pa.Schema, keys: tuple[str, ...]) -> dict[int, Identity]:
    """Return the keys before changes of them, by the number of the change."""
    if collected.old_rows is None:
        return {}
    old_rows = fitted(collected.old_rows, pa.schema([columns.field(key) for key in keys]))
    found = identities(old_rows, keys)
    return {number: key for number, key in enumerate(found) if key[0] is not None}


def _have(collected: Collected, *kinds: Kind) -> bool:
    return bool(pc.any(pc.is_in(collected.kinds, pa.array(kinds, collected.kinds.type))).as_py())


def _columns_of_rows(changed: pa.Schema, present: pa.Schema | None) -> pa.Schema:
    """Return the table's columns for rows of the source, then those that only the changes have."""
    clash = ADDED & set(changed.names)
    if clash:
        raise ValueError(f"the rows have columns {sorted(clash)}, which a table of changes adds itself")
    fields = [] if present is None else [field for field in present if field.name not in ADDED]
    known = {field.name for field in fields}
    fields += [field for field in changed if field.name not in known and not pa.types.is_null(field.type)]
    return pa.schema([(field.name, stored_type(field.type)) for field in fields])
