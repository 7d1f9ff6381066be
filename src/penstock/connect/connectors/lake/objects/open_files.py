"""The files of one partition that are not finished, and the rules by which they end.

All files of a partition end together, after a number of records, a span of their times, or a change of their
schema. These rules look only at records, so that a partition that is read again from an offset at which files
began makes the same files, under the same names: nothing is there twice. Only `schedule_ms` looks at the
clock, and files that it ended can end elsewhere when records are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.connect.connectors.lake.columns.row_buffer import Report
from penstock.connect.connectors.lake.objects.files import FileContent, FileFormat
from penstock.connect.connectors.lake.objects.places.partitioners import Folder
from penstock.connect.connectors.lake.objects.places.times import Extract
from penstock.connect.connectors.lake.objects.projection import projected
from penstock.connect.data.records import SinkRecord
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct

NONE: Final = "NONE"
FORWARD: Final = "FORWARD"
COMPATIBILITIES: Final = (NONE, "BACKWARD", FORWARD, "FULL")


@dataclass(frozen=True)
class Rotation:
    """When files end: after a number of records or of bytes, after a span of the records' times, or of time.

    -1 switches a span off. ``compatibility`` decides about changes of the schema.
    """

    flush_size: int
    interval_ms: int
    schedule_ms: int
    bytes_max: int
    compatibility: str


@dataclass(frozen=True)
class Layout:
    """Where files lie and what they contain. ``name`` makes a path of a record and its folder."""

    folder: Folder
    name: Callable[[SinkRecord, str], str]
    extract: Extract
    format: FileFormat
    report: Report


@dataclass(frozen=True, slots=True)
class FinishedFile:
    """A file that waits to be stored, and the first offset of all files that ended with it.

    Files of one partition overlap: records behind the first one of a file can be in files before it. So the
    group's offset may only move once all files that ended together are stored.
    """

    path: str
    content: bytes
    first_offset: int


@dataclass(slots=True)
class _OpenFile:
    path: str
    first_offset: int
    content: FileContent


class OpenFiles:
    """The open files of one partition, by folder, and those that are finished but not stored."""

    def __init__(self, layout: Layout, rotation: Rotation) -> None:
        self._layout = layout
        self._rotation = rotation
        self._open: dict[tuple[str, str], _OpenFile] = {}
        self._count = 0
        self._nbytes = 0
        self._first_time_ms = 0
        self._schema: Schema | None = None
        self._opened_s = 0.0
        self.finished: list[FinishedFile] = []

    @property
    def first_offset(self) -> int | None:
        """The offset of the first record that is not stored; None if all are."""
        finished = [file.first_offset for file in self.finished]
        return min([*finished, *(file.first_offset for file in self._open.values())], default=None)

    def add(self, record: SinkRecord) -> None:
        """Add a record to its file, after ending files that must end before it. Raises DataError."""
        folder = self._layout.folder(record)
        time_ms = self._layout.extract(record) if self._rotation.interval_ms > 0 else 0
        if self._open and self._must_end_before(record, time_ms):
            self.end()
        if not self._open:
            self._first_time_ms = time_ms
            self._schema = record.value_schema
            self._opened_s = time.monotonic()
        file = self._open.get((record.topic, folder))
        if file is None:
            path = self._layout.name(record, folder)
            file = _OpenFile(path, record.original_offset, self._layout.format.begin(self._layout.report))
            self._open[record.topic, folder] = file
        before = file.content.nbytes
        file.content.add(self._projected(record))
        self._nbytes += file.content.nbytes - before
        self._count += 1
        if self._count >= self._rotation.flush_size or self._nbytes >= self._rotation.bytes_max:
            self.end()

    def due_in_s(self) -> float | None:
        """Return the time until the schedule ends the files; None without open files or a schedule."""
        if not self._open or self._rotation.schedule_ms <= 0:
            return None
        return self._opened_s + self._rotation.schedule_ms / 1000 - time.monotonic()

    def end(self) -> None:
        """End all files, so that they can be stored."""
        first_offset = min((file.first_offset for file in self._open.values()), default=0)
        for file in self._open.values():
            content = file.content.finish()
            if content is not None:
                self.finished.append(FinishedFile(file.path, content, first_offset))
        self._open.clear()
        self._count = self._nbytes = 0

    def _must_end_before(self, record: SinkRecord, time_ms: int) -> bool:
        interval_ms = self._rotation.interval_ms
        if interval_ms > 0 and time_ms - self._first_time_ms >= interval_ms:
            return True
        schema = record.value_schema
        return schema is not self._schema and schema != self._schema and not self._can_project(schema)

    def _can_project(self, schema: Schema | None) -> bool:
        """Whether a record with this schema can be written with the schema of the open files.

        With BACKWARD and FULL compatibility, that is a record of an older version, and with FORWARD one of a
        newer version.
        """
        if self._rotation.compatibility == NONE or schema is None or self._schema is None:
            return False
        if schema.version is None or self._schema.version is None or schema.name != self._schema.name:
            return False
        if self._rotation.compatibility == FORWARD:
            return schema.version > self._schema.version
        return schema.version < self._schema.version

    def _projected(self, record: SinkRecord) -> SinkRecord:
        """Return a record with the schema of the open files: fields that only one schema has are left out, or
        get their default."""
        if (
            self._schema is None
            or record.value_schema == self._schema
            or not isinstance(record.value, Struct)
        ):
            return record
        return record.with_value(self._schema, projected(record.value, self._schema))
