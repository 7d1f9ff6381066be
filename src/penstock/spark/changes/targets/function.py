"""Passes what changes do to a table to a function of the user's, which brings it to a place of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.spark.changes.targets.table import Edit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGE: Final = "_change"
"""The column that says what a row of the function's DataFrame is: put, delete or truncate."""

Write = Callable[["DataFrame", int], object]


class FunctionTarget:
    """A function of a DataFrame and a batch id, as `foreachBatch` has them.

    The DataFrame has one row for each key, with the column ``_change``: ``put``, the row as it is now;
    ``delete``, of which only the keys are set; and ``truncate``, without values, after which only the rows
    put in the same batch remain. A batch whose end was not recorded is passed again.
    """

    def __init__(self, spark: SparkSession, write: Write) -> None:
        self._spark = spark
        self._write = write

    def columns(self) -> pa.Schema | None:
        return None

    def applied(self, writer: str) -> int | None:
        return None

    def rows(self, column: str, values: pa.Array | None) -> pa.Table:
        raise NotImplementedError("a function does not return rows; `apply_changes` requires none of it")

    def write(self, edit: Edit, writer: str, batch: int) -> None:
        kinds = ["put"] * edit.put.num_rows + ["delete"] * edit.removed.num_rows
        rows = pa.concat_tables([edit.put, edit.removed], promote_options="default")
        if edit.everything:
            kinds.append("truncate")
            empty = pa.table([pa.nulls(1, field.type) for field in rows.schema], schema=rows.schema)
            rows = pa.concat_tables([rows, empty])
        changes = rows.add_column(0, CHANGE, pa.array(kinds, pa.string()))
        # Spark 4.3 leaves out all rows that follow an empty chunk.
        self._write(self._spark.createDataFrame(changes.combine_chunks()), batch)
