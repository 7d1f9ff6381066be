"""The contents of files, while records are added to them."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow.parquet as pq

from penstock.connect.connectors.lake.columns.acceptance import AcceptedColumns
from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes
from penstock.connect.connectors.lake.columns.row_buffer import Report, RowBuffer
from penstock.connect.connectors.lake.columns.widening import together
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConfigInvalid, ConnectError

PARQUET: Final = "ParquetFormat"
JSON: Final = "JsonFormat"
CODECS: Final = {
    "none": "",
    "uncompressed": "",
    "snappy": ".snappy",
    "gzip": ".gz",
    "lz4": ".lz4",
    "zstd": ".zstd",
    "brotli": ".br",
}
"""The codecs of Parquet, with what they add to the names of files, as Parquet's Java library has it."""
ROWS_PER_GROUP: Final = 131_072


class FileContent(Protocol):
    """A file that grows in memory."""

    nbytes: int

    def add(self, record: SinkRecord) -> None:
        """Add a record, or report it if it cannot be written."""
        ...

    def finish(self) -> bytes | None:
        """Return the whole file; None if it has no records after all."""
        ...


@dataclass(frozen=True)
class FileFormat:
    """The extension of a format's files, and how one begins."""

    extension: str
    begin: Callable[[Report], FileContent]


def file_format(name: str, codec: str, compression: str) -> FileFormat:
    """Return the format of a class name. Raises ConfigInvalid for an unknown name or compression."""
    if name == PARQUET:
        if codec not in CODECS:
            raise ConfigInvalid(f"parquet.codec is {codec!r}: expected {', '.join(CODECS)}")
        return FileFormat(f"{CODECS[codec]}.parquet", lambda report: ParquetContent(report, codec))
    if name == JSON:
        if compression not in ("none", "gzip"):
            raise ConfigInvalid(f"s3.compression.type is {compression!r}: expected none or gzip")
        is_zipped = compression == "gzip"
        extension = ".json.gz" if is_zipped else ".json"
        return FileFormat(extension, lambda report: JsonContent(report, is_zipped=is_zipped))
    raise ConfigInvalid(f"format.class is {name!r}: expected {PARQUET} or {JSON}")


class ParquetContent:
    """Rows of a Parquet file; without schemas, it has the columns of all its records."""

    def __init__(self, report: Report, codec: str) -> None:
        columns = AcceptedColumns(None, evolves=True, widens=True)
        self._rows = RowBuffer(ArrowTypes(), report, columns.accept)
        self._codec = codec
        self.nbytes = 0

    def add(self, record: SinkRecord) -> None:
        self._rows.add(record, record.value_schema, record.value)
        self.nbytes = self._rows.nbytes

    def finish(self) -> bytes | None:
        chunks = self._rows.take()
        if not chunks:
            return None
        file = io.BytesIO()
        codec = "none" if self._codec == "uncompressed" else self._codec
        pq.write_table(together(chunks), file, compression=codec, row_group_size=ROWS_PER_GROUP)
        return file.getvalue()


class JsonContent:
    """Records as lines of JSON, as JsonConverter writes them without schemas."""

    def __init__(self, report: Report, *, is_zipped: bool) -> None:
        self._report = report
        self._is_zipped = is_zipped
        self._lines: list[bytes] = []
        self.nbytes = 0
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false"}, is_key=False)

    def add(self, record: SinkRecord) -> None:
        try:
            line = self._converter.to_bytes(record.topic, record.value_schema, record.value)
        except ConnectError as error:
            self._report(record, error)
            return
        self._lines.append((line or b"null") + b"\n")
        self.nbytes += len(self._lines[-1])

    def finish(self) -> bytes | None:
        content = b"".join(self._lines)
        # Without a time in its header, the same records make the same bytes.
        return (gzip.compress(content, mtime=0) if self._is_zipped else content) or None
