"""Columns of structs to lines of CSV: what `reading` reads."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.encoding import Unwritable
from penstock.client.settings import ConfigError


def lines_of(part: str, kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Texts stand in quotes, so that one that is empty is none that is null. Raises ConfigError for what CSV
    does not hold.
    """
    if not pa.types.is_struct(kind) or any(
        pa.types.is_nested(f.type) or pa.types.is_binary(f.type) for f in kind
    ):
        raise ConfigError(
            f"the column '{part}' is of type {kind}, which CSV does not hold: expected a struct of booleans, "
            "numbers, strings, dates and timestamps"
        )

    def encode(column: pa.StructArray) -> pa.Array:
        fields = [_field(each) for each in column.flatten()]
        return pc.binary_join_element_wise(*fields, ",", null_handling="replace", null_replacement="").cast(
            pa.binary()
        )

    return encode


def _field(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return column.cast(pa.string())
    if pc.any(pc.match_substring_regex(column, r"[\r\n]")).as_py():
        raise Unwritable("a text has an end of line in it, which a line of CSV does not hold")
    quoted = pc.replace_substring(column, '"', '""')
    return pc.binary_join_element_wise('"', quoted, '"', "")
