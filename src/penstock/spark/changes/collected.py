"""Collects one batch of changes on the driver: places, sequences and rows as Arrow columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.arrow.table_rows import comparable
from penstock.spark.changes.envelope import NEW_KEY, PLACE
from penstock.spark.changes.events import Kind
from penstock.spark.changes.ordering import KIND, POSITION, order_of_log, order_of_sequences
from penstock.spark.changes.settings import Settings
from penstock.spark.changes.typed_rows import OLD_ROW, ROW, with_columns

_PLACE: Final = "place"
_SEQUENCE: Final = "sequence"
_TIMES: Final = {"ts_us": F.timestamp_micros, "ts_ms": F.timestamp_millis}
"""The source's times of a change, the most exact first."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The changes of a batch in the order in which they are applied, and the rows they carry.

    ``sequences`` is None if the order of the log is enough. A truncate has a row of nulls. ``old_rows`` have
    the key before a change of it, and nulls for other changes; None if the changes don't have these keys.
    """

    kinds: pa.Array
    sequences: pa.ChunkedArray | None
    rows: pa.Table
    old_rows: pa.Table | None = None


def collect(batch: DataFrame, settings: Settings) -> Collected:
    """Collect the changes of a batch. Raises ValueError for changes without a key or a sequence."""
    changes = with_columns(batch, settings.row_schema)
    kind = _kind(settings)
    columns = _fields(changes, ROW)
    names = [name for name in columns if settings.has_column(name)]
    missing = [key for key in settings.keys if key not in names]
    if missing and not changes.where("before IS NOT NULL OR after IS NOT NULL").isEmpty():
        raise ValueError(f"keys: the rows of the changes have no columns {missing}, found {names}")
    selected = [*map(F.col, PLACE), _position(changes).alias(POSITION), kind.alias(KIND)]
    sequence = _sequence(changes, settings)
    if sequence is not None:
        selected.append(sequence.alias(_SEQUENCE))
    place = F.struct(*selected).alias(_PLACE)
    if missing:  # there are truncates at most, whose rows are null
        places = pa.Table.from_struct_array(changes.select(place).toArrow()[_PLACE])
        rows = pa.table({key: pa.nulls(places.num_rows) for key in settings.keys})
    else:
        if OLD_ROW in changes.columns and not settings.needs_rows:
            return _with_old_rows(changes, place, columns, settings)
        collected = changes.select(place, ROW).toArrow()
        places = pa.Table.from_struct_array(collected[_PLACE])
        rows = collected.select([ROW]).flatten().rename_columns(columns).select(names)
    return _ordered(places, rows, settings)


def _with_old_rows(changes: DataFrame, place: Column, columns: list[str], settings: Settings) -> Collected:
    """Collect changes that have the keys before and after changes of them.

    The delete of the old row is left out: the create of the new one follows it, in this batch or in a later
    one, and needs the old row's values.
    """
    is_moved = (F.col("op") == "d") & F.col(NEW_KEY).isNotNull()
    collected = changes.where(~is_moved).select(place, ROW, OLD_ROW).toArrow()
    places = pa.Table.from_struct_array(collected[_PLACE])
    rows, old_rows = (
        collected.select([name]).flatten().rename_columns(columns).select(each)
        for name, each in (
            (ROW, [name for name in columns if settings.has_column(name)]),
            (OLD_ROW, list(settings.keys)),
        )
    )
    found = _ordered(places, rows, settings)
    return replace(found, old_rows=old_rows.take(order_of_log(places)))


def _fields(changes: DataFrame, column: str) -> list[str]:
    kind = changes.schema[column].dataType
    return list(kind.names) if isinstance(kind, StructType) else []


def _kind(settings: Settings) -> Column:
    deletes = (F.col("op") == "d") | _holds(settings.apply_as_deletes)
    truncates = (F.col("op") == "t") | _holds(settings.apply_as_truncates)
    numbers = {kind: F.lit(int(kind)).cast("tinyint") for kind in Kind}
    return (
        F.when(truncates, numbers[Kind.TRUNCATE])
        .when(deletes, numbers[Kind.DELETE])
        .otherwise(numbers[Kind.PUT])
    )


def _holds(condition: str | Column | None) -> Column:
    if condition is None:
        return F.lit(False)
    return F.coalesce(_column(condition), F.lit(False))


def _column(expression: str | Column) -> Column:
    return F.expr(expression) if isinstance(expression, str) else expression


def _position(changes: DataFrame) -> Column:
    """Where the source's log has a change, or else when it was made."""
    fields = _fields(changes, "source")
    found = [F.col("source")[name].cast("bigint") for name in ("lsn", "ts_ms") if name in fields]
    return F.coalesce(*found, F.lit(None).cast("bigint"))


def _sequence(changes: DataFrame, settings: Settings) -> Column | None:
    if settings.sequence_by is not None:
        return _column(settings.sequence_by)
    if not settings.keeps_history:
        return None
    fields = _fields(changes, "source")
    times = [make(F.col("source")[name].cast("bigint")) for name, make in _TIMES.items() if name in fields]
    return F.coalesce(*times, F.col("ts"))


def _ordered(places: pa.Table, rows: pa.Table, settings: Settings) -> Collected:
    sequences = places[_SEQUENCE] if _SEQUENCE in places.column_names else None
    if sequences is not None and sequences.null_count:
        raise ValueError(
            f"{sequences.null_count} of {places.num_rows} changes have no sequence: expected sequence_by "
            f"{settings.sequence_by or 'source.ts_ms'} to be set in each"
        )
    if settings.sequence_by is None or sequences is None:
        order = order_of_log(places)
    else:
        order = order_of_sequences(places, comparable(sequences))
    rows = rows.take(order)
    kinds = places[KIND].take(order)
    with_rows = pc.not_equal(kinds, int(Kind.TRUNCATE))
    for key in settings.keys:
        without = pc.sum(pc.and_(with_rows, pc.is_null(rows[key]))).as_py()
        if without:
            raise ValueError(f"the key {key!r} is null in {without} changes: expected a value in each")
    return Collected(kinds, None if sequences is None else sequences.take(order), rows)
