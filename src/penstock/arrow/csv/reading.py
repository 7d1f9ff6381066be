"""Read columns of CSV into columns of structs: each value is one line, with fields in the schema's order.

Arrow's parser reads all lines of a column at once. If a line is bad it only fails, without saying which, so
bad lines are found by bisection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from penstock.arrow.decoded import Decoded, shown, spread, valid_rows
from penstock.client.settings import ConfigError

_LINE_END: Final = r"[\r\n]"
_BYTE_ORDER_MARK: Final = "\ufeff".encode()


@dataclass(frozen=True, slots=True)
class Csv:
    """The CSV format: fields are separated by commas and may be quoted; an empty unquoted field is null."""

    type: pa.StructType
    name: str = "csv"
    is_slow: bool = True

    def __post_init__(self) -> None:
        if not pa.types.is_struct(self.type) or not self.type.num_fields:
            raise ConfigError(f"a schema for CSV has at least one field, found {self.type}")
        for field in self.type:
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
                raise ConfigError(
                    f"field '{field.name}' of the CSV schema is of type {field.type}, which can't be read "
                    "from CSV: expected booleans, numbers, strings, dates and timestamps"
                )

    def decode(self, column: pa.BinaryArray) -> Decoded:
        rows = np.flatnonzero(valid_rows(column))
        lines = column.drop_null()
        bad: dict[int, str] = {}
        pieces: list[pa.Array] = [pa.nulls(0, self.type)]
        self._by_halves(lines, 0, pieces, bad)
        found = spread(pa.concat_arrays(pieces), rows, len(column))
        return Decoded(found, {int(rows[row]): why for row, why in bad.items()})

    def _by_halves(
        self, lines: pa.BinaryArray, first: int, pieces: list[pa.Array], bad: dict[int, str]
    ) -> None:
        if not len(lines):
            return
        try:
            pieces.append(self._parse(lines))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            if len(lines) > 1:
                middle = len(lines) // 2
                self._by_halves(lines.slice(0, middle), first, pieces, bad)
                self._by_halves(lines.slice(middle), first + middle, pieces, bad)
                return
            expected = f"one line of {self.type.num_fields} fields"
            bad[first] = f"expected {expected}, found {shown(lines[0].as_py())} ({problem})"
            pieces.append(pa.nulls(1, self.type))

    def _parse(self, lines: pa.BinaryArray) -> pa.Array:
        """Parse lines that must all be valid. Raises ArrowInvalid."""
        lines.cast(pa.string())  # the parser does not validate texts outside the columns
        if _has_line_end(lines):
            raise pa.ArrowInvalid("it contains a line end")
        if pc.any(pc.equal(pc.binary_length(lines), 0)).as_py() and self.type.num_fields > 1:
            raise pa.ArrowInvalid("it is empty")
        if len(lines) > 1 and pc.any(_odd_quotes(lines)).as_py():
            raise pa.ArrowInvalid("a quote is not closed")  # it would include the next line
        together = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
        text = pc.binary_join(together, b"\n")[0].as_py() + b"\n"
        if text.startswith(_BYTE_ORDER_MARK):  # the parser removes a mark from the first line only
            text = _BYTE_ORDER_MARK + text
        table = pcsv.read_csv(
            pa.BufferReader(text),
            read_options=pcsv.ReadOptions(
                column_names=self.type.names, use_threads=False, block_size=len(text) + 1
            ),
            parse_options=pcsv.ParseOptions(newlines_in_values=False, ignore_empty_lines=False),
            convert_options=pcsv.ConvertOptions(
                column_types={field.name: field.type for field in self.type},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        if table.num_rows != len(lines):
            raise pa.ArrowInvalid(f"{len(lines)} lines were parsed as {table.num_rows} rows")
        columns = [table.column(at).combine_chunks() for at in range(self.type.num_fields)]
        arrays = [pa.concat_arrays(c.chunks) if isinstance(c, pa.ChunkedArray) else c for c in columns]
        if any(pa.types.is_string(each.type) and _has_line_end(each) for each in arrays):
            raise pa.ArrowInvalid("a quote is not closed")  # the text contains the end of its line
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))


def _has_line_end(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, _LINE_END)).as_py())


def _odd_quotes(lines: pa.BinaryArray) -> pa.Array:
    counts = pc.count_substring(lines, b'"')
    return pc.equal(pc.bit_wise_and(counts, pa.scalar(1, counts.type)), 1)
