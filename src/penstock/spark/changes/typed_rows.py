"""Gives the rows of one batch of changes their columns, which may differ from those of the batch before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from penstock.spark.changes.envelope import OLD_KEY, PLACE, ROW_TYPE
from penstock.spark.changes.row_types import DECIMAL_PRECISION_MAX

ROW: Final = "__row"
"""The column with the row that a change is about: that before a delete, or else that after the change."""
OLD_ROW: Final = "__old_row"
"""The column with the row before a change of its key, of which only the key is set."""

_WIDENING: Final = (
    (ByteType, ShortType, IntegerType, LongType),
    (FloatType, DoubleType),
)
"""Types of which each holds the values of those before it."""


def with_columns(changes: DataFrame, given: str | None) -> DataFrame:
    """Return a batch of `read_changes` with structs as ``before`` and ``after``, and the column `ROW`.

    The columns of JSON are those ``given`` as DDL, or of the records' schemas, or else inferred from texts.
    A value that does not fit its column fails the query. If columns are inferred, `ROW` lacks those that are
    null in the whole batch: nothing shows their type, and the table would keep a wrong one for good.
    """
    row = F.when(F.col("op") == "d", F.col("before")).otherwise(F.col("after"))
    if _are_typed(changes):
        return changes.withColumn(ROW, row)
    kind, row_kind = (_of_ddl(given),) * 2 if given is not None else _kinds_of(changes)
    strict = {"mode": "FAILFAST"}
    # A column that is not used is not parsed, so that each change's row is parsed once.
    columns = {
        ROW: F.from_json(row, row_kind, strict),
        "before": F.from_json("before", kind, strict),
        "after": F.from_json("after", kind, strict),
    }
    if OLD_KEY in changes.columns:
        columns[OLD_ROW] = F.from_json(OLD_KEY, row_kind, strict)
    return changes.withColumns(columns)


def are_found_first(changes: DataFrame, given: str | None) -> bool:
    """Whether `with_columns` reads a batch to find its columns."""
    return given is None and not _are_typed(changes)


def _are_typed(changes: DataFrame) -> bool:
    return isinstance(changes.schema["after"].dataType, StructType)


def _of_ddl(text: str) -> StructType:
    kind = StructType.fromDDL(text)
    assert isinstance(kind, StructType), "columns as DDL are a struct"
    return kind


def _kinds_of(changes: DataFrame) -> tuple[StructType, StructType]:
    """Return the columns that expressions see, and those of the rows."""
    found = changes.groupBy(ROW_TYPE).agg(F.min(F.struct(*PLACE)).alias("first")).collect()
    kinds = [row[ROW_TYPE] for row in sorted(found, key=lambda row: row["first"])]
    described = [_of_ddl(kind) for kind in kinds if kind is not None]
    if len(described) == len(kinds):
        kind = merged(described)
        return kind, kind
    others = changes.where(F.col(ROW_TYPE).isNull())
    all_columns, with_values = (_inferred(others, without_nulls=each) for each in (False, True))
    return merged([*described, all_columns]), merged([*described, with_values])


def _inferred(changes: DataFrame, *, without_nulls: bool) -> StructType:
    texts = changes.select(F.explode(F.array("after", "before")).alias("value")).where("value IS NOT NULL")
    return changes.sparkSession.read.option("dropFieldIfAllNull", without_nulls).json(texts).schema


def merged(kinds: Iterable[StructType]) -> StructType:
    """Return the columns of all types, in the order of their first appearance.

    Raises ValueError if a column has two types of which none holds the values of the other.
    """
    found: dict[str, DataType] = {}
    for kind in kinds:
        for field in kind.fields:
            known = found.setdefault(field.name, field.dataType)
            found[field.name] = _wider(field.name, known, field.dataType)
    return StructType([StructField(name, kind) for name, kind in found.items()])


def _wider(name: str, one: DataType, other: DataType) -> DataType:
    if one == other:
        return one
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return DecimalType(min(whole + scale, DECIMAL_PRECISION_MAX), scale)
    if isinstance(one, StructType) and isinstance(other, StructType):
        return merged([one, other])
    for order in _WIDENING:
        if isinstance(one, order) and isinstance(other, order):
            return max(one, other, key=lambda kind: order.index(type(kind)))
    raise ValueError(
        f"the column {name!r} has the types {one.simpleString()} and {other.simpleString()} in one batch of "
        "changes: expected one type"
    )
