"""Change records in Debezium's envelope as a DataFrame of changes.

The rows before and after a change stay JSON texts (or structs, if the source decoded Avro): their columns may
differ from record to record, while a query's columns are fixed when it starts. `apply_changes` gives them
columns batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from penstock.spark.changes.row_types import RowType, row_type

PLACE: Final = ("topic", "partition", "offset")
ROW_TYPE: Final = "row_type"

SOURCE_DDL: Final = (
    "version STRING, connector STRING, name STRING, ts_ms BIGINT, ts_us BIGINT, ts_ns BIGINT, "
    "snapshot STRING, db STRING, sequence STRING, schema STRING, `table` STRING, txId BIGINT, lsn BIGINT, "
    "xmin BIGINT, server_id BIGINT, gtid STRING, file STRING, pos BIGINT, row INT, thread BIGINT, "
    "query STRING"
)
"""The fields of ``source`` that Debezium's connectors for PostgreSQL, MySQL and MariaDB write."""

_PARSED_DDL: Final = (
    "op STRING, before STRING, after STRING, source_text STRING, ts_ms BIGINT, row_type STRING, "
    "topic STRING, partition INT, offset BIGINT"
)
_PARSED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("op", "before", "after", "source_text")),
        ("ts_ms", pa.int64()),
        (ROW_TYPE, pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


def read_changes(records: DataFrame) -> DataFrame:
    """Return the changes in the records of a DataFrame of topics, one a record, without tombstones.

    ``records`` has the columns of the sources ``penstock`` and ``kafka``. Its ``value`` is Debezium's
    envelope: JSON with or without schemas, as binary or text, or the struct that the source decodes from
    Avro.

    The columns: ``op`` (c, u, d, r, t); ``before`` and ``after``, JSON texts or structs; ``source``, a
    struct; ``ts``, when the connector read the change; ``topic``, ``partition``, ``offset``. Records of JSON
    with schemas also have ``row_type``, the columns of ``before`` and ``after`` as DDL, which ``from_json``
    takes. Dates, times and decimals, which Debezium encodes, are texts that ``from_json`` understands.

    Raises ValueError for a ``value`` of another type. Values that are no envelope fail the query.
    """
    kind = records.schema["value"].dataType
    present = records.where("value IS NOT NULL")
    if isinstance(kind, StructType):
        missing = {"op", "before", "after", "source"} - set(kind.names)
        if missing:
            raise ValueError(f"the column value lacks {sorted(missing)}: expected Debezium's envelope")
        return present.where("value.op != 'm'").select(
            "value.op", "value.before", "value.after", "value.source", _time_read(kind), *PLACE
        )
    if not isinstance(kind, BinaryType | StringType):
        raise ValueError(
            f"the column value has the type {kind.simpleString()}: expected binary, string or struct"
        )
    parsed = present.select(F.col("value").cast("binary"), *PLACE).mapInArrow(_parse_batches, _PARSED_DDL)
    return parsed.select(
        "op",
        "before",
        "after",
        F.from_json("source_text", SOURCE_DDL).alias("source"),
        F.timestamp_millis("ts_ms").alias("ts"),
        ROW_TYPE,
        *PLACE,
    )


def _time_read(envelope: StructType) -> Column:
    if "ts_ms" not in envelope.names:
        return F.lit(None).cast("timestamp").alias("ts")
    return F.timestamp_millis(F.col("value.ts_ms").cast("bigint")).alias("ts")


class Envelope(msgspec.Struct):
    """The value of one record: an envelope, or an envelope as the payload beside its schema."""

    schema: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()
    op: str | None = None
    before: msgspec.Raw = msgspec.Raw()
    after: msgspec.Raw = msgspec.Raw()
    source: msgspec.Raw = msgspec.Raw()
    ts_ms: int | None = None


_NULLS: Final = (b"", b"null")
_MESSAGE: Final = "m"  # pg_logical_emit_message: no change of a row
_ENVELOPES: Final = msgspec.json.Decoder(Envelope)
_SCHEMAS: Final = msgspec.json.Decoder(dict[str, Any])
# Numbers with a fraction keep their digits: they may be decimals.
_ROWS: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_ROW_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def _parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse records in one of Spark's Python workers; the columns are `_PARSED`."""
    types: dict[bytes, RowType] = {}
    for batch in batches:
        given = batch.to_pydict()
        records = zip(given["value"], *(given[name] for name in PLACE), strict=True)
        parsed = [_parse(value, place, types) for value, *place in records]
        rows = [row for row in parsed if row is not None]
        columns = zip(*rows, strict=True) if rows else ((),) * len(_PARSED)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _PARSED.types, strict=True)]
        yield pa.record_batch(arrays, schema=_PARSED)


def _parse(value: bytes, place: list[Any], types: dict[bytes, RowType]) -> tuple[Any, ...] | None:
    """Return the columns of one record; None for a message. Raises ValueError with the record's place."""
    try:
        envelope = _ENVELOPES.decode(value)
        kind = None
        if bytes(envelope.payload) not in _NULLS:
            schema = bytes(envelope.schema)
            envelope = _ENVELOPES.decode(envelope.payload)
            if schema not in _NULLS:
                kind = types.get(schema)
                if kind is None:
                    kind = types[schema] = row_type(_SCHEMAS.decode(schema))
        if envelope.op is None:
            raise ValueError("it has no field 'op'")
        if envelope.op == _MESSAGE:
            return None
        return (
            envelope.op,
            _row(envelope.before, kind),
            _row(envelope.after, kind),
            _text(envelope.source),
            envelope.ts_ms,
            None if kind is None else kind.ddl,
            *place,
        )
    except (ValueError, KeyError, TypeError) as error:
        topic, partition, offset = place
        raise ValueError(
            f"the record in {topic}-{partition} at offset {offset} is not a change in Debezium's envelope: "
            f"{error}"
        ) from error


def _row(text: msgspec.Raw, kind: RowType | None) -> str | None:
    if kind is None or kind.convert is None or bytes(text) in _NULLS:
        return _text(text)
    return _ROW_ENCODER.encode(kind.convert(_ROWS.decode(text))).decode()


def _text(text: msgspec.Raw) -> str | None:
    found = bytes(text)
    return None if found in _NULLS else found.decode()
