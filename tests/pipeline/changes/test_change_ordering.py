"""The order of a batch's changes, and the row types of a batch together. No Spark session."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.spark.changes.events import Kind
from penstock.spark.changes.ordering import order_of_log, order_of_sequences
from penstock.spark.changes.typed_rows import merged

PUT, TRUNCATE = Kind.PUT, Kind.TRUNCATE


def places(*changes: tuple[int, int, int | None, Kind]) -> pa.Table:
    partitions, offsets, positions, kinds = zip(*changes, strict=True)
    return pa.table(
        {
            "topic": ["t"] * len(changes),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "position": pa.array(positions, pa.int64()),
            "kind": pa.array(kinds, pa.int8()),
        }
    )


def test_changes_of_a_partition_keep_their_order_whatever_their_position() -> None:
    found = order_of_log(places((1, 1, 5, PUT), (0, 7, 9, PUT), (1, 0, 6, PUT), (0, 2, None, PUT)))
    assert found.to_pylist() == [3, 1, 2, 0]


def test_truncates_are_placed_among_the_changes_of_other_partitions() -> None:
    found = order_of_log(
        places(
            (0, 0, 10, PUT),
            (0, 1, 20, TRUNCATE),
            (0, 2, 15, PUT),  # after the truncate in its own partition
            (1, 0, 19, PUT),
            (1, 1, 21, PUT),
            (1, 2, None, PUT),  # its place is not known
            (2, 0, 5, TRUNCATE),
        )
    )
    assert found.to_pylist() == [5, 6, 0, 3, 1, 2, 4]


def test_changes_with_one_sequence_keep_the_order_of_the_log() -> None:
    given = places((0, 1, None, PUT), (0, 0, None, PUT), (0, 2, None, PUT))
    assert order_of_sequences(given, [(1, 2), (1, 2), (1, 1)]).to_pylist() == [2, 1, 0]


def struct(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_columns_of_several_row_types() -> None:
    found = merged(
        [
            struct(id=IntegerType(), price=DecimalType(10, 2), s=struct(a=LongType())),
            struct(id=LongType(), price=DecimalType(12, 4), s=struct(b=StringType()), added=StringType()),
            struct(id=IntegerType(), x=FloatType()),
            struct(x=DoubleType()),
        ]
    )
    assert found == struct(
        id=LongType(),
        price=DecimalType(12, 4),
        s=struct(a=LongType(), b=StringType()),
        added=StringType(),
        x=DoubleType(),
    )


def test_types_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="the column 'id' has the types int and string in one batch"):
        merged([struct(id=IntegerType()), struct(id=StringType())])
    with pytest.raises(ValueError, match="the column 'id' has the types bigint and double in one batch"):
        merged([struct(id=LongType()), struct(id=DoubleType())])  # a double has 53 bits for an integer
