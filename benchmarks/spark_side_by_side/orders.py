"""Orders in each format, for rows that are measured with a schema and without one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrow.column_encoder import ColumnEncoder
from penstock.arrow.encoding import Encoding

FIRST_MS = 1_700_000_000_000
_CHUNK = 100_000
TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.float64()),
        ("country", pa.string()),
        ("quantity", pa.int32()),
        ("paid", pa.bool_()),
    ]
)
SCHEMAS: Mapping[str, str] = {
    "avro": json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "customer", "type": "string"},
                {"name": "amount", "type": "double"},
                {"name": "country", "type": ["null", "string"]},
                {"name": "quantity", "type": "int"},
                {"name": "paid", "type": "boolean"},
            ],
        }
    ),
    "protobuf": """syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; double amount = 3; optional string country = 4; int32 quantity = 5;
  bool paid = 6;
}""",
    "json-schema": json.dumps(
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "customer": {"type": "string"},
                "amount": {"type": "number"},
                "country": {"type": "string"},
                "quantity": {"type": "integer"},
                "paid": {"type": "boolean"},
            },
        }
    ),
    "csv": "id BIGINT, customer STRING, amount DOUBLE, country STRING, quantity INT, paid BOOLEAN",
}


def orders(first: int, rows: int) -> pa.StructArray:
    """Make orders as a column; every fifth has no country."""
    numbers = np.arange(first, first + rows)
    columns = [
        pa.array(numbers),
        pa.array([f"customer-{number % 977}" for number in numbers.tolist()]),
        pa.array(numbers / 7),
        pa.array([None if number % 5 == 0 else "DE" for number in numbers.tolist()], pa.string()),
        pa.array((numbers % 40).astype(np.int32)),
        pa.array(numbers % 2 == 0),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(TYPE))


def encoder(format: str) -> ColumnEncoder:
    """Return the encoder of a format, without a registry."""
    return ColumnEncoder(Encoding("value", format, None if format == "csv" else SCHEMAS[format]))


def options(format: str) -> dict[str, str]:
    """Return the options of the format for source and sink."""
    return {"value.format": format, "value.schema": SCHEMAS[format]}


@dataclass(frozen=True)
class Orders:
    """`records` orders in one format, without a key."""

    format: str
    records: int

    def chunks(self) -> Iterator[pa.RecordBatch]:
        written = encoder(self.format)
        for first in range(0, self.records, _CHUNK):
            rows = min(_CHUNK, self.records - first)
            times_ms = FIRST_MS + np.arange(first, first + rows)
            yield pa.record_batch(
                {
                    "key": pa.nulls(rows, pa.binary()),
                    "value": written.encode("orders", orders(first, rows)),
                    "timestamp": pa.array(times_ms * 1000, pa.timestamp("us", "UTC")),
                }
            )
