"""Writes the data files of a Delta table; they are not in the table until a commit adds them."""

from __future__ import annotations

import datetime
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from penstock.arrow.table_rows import identities
from penstock.connect.errors import ConnectError

if TYPE_CHECKING:
    from deltalake import DeltaTable

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder for rows whose partition column is null, as in Hive."""
_PLAIN_FOLDER: Final = re.compile(r"(?:[\w.-]+=[\w.-]+/)*", re.ASCII)
_TEXT_MAX: Final = 32
"""Longer strings have no bounds in the statistics, because cut ones would need to be rounded up."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file and what Delta's log says of it. `path` is relative to the table."""

    path: str
    size: int
    partition_values: Mapping[str, str | None]
    modified_ms: int
    stats: str


def written_files(table: DeltaTable, rows: pa.Table, storage: Mapping[str, str]) -> list[DataFile]:
    """Write rows that have the table's columns, a file for each combination of partition values."""
    from deltalake.fs import DeltaStorageHandler

    handler = DeltaStorageHandler.from_table(table._table, dict(storage))
    files = pa_fs.PyFileSystem(handler)
    columns = list(table.metadata().partition_columns)
    return [_written(files, part, values) for values, part in _by_partition(rows, columns)]


def _by_partition(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Split rows by the values of columns, which the files then lack."""
    if not columns:
        yield {}, rows
        return
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, values in enumerate(identities(rows, columns)):
        places.setdefault(values, []).append(place)
    stored = rows.drop_columns(list(columns))
    if not stored.num_columns:  # Arrow does not count the rows of a table without columns
        raise ConnectError(f"all columns are partition columns, expected one besides {', '.join(columns)}")
    for values, found in places.items():
        named = dict(zip(columns, map(_partition_text, values), strict=True))
        yield named, stored.take(pa.array(found, pa.int64()))


def _partition_text(value: Any) -> str | None:
    """Return a value as Delta's protocol writes those of partitions; an empty string means null."""
    match value:
        case None | "" | b"":
            return None
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(" ", "microseconds")  # in UTC, as the column is
        case Decimal():
            return format(value, "f")  # never with an exponent
        case bytes():
            return "".join(f"\\u{byte:04x}" for byte in value)
    return str(value)


def _written(files: pa_fs.FileSystem, rows: pa.Table, values: Mapping[str, str | None]) -> DataFile:
    path = f"{_folder(values)}part-{uuid.uuid4()}.snappy.parquet"
    with files.open_output_stream(path) as stream:
        pq.write_table(rows, stream)
        size = stream.tell()
    return DataFile(path, size, values, time.time_ns() // 1_000_000, _stats(rows))


def _folder(values: Mapping[str, str | None]) -> str:
    """Return the folder of a partition as Hive names it, or none if its name would have to be encoded.

    It is only for people: the values of a file's partition are in Delta's log.
    """
    folder = "".join(f"{name}={value or NULL_PARTITION}/" for name, value in values.items())
    return folder if _PLAIN_FOLDER.fullmatch(folder) else ""


def _stats(rows: pa.Table) -> str:
    """Return statistics of columns as JSON, with which readers skip files."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        bounds = _bounds(column)
        if bounds is not None:
            least[name], most[name] = bounds
    found = {"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return json.dumps(found)


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the least and the greatest value, for the types whose text in JSON is not in doubt."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind)):
        return None
    found = pc.min_max(column).as_py()
    if found["min"] is None:
        return None
    bounds = found["min"], found["max"]
    if pa.types.is_date(kind):
        return bounds[0].isoformat(), bounds[1].isoformat()
    if pa.types.is_string(kind) and max(map(len, bounds)) > _TEXT_MAX:
        return None
    return bounds
