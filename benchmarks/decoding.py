"""What a schema costs: the same records read with one and without, by `penstock.read`'s decoder.

No broker and no Spark: what is measured is what a task does with fetched record batches, in rows a second
of processor time. Rounds are interleaved; printed are the median, and beside it a row's microseconds, and how
many times as long it takes as one that is left as bytes.

    PYTHONPATH=src python benchmarks/decoding.py
"""

from __future__ import annotations

import io
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pyarrow as pa
from google.protobuf import message_factory

from penstock.arrow.batches import record_batches
from penstock.arrow.decoded import Format
from penstock.arrow.formats import make_format
from penstock.arrow.layout import Layout
from penstock.arrow.protobuf.mapping import descriptor_of
from penstock.client.fetcher import PartitionRange
from penstock.protocol.records import Record, encode_batch
from penstock.registry.formats.protobuf.schema import ProtobufSchema

ROUNDS: Final = 7
ROWS: Final = 200_000
ROWS_PER_BATCH: Final = 4_000

AVRO: Final[dict[str, Any]] = {
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
PROTOBUF: Final = """syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; double amount = 3; optional string country = 4; int32 quantity = 5;
  bool paid = 6;
}"""
JSON_TYPES: Final = {
    "long": "integer",
    "string": "string",
    "double": "number",
    "int": "integer",
    "boolean": "boolean",
}
DDL: Final = "id BIGINT, customer STRING, amount DOUBLE, country STRING, quantity INT, paid BOOLEAN"


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{number % 977}",
        "amount": number / 7,
        "country": None if number % 5 == 0 else "DE",
        "quantity": number % 40,
        "paid": number % 2 == 0,
    }


def main() -> None:
    orders = [order(number) for number in range(ROWS)]
    sides: dict[str, tuple[Format, list[bytes]]] = {
        "avro": (make_format("avro", json.dumps(AVRO)), _avro(orders)),
        "protobuf": (make_format("protobuf", PROTOBUF), _protobuf(orders)),
        "json-schema": (make_format("json-schema", _json_schema()), [json.dumps(o).encode() for o in orders]),
        "csv": (make_format("csv", DDL), [_csv(o) for o in orders]),
    }
    jobs: dict[str, Callable[[], None]] = {}
    for name, (made, values) in sides.items():
        data = memoryview(b"".join(_batches(values)))
        jobs[f"{name}, bytes"] = partial(_read, data, Layout())
        jobs[name] = partial(_read, data, Layout(value=made))
    jobs["avro, fastavro row by row"] = lambda: _by_fastavro(sides["avro"][1], sides["avro"][0].type)
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            began = time.process_time()
            job()
            found[name].append(ROWS / (time.process_time() - began))
    print("| values | rows per CPU second | µs a row | of a row left as bytes |\n| --- | --- | --- | --- |")
    for name, rates in found.items():
        plain = statistics.median(found[name.split(",")[0] + ", bytes"])
        rate = statistics.median(rates)
        span = f"{min(rates) / 1e6:.2f}–{max(rates) / 1e6:.2f}"
        print(f"| {name} | {rate / 1e6:.2f} M ({span}) | {1e6 / rate:.2f} | {plain / rate:.1f} × |")


def _read(data: memoryview, layout: Layout) -> None:
    rows = sum(batch.num_rows for batch in record_batches(data, PartitionRange("t", 0, 0, ROWS), layout))
    assert rows == ROWS


def _batches(values: list[bytes]) -> list[bytes]:
    return [
        encode_batch(
            [Record(0, 1_700_000_000_000, None, value) for value in values[first : first + ROWS_PER_BATCH]],
            base_offset=first,
        )
        for first in range(0, len(values), ROWS_PER_BATCH)
    ]


def _avro(orders: list[dict[str, Any]]) -> list[bytes]:
    import fastavro

    schema = fastavro.parse_schema(AVRO)
    found = []
    for each in orders:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, each)
        found.append(buffer.getvalue())
    return found


def _by_fastavro(values: list[bytes], kind: pa.DataType) -> None:
    import fastavro

    schema = fastavro.parse_schema(AVRO)
    rows = [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for value in values]
    assert len(pa.array(rows, kind)) == ROWS


def _protobuf(orders: list[dict[str, Any]]) -> list[bytes]:
    files = ProtobufSchema.parse(PROTOBUF, (), {}).file_set()
    message = message_factory.GetMessageClass(descriptor_of(files, "Order"))
    return [message(**each).SerializeToString() for each in orders]


def _json_schema() -> str:
    kinds = [(f["name"], f["type"][1] if isinstance(f["type"], list) else f["type"]) for f in AVRO["fields"]]
    return json.dumps({"type": "object", "properties": {n: {"type": JSON_TYPES[k]} for n, k in kinds}})


def _csv(each: dict[str, Any]) -> bytes:
    texts = (
        "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
        for value in each.values()
    )
    return ",".join(texts).encode()


if __name__ == "__main__":
    main()
