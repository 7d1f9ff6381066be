"""Kafka's file connectors: the lines of one file become records, and records become lines.

They are examples and tests more than tools: a source reads one growing file that is never replaced. Offsets
are positions in bytes; Kafka's connector counts characters, so its offsets fit only files in ASCII.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import Offsets, SinkConnector, SinkTask
from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.converters.string_text import string_text
from penstock.connect.data.records import Offset, Partition, SinkRecord, SourceRecord
from penstock.connect.data.schema import STRING
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import NonEmptyString
from penstock.connect.errors import ConnectError

FILE: Final = "file"
TOPIC: Final = "topic"
BATCH_SIZE: Final = "batch.size"
FILENAME: Final = "filename"
POSITION: Final = "position"
_STANDARD_INPUT: Final = 0
_CHUNK_BYTES: Final = 65_536
_LONG: Final = range(-(1 << 63), 1 << 63)


class FileStreamSourceTask(SourceTask):
    """Reads lines from a file, or from standard input if none is given."""

    definition = (
        ConfigDef()
        .define(
            FILE,
            ConfigType.STRING,
            None,
            None,
            Importance.HIGH,
            "The file to read; by default standard input.",
        )
        .define(
            TOPIC,
            ConfigType.STRING,
            validator=NonEmptyString(),
            importance=Importance.HIGH,
            doc="The topic that gets the lines.",
        )
        .define(
            BATCH_SIZE,
            ConfigType.INT,
            2000,
            importance=Importance.LOW,
            doc="The most records that the task reads at once.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._path: str | None = config[FILE] or None
        self._topic: str = config[TOPIC]
        self._batch_size: int = config[BATCH_SIZE]
        self._file: IO[bytes] | None = None
        self._position = 0
        """The offset of the first byte that is in no record yet."""
        self._unread = bytearray()
        """Bytes from there on that were read."""

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._path is not None and self._file is None and not self._open(self._path):
            return None
        records: list[SourceRecord] = []
        while len(records) < self._batch_size:
            line = self._line()
            if line is not None:
                records.append(self._record(line))
            elif not self._read():
                break
        return records

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self, path: str) -> bool:
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115  # stop() closes it
        except FileNotFoundError:
            return False
        stored = self.context.offset({FILENAME: path})
        position = 0 if stored is None else stored.get(POSITION, 0)
        if type(position) is not int:
            raise ConnectError(f"the offset of file '{path}' is {position!r}, expected a number of bytes")
        self._position = position
        self._file.seek(position)
        return True

    def _read(self) -> bool:
        """Read what there is without waiting; return whether there was anything."""
        if self._file is not None:
            data = self._file.read(_CHUNK_BYTES)
        else:
            is_ready, _, _ = select.select([_STANDARD_INPUT], [], [], 0)
            data = os.read(_STANDARD_INPUT, _CHUNK_BYTES) if is_ready else b""
        self._unread += data
        return bool(data)

    def _line(self) -> bytes | None:
        r"""Take the next whole line, which ends with \n, \r or \r\n."""
        ends = [end for end in (self._unread.find(b"\n"), self._unread.find(b"\r")) if end >= 0]
        if not ends:
            return None
        end = min(ends)
        following = end + 1
        if self._unread[end] == ord("\r"):
            if following == len(self._unread):
                return None  # the next byte may belong to the line's end
            following += self._unread[following] == ord("\n")
        line = bytes(self._unread[:end])
        del self._unread[:following]
        self._position += following
        return line

    def _record(self, line: bytes) -> SourceRecord:
        return SourceRecord(
            topic=self._topic,
            value=line.decode(errors="replace"),
            value_schema=STRING,
            source_partition={FILENAME: self._path},
            source_offset={POSITION: None if self._path is None else self._position},
        )


class FileStreamSourceConnector(SourceConnector):
    """One task that reads one file."""

    task_class = FileStreamSourceTask

    def exactly_once_support(self, properties: Mapping[str, str]) -> bool | None:
        return bool(properties.get(FILE))

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        if not properties.get(FILE):
            raise ConnectError(
                f"Offsets cannot be modified if the '{FILE}' configuration is unspecified. This is because"
                " stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is None:
                continue
            if POSITION not in offset:
                raise ConnectError(f"Offset objects should either be null or contain the key '{POSITION}'")
            position = offset[POSITION]
            if type(position) is not int or position not in _LONG:
                raise ConnectError(
                    f"The value for the '{POSITION}' key in the offset is expected to be a Long value"
                )
            if position < 0:
                raise ConnectError(
                    f"The value for the '{POSITION}' key in the offset should be a non-negative value"
                )
            if FILENAME not in partition:
                raise ConnectError(f"Partition objects should contain the key '{FILENAME}'")
        return True


class FileStreamSinkTask(SinkTask):
    """Writes each value as a line to a file, or to standard output if none is given."""

    definition = ConfigDef().define(
        FILE, ConfigType.STRING, None, None, Importance.HIGH, "The file to write; by default standard output."
    )

    def start(self, config: Mapping[str, Any]) -> None:
        path = config[FILE]
        self._file: IO[str] | None = None
        if path:
            try:
                self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  # stop() closes it
            except OSError as error:
                raise ConnectError(
                    f"Couldn't find or create file '{path}' for FileStreamSinkTask: {error}"
                ) from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        output = self._file or sys.stdout
        output.writelines(f"{string_text(record.value_schema, record.value)}\n" for record in records)

    def flush(self, offsets: Offsets) -> None:
        (self._file or sys.stdout).flush()

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()


class FileStreamSinkConnector(SinkConnector):
    """Tasks that write to one file."""

    task_class = FileStreamSinkTask

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        return True
