"""The cost of a schema: rows are read by `penstock.read`'s decoder with and without one, and written.

Without broker and Spark: this measures what a task does with fetched record batches, in rows per second of
processor time. Rounds are interleaved. The output has the median, a row's microseconds, and the time of a row
relative to one that is left as bytes.

    PYTHONPATH=src python benchmarks/decoding.py
"""

from __future__ import annotations

import io
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa

from penstock.arrow.batches import record_batches
from penstock.arrow.column_encoder import ColumnEncoder
from penstock.arrow.formats import make_format
from penstock.arrow.layout import Layout
from penstock.client.reading.fetcher import PartitionRange
from penstock.protocol.records import Record, encode_batch
from spark_side_by_side.orders import SCHEMAS, TYPE, encoder, orders

ROUNDS: Final = 7
ROWS: Final = 200_000
ROWS_PER_BATCH: Final = 4_000
ROWS_PER_SPARK_BATCH: Final = 10_000


def main() -> None:
    column = orders(0, ROWS)
    jobs: dict[str, Callable[[], None]] = {}
    avro_values: list[bytes] = []
    for name in SCHEMAS:
        made, written = make_format(name, SCHEMAS[name]), encoder(name)
        values = written.encode("t", column).to_pylist()
        if name == "avro":
            avro_values = values
        data = memoryview(b"".join(_batches(values)))
        jobs[f"{name}, bytes"] = partial(_read, data, Layout())
        jobs[name] = partial(_read, data, Layout(value=made))
        jobs[f"{name}, written"] = partial(_write, written, column)
    jobs["avro, fastavro row by row"] = lambda: _by_fastavro(avro_values)
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


def _write(written: ColumnEncoder, column: pa.StructArray) -> None:
    """Encode as many rows at once as Spark passes to a sink."""
    rows = sum(
        len(written.encode("t", column.slice(first, ROWS_PER_SPARK_BATCH)))
        for first in range(0, ROWS, ROWS_PER_SPARK_BATCH)
    )
    assert rows == ROWS


def _by_fastavro(values: list[bytes]) -> None:
    import fastavro

    schema = fastavro.parse_schema(json.loads(SCHEMAS["avro"]))
    rows = [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for value in values]
    assert len(pa.array(rows, TYPE)) == ROWS


if __name__ == "__main__":
    main()
