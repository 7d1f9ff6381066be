"""Write columns of structs as lines of CSV, which `reading` can read."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.encoding import Unwritable
from penstock.client.settings import ConfigError


def lines_of(part: str, kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Return an encoder of structs. Raises ConfigError for types that CSV can't represent.

    Texts are quoted, so that an empty text differs from null.
    """
    if not pa.types.is_struct(kind) or any(
        pa.types.is_nested(f.type) or pa.types.is_binary(f.type) for f in kind
    ):
        raise ConfigError(
            f"the column '{part}' is of type {kind}, which CSV can't hold: expected a struct of booleans, "
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
        raise Unwritable("a text contains a line end, which a line of CSV can't hold")
    quoted = pc.replace_substring(column, '"', '""')
    return pc.binary_join_element_wise('"', quoted, '"', "")
