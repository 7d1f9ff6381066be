"""Change records in Debezium's envelope as a DataFrame of changes.

The rows before and after a change stay JSON texts (or structs, if the source decoded Avro): their columns may
differ from record to record, while a query's columns are fixed when it starts. `apply_changes` gives them
columns batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, Final, get_args

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from penstock.spark.changes.row_types import OutOfRange, RowType, row_type

PLACE: Final = ("topic", "partition", "offset")
ROW_TYPE: Final = "row_type"
KEY: Final = "key"
OLD_KEY: Final = "old_key"
NEW_KEY: Final = "new_key"
"""Columns of `read_keyed_changes`: a record's key, and those before and after a change of its row's key."""

SOURCE_DDL: Final = (
    "version STRING, connector STRING, name STRING, ts_ms BIGINT, ts_us BIGINT, ts_ns BIGINT, "
    "snapshot STRING, db STRING, sequence STRING, schema STRING, `table` STRING, txId BIGINT, lsn BIGINT, "
    "xmin BIGINT, server_id BIGINT, gtid STRING, file STRING, pos BIGINT, row INT, thread BIGINT, "
    "query STRING"
)
"""The fields of ``source`` that Debezium's connectors for PostgreSQL, MySQL and MariaDB write."""

_PARSED_DDL: Final = (
    "op STRING, before STRING, after STRING, source_text STRING, ts_ms BIGINT, row_type STRING, "
    "key STRING, old_key STRING, new_key STRING, topic STRING, partition INT, offset BIGINT"
)
_PARSED: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("op", "before", "after", "source_text")),
        ("ts_ms", pa.int64()),
        *((name, pa.string()) for name in (ROW_TYPE, KEY, OLD_KEY, NEW_KEY)),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


def read_changes(records: DataFrame, *, out_of_range: OutOfRange = "error") -> DataFrame:
    """Return the changes in the records of a DataFrame of topics, one a record, without tombstones.

    ``records`` has the columns of the sources ``penstock`` and ``kafka``. Its ``value`` is Debezium's
    envelope: JSON with or without schemas, as binary or text, or the struct that the source decodes from
    Avro.

    The columns: ``op`` (c, u, d, r, t); ``before`` and ``after``, JSON texts or structs; ``source``, a
    struct; ``ts``, when the connector read the change; ``topic``, ``partition``, ``offset``. Records of JSON
    with schemas also have ``row_type``, the columns of ``before`` and ``after`` as DDL, which ``from_json``
    takes. Dates, times and decimals, which Debezium encodes, are texts that ``from_json`` understands.

    A date outside of the years 1 to 9999 or a timestamp after the year 294246 fails the query. With
    ``out_of_range="nearest"`` the nearest one is kept instead, and a warning is logged.

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
    nothing = F.lit(None).cast("binary")
    keys = [nothing.alias(name) for name in _KEYS]
    return _parsed(present.select(F.col("value").cast("binary"), *keys, *PLACE), out_of_range, ROW_TYPE)


def read_keyed_changes(records: DataFrame, *, out_of_range: OutOfRange = "error") -> DataFrame:
    """Return what `read_changes` does, and the keys of the records, for topics of one partition each.

    ``records`` has the column ``headers`` too, and keys, headers and values are JSON without schemas, but for
    values, which may have them. Further columns: ``key``, ``old_key`` and ``new_key``, JSON objects of
    columns. The connector writes a change of a key as a delete, which has the new one, and a create, which
    has the old one. With them, `apply_changes` can take values that the database did not log from the old
    row.
    """
    headers = {name: F.filter("headers", _is_named(title)) for name, title in _HEADERS.items()}
    keys = [
        F.col("key").cast("binary").alias(KEY),
        *(F.get(found, F.lit(0))["value"].alias(name) for name, found in headers.items()),
    ]
    present = records.where("value IS NOT NULL")
    return _parsed(
        present.select(F.col("value").cast("binary"), *keys, *PLACE),
        out_of_range,
        *(ROW_TYPE, KEY, OLD_KEY, NEW_KEY),
    )


def _is_named(title: str) -> Callable[[Column], Column]:
    return lambda header: header["key"] == title


def _parsed(records: DataFrame, out_of_range: OutOfRange, *columns: str) -> DataFrame:
    """Return the changes in records with the columns ``value``, `_KEYS` and `PLACE`, all but PLACE binary."""
    if out_of_range not in get_args(OutOfRange):
        raise ValueError(f"out_of_range is {out_of_range!r}: expected one of {get_args(OutOfRange)}")
    parse = partial(_parse_batches, out_of_range=out_of_range)
    return records.mapInArrow(parse, _PARSED_DDL).select(
        "op",
        "before",
        "after",
        F.from_json("source_text", SOURCE_DDL).alias("source"),
        F.timestamp_millis("ts_ms").alias("ts"),
        *columns,
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


_KEYS: Final = (KEY, OLD_KEY, NEW_KEY)
_HEADERS: Final = {OLD_KEY: "__debezium.oldkey", NEW_KEY: "__debezium.newkey"}
_NULLS: Final = (b"", b"null")
_MESSAGE: Final = "m"  # pg_logical_emit_message: no change of a row
_ENVELOPES: Final = msgspec.json.Decoder(Envelope)
_SCHEMAS: Final = msgspec.json.Decoder(dict[str, Any])
# Numbers with a fraction keep their digits: they may be decimals.
_ROWS: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_ROW_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def _parse_batches(
    batches: Iterator[pa.RecordBatch], out_of_range: OutOfRange = "error"
) -> Iterator[pa.RecordBatch]:
    """Parse records in one of Spark's Python workers; the columns are `_PARSED`."""
    types: dict[bytes, RowType] = {}
    for batch in batches:
        given = batch.to_pydict()
        keys = zip(*(given[name] for name in _KEYS), strict=True)
        places = zip(*(given[name] for name in PLACE), strict=True)
        records = zip(given["value"], keys, places, strict=True)
        parsed = [parse_change(value, found, place, types, out_of_range) for value, found, place in records]
        rows = [row for row in parsed if row is not None]
        columns = zip(*rows, strict=True) if rows else ((),) * len(_PARSED)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _PARSED.types, strict=True)]
        yield pa.record_batch(arrays, schema=_PARSED)


def parse_change(
    value: bytes,
    keys: tuple[bytes | None, ...],
    place: tuple[str, int, int],
    types: dict[bytes, RowType],
    out_of_range: OutOfRange = "error",
) -> tuple[Any, ...] | None:
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
                    kind = types[schema] = row_type(_SCHEMAS.decode(schema), out_of_range)
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
            *(None if key is None else _row(msgspec.Raw(key), kind) for key in keys),
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
