"""Opens files for reading, in the format that is configured or that their names show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from penstock.connect.connectors.formats import settings as keys
from penstock.connect.connectors.formats.compression import DAMAGED, decompressed
from penstock.connect.connectors.formats.csv_rows import CsvReader
from penstock.connect.connectors.formats.delimited import DelimitedReader
from penstock.connect.connectors.formats.items import Item, RecordReader, Stream
from penstock.connect.connectors.formats.json_documents import JsonDocumentReader
from penstock.connect.connectors.formats.settings import FormatSettings
from penstock.connect.connectors.formats.text import json_line, line_decoder
from penstock.connect.connectors.formats.whole_files import WholeFileReader
from penstock.connect.errors import DataError
from penstock.extras import needs_extra

_COMPRESSED: Final = (".gz", ".bz2", ".zst")
_TABS: Final = ".tsv"
_BY_SUFFIX: Final = {
    ".jsonl": keys.JSON_LINES,
    ".ndjson": keys.JSON_LINES,
    ".json": keys.JSON,
    ".csv": keys.CSV,
    _TABS: keys.CSV,
    ".avro": keys.AVRO,
    ".parquet": keys.PARQUET,
}


def open_records(stream: Stream, name: str, position: int, settings: FormatSettings) -> RecordReader:
    """Return a reader of a file's records behind a position; the stream is at its beginning.

    Raises:
        DataError: the file is not in its format.
        MissingExtra: the packages for its format are not installed.
    """
    try:
        return _Undamaged(_opened(stream, name, position, settings))
    except DAMAGED as error:
        raise _damaged(error) from error


class _Undamaged:
    """Reads the records of a file, and raises DataError where its compressed data are damaged."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        try:
            return self._reader.read(limit, is_complete=is_complete)
        except DAMAGED as error:
            raise _damaged(error) from error


def _damaged(error: Exception) -> DataError:
    return DataError(f"Invalid compressed data: {error}")


def _opened(stream: Stream, name: str, position: int, settings: FormatSettings) -> RecordReader:
    format, suffix = format_of(name, settings.format)
    if format == keys.PARQUET:
        with needs_extra("arrow", "reading Parquet files"):
            from penstock.connect.connectors.formats.parquet import ParquetReader
        return ParquetReader(stream, position, batch_rows=settings.batch_size)
    stream = decompressed(stream)
    max_bytes = settings.max_bytes
    match format:
        case keys.AVRO:
            with needs_extra("registry", "reading Avro files"):
                from penstock.connect.connectors.formats.avro_containers import AvroReader
            return AvroReader(stream, position)
        case keys.JSON:
            return JsonDocumentReader(stream, position, max_bytes=max_bytes)
        case keys.JSON_LINES:
            return DelimitedReader(stream, position, json_line, max_bytes=max_bytes)
        case keys.CSV:
            csv = settings.csv
            if suffix == _TABS and csv.separator == ",":
                csv = replace(csv, separator="\t")
            return CsvReader(stream, position, csv, max_bytes=max_bytes)
        case keys.BYTES:
            return WholeFileReader(stream, position, max_bytes=max_bytes)
    return DelimitedReader(stream, position, line_decoder(settings.charset), max_bytes=max_bytes)


def format_of(name: str, configured: str) -> tuple[str, str]:
    """Return the format of a file and the end of its name that shows it, if it was not configured."""
    if configured != keys.AUTO:
        return configured, ""
    path = PurePosixPath(name.lower())
    if path.suffix in _COMPRESSED:
        path = path.with_suffix("")
    return _BY_SUFFIX.get(path.suffix, keys.LINES), path.suffix
