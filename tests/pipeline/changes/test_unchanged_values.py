"""The marks of values that a change does not have are those that the connector writes. No Spark session."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from penstock.connect.cdc.postgres.columns import _unchanged_array
from penstock.connect.data.schema import Schema, Type
from penstock.spark.changes.batches import _equal_to
from penstock.spark.changes.settings import UNAVAILABLE

NUMBERS = list(UNAVAILABLE.encode())


@pytest.mark.parametrize(
    ("kind", "mark", "other"),
    [
        (pa.string(), UNAVAILABLE, "x"),
        (pa.string(), f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}', "{}"),
        (pa.string(), UNAVAILABLE.encode().hex(), ""),
        (pa.string(), "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", "X1=="),
        (pa.binary(), UNAVAILABLE.encode(), b"x"),
        (pa.list_(pa.string()), [UNAVAILABLE], [UNAVAILABLE, "x"]),
        (pa.list_(pa.binary()), [UNAVAILABLE.encode()], [b""]),
        (pa.map_(pa.string(), pa.string()), [(UNAVAILABLE, UNAVAILABLE)], []),
        (pa.list_(pa.int64()), NUMBERS, NUMBERS[1:]),
        (pa.list_(pa.date32()), [date.fromordinal(719_163 + each) for each in NUMBERS], [date(1970, 1, 1)]),
    ],
)
def test_marks(kind: pa.DataType, mark: Any, other: Any) -> None:
    [found] = _equal_to(pa.chunked_array([pa.array([mark, other, None], kind)]), UNAVAILABLE)
    assert found.to_pylist() == [True, False, False]


@pytest.mark.parametrize(
    ("element", "schema", "kind"),
    [
        ("text", Schema(Type.STRING), pa.list_(pa.string())),
        ("bytea", Schema(Type.BYTES), pa.list_(pa.binary())),
        ("int4", Schema(Type.INT32), pa.list_(pa.int32())),
        ("int8", Schema(Type.INT64), pa.list_(pa.int64())),
        ("uuid", Schema(Type.STRING), pa.list_(pa.string())),
    ],
)
def test_marks_of_the_connector(element: str, schema: Schema, kind: pa.DataType) -> None:
    placeholder = "ä" + UNAVAILABLE
    mark = _unchanged_array(element, schema, placeholder.encode())
    [found] = _equal_to(pa.chunked_array([pa.array([mark], kind)]), placeholder)
    assert found.to_pylist() == [True]
