"""Keeps a table in step with the topics of change data capture: the function `apply_changes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.changes.batches import Batches
from penstock.spark.changes.settings import UNAVAILABLE, Settings, names, scd_type
from penstock.spark.changes.targets.delta import DeltaTarget
from penstock.spark.changes.targets.function import FunctionTarget
from penstock.spark.changes.targets.iceberg import IcebergTarget
from penstock.spark.changes.targets.table import TargetTable

_TARGETS: Final[dict[str, Callable[[str], TargetTable]]] = {"delta": DeltaTarget, "iceberg": IcebergTarget}


def apply_changes(
    changes: DataFrame,
    table: str | TargetTable | Callable[[DataFrame, int], object],
    *,
    keys: str | Sequence[str],
    checkpoint_location: str | PathLike[str],
    sequence_by: str | Column | None = None,
    stored_as_scd_type: int | str = 1,
    apply_as_deletes: str | Column | None = None,
    apply_as_truncates: str | Column | None = None,
    column_list: Sequence[str] | None = None,
    except_column_list: Sequence[str] = (),
    ignore_null_updates: bool = False,
    track_history_column_list: Sequence[str] | None = None,
    track_history_except_column_list: Sequence[str] = (),
    row_schema: str | None = None,
    query_name: str | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start a streaming query that applies changes to a table, so that it equals the source's table.

    ``changes`` is a stream of `read_changes`. ``table`` is ``delta:PATH``,
    ``iceberg:CATALOG.NAMESPACE.TABLE``, a `DeltaTarget` or an `IcebergTarget` with options, or a function,
    which gets what `foreachBatch` passes: a DataFrame, with one row for each changed key, and the batch's id.
    The table is created if there is none, and gets the columns that rows of later changes have. ``keys`` are
    the columns that identify a row.

    Changes apply in the order of the log. With ``sequence_by``, an expression such as ``after.version``, they
    apply in its order, and changes that arrive late change nothing, or find their place in the history.
    Expressions see the columns of ``changes``, with structs as ``before`` and ``after``.

    ``stored_as_scd_type``: 1 keeps the current rows; 2 keeps all versions, each from ``__START_AT`` up to
    ``__END_AT``, which is null in the current one. These are values of ``sequence_by``, by default the
    source's time of the change. Only changes in ``track_history_column_list`` make a version.

    ``apply_as_deletes`` and ``apply_as_truncates`` are conditions on further changes that are to remove their
    row, or all rows. ``column_list`` or ``except_column_list`` choose the table's columns. With
    ``ignore_null_updates``, a null in an update leaves the cell as it is. ``row_schema`` has the columns of
    rows in JSON without schemas as DDL; without it, they are inferred from each batch.

    ``trigger`` has the arguments of Spark's `DataStreamWriter.trigger`, such as ``{"availableNow": True}``.

    Raises ValueError for options that contradict each other, and MissingExtra.
    """
    if not changes.isStreaming:
        raise ValueError("changes: found a DataFrame of a batch read, expected a stream (spark.readStream)")
    target = _target(table, changes)
    settings = Settings(
        keys=names(keys),
        sequence_by=sequence_by,
        keeps_history=scd_type(stored_as_scd_type) == 2,
        apply_as_deletes=apply_as_deletes,
        apply_as_truncates=apply_as_truncates,
        column_list=None if column_list is None else names(column_list),
        except_column_list=names(except_column_list),
        ignore_null_updates=ignore_null_updates,
        track_history_column_list=(
            None if track_history_column_list is None else names(track_history_column_list)
        ),
        track_history_except_column_list=names(track_history_except_column_list),
        row_schema=row_schema,
        # A function cannot return the cell that such a value leaves as it is.
        unavailable_value=None if isinstance(target, FunctionTarget) else UNAVAILABLE,
    )
    if isinstance(target, FunctionTarget) and settings.needs_rows:
        raise ValueError(
            "stored_as_scd_type=2, sequence_by and ignore_null_updates need the rows that are there: "
            "expected a table, found a function"
        )
    writer = changes.writeStream.foreachBatch(Batches(target, settings))
    writer = writer.option("checkpointLocation", fspath(checkpoint_location))
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def _target(table: str | TargetTable | Callable[[DataFrame, int], object], changes: DataFrame) -> TargetTable:
    if isinstance(table, str):
        format_name, _, place = table.partition(":")
        if format_name not in _TARGETS or not place:
            raise ValueError(
                f"table: found {table!r}, expected delta:PATH or iceberg:CATALOG.NAMESPACE.TABLE"
            )
        return _TARGETS[format_name](place)
    if callable(table):
        return FunctionTarget(changes.sparkSession, table)
    return table
