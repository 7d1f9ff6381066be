"""The columns of a topic, with the names and types of Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import pyarrow as pa

from penstock.arrow.decoded import Format
from penstock.arrow.formats import BINARY
from penstock.client.settings import ConfigError

HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
ERROR_COLUMN: Final = "_error"
# Columns with the original bytes of key and value, in rows with an error.
KEPT_COLUMNS: Final = {"_error_key": "key", "_error_value": "value"}
DecodeErrors = Literal["fail", "null", "column", "dead-letter"]
DamagedBatches = Literal["fail", "skip"]
DECODE_ERRORS: Final[tuple[DecodeErrors, ...]] = ("fail", "null", "column", "dead-letter")
DAMAGED_BATCHES: Final[tuple[DamagedBatches, ...]] = ("fail", "skip")


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns to produce and the formats of keys and values. It can be pickled.

    ``decode_errors`` determines what happens to a value that its format cannot read. ``fail`` ends the read.
    ``null`` makes the value null and writes the reason to the column ``_error``. ``column`` also adds columns
    with the original bytes. ``dead-letter`` leaves the record out and passes it to the dead letter callback.
    ``damaged_batches`` determines what happens to a batch that is damaged, so that none of its records can be
    read: ``fail`` ends the read, ``skip`` logs a warning and leaves the batch out.
    ``columns`` None means all columns. ``timestamp_unit`` is ms as in Kafka, or us, the only unit of Spark.
    """

    key: Format = BINARY
    value: Format = BINARY
    decode_errors: DecodeErrors = "fail"
    include_headers: bool = False
    timestamp_unit: Literal["ms", "us"] = "ms"
    columns: tuple[str, ...] | None = None
    damaged_batches: DamagedBatches = "fail"

    @property
    def schema(self) -> pa.Schema:
        fields = [
            pa.field("key", self.key.type),
            pa.field("value", self.value.type),
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp(self.timestamp_unit, "UTC")),
            pa.field("timestampType", pa.int32()),
        ]
        if self.include_headers:
            fields.append(pa.field("headers", HEADERS))
        if self.decode_errors in ("null", "column"):
            fields.append(pa.field(ERROR_COLUMN, pa.string()))
        if self.decode_errors == "column":
            fields += [pa.field(name, pa.binary()) for name in KEPT_COLUMNS]
        whole = pa.schema(fields)
        return whole if self.columns is None else pa.schema([whole.field(name) for name in self.columns])

    def select(self, columns: Sequence[str] | None) -> Layout:
        """Return the layout with only these columns, in this order. Raises ConfigError for invalid names."""
        if columns is None:
            return self
        known = self.schema.names
        if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
            raise ConfigError(f"'columns': expected names, each once, out of {known}; found {columns!r}")
        for name in columns:
            if name not in known:
                raise ConfigError(f"'columns': unknown column {name!r}, expected some of {', '.join(known)}")
        return replace(self, columns=tuple(columns))
