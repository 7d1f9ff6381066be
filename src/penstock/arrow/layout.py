"""The columns of a topic: those of Spark's own Kafka source by name and type, for Spark and without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from penstock.arrow.decoded import Format
from penstock.arrow.formats import BINARY
from penstock.client.settings import ConfigError

HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
ERROR_COLUMN: Final = "_error"
# The bytes of key and value as they are, in rows with an error.
KEPT_COLUMNS: Final = {"_error_key": "key", "_error_value": "value"}
DecodeErrors = Literal["fail", "null", "column", "dead-letter"]
DECODE_ERRORS: Final[tuple[DecodeErrors, ...]] = ("fail", "null", "column", "dead-letter")


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns there are, and what the bytes of keys and values become. Can be pickled.

    ``decode_errors``: a value that its format cannot read ends the read (``fail``), or is null and told about
    in the column ``_error`` (``null``), with its bytes beside it (``column``), or its record is left out and
    handed to whoever keeps dead letters (``dead-letter``). ``columns`` None is all. ``timestamp_unit``:
    Kafka's own is ms; Spark knows us alone.
    """

    key: Format = BINARY
    value: Format = BINARY
    decode_errors: DecodeErrors = "fail"
    include_headers: bool = False
    timestamp_unit: Literal["ms", "us"] = "ms"
    columns: tuple[str, ...] | None = None

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
        """These columns only, in this order. Raises ConfigError."""
        if columns is None:
            return self
        known = self.schema.names
        if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
            raise ConfigError(f"'columns': expected names, each once, out of {known}; found {columns!r}")
        for name in columns:
            if name not in known:
                raise ConfigError(f"'columns': unknown column {name!r}, expected some of {', '.join(known)}")
        return Layout(
            self.key,
            self.value,
            self.decode_errors,
            self.include_headers,
            self.timestamp_unit,
            tuple(columns),
        )
