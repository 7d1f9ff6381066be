"""Encode columns to the bytes of keys and values, the reverse of `formats`. A null stays null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.arrow.byte_columns import constant, joined
from penstock.arrow.csv.writing import lines_of
from penstock.arrow.decoded import spread, valid_rows
from penstock.arrow.encoding import Encoding
from penstock.arrow.json.writing import documents_of
from penstock.arrow.written_schema import framed_encoder
from penstock.client.settings import ConfigError

_AS_THEY_ARE: Final = ("binary", "bytes", "string")


class ColumnEncoder:
    """The encoder of one task; it caches the encoding function of each topic and type."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._known: dict[tuple[str, pa.DataType], Callable[[pa.Array], pa.Array]] = {}

    def encode(self, topic: str, column: pa.Array) -> pa.Array:
        """Encode a column.

        Raises Unwritable for a row, ConfigError for the column, and the registry client's errors.
        """
        key = (topic, column.type)
        if key not in self._known:
            self._known[key] = _encoder(self._encoding, topic, column.type)
        encode = self._known[key]
        if not column.null_count:
            return encode(column)
        return spread(encode(column.drop_null()), np.flatnonzero(valid_rows(column)), len(column))


def _encoder(encoding: Encoding, topic: str, kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    if encoding.name in _AS_THEY_ARE:
        if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            raise ConfigError(
                f"the column '{encoding.part}' is of type {kind}, which the format "
                f"'{encoding.name}' can't hold: expected string or binary"
            )
        return lambda column: column
    if encoding.name == "json":
        return documents_of(kind)
    if encoding.name == "csv":
        return lines_of(encoding.part, kind)
    encode, prefix = framed_encoder(encoding, topic, kind)
    if not prefix:
        return encode
    before = constant(prefix)
    return lambda column: joined(before, encode(column))
