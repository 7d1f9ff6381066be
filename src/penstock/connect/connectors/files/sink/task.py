"""The task of the files sink: one file for each partition, and when it is complete.

Only the offsets before the first record of each open file are committed. So a task that dies loses nothing,
and the next one writes the same records to a file of the same name.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import Offsets, SinkTask
from penstock.connect.connectors.files.sink import definition as keys
from penstock.connect.connectors.files.sink.encoding import SUFFIXES, Encoder, encoder
from penstock.connect.connectors.files.sink.output_files import OutputFile, PartitionDirectory
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, DataError


@dataclass(slots=True)
class _Open:
    """The file of one partition that is not complete."""

    file: OutputFile
    encoder: Encoder
    opened_s: float
    first_timestamp_ms: int | None
    last: int
    count: int = 0
    size: int = 0


class FilesSinkTask(SinkTask):
    """Writes the records of its partitions to files."""

    definition = keys.DEFINITION

    def start(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._open: dict[TopicPartition, _Open] = {}
        self._directories: dict[TopicPartition, PartitionDirectory] = {}

    def open(self, partitions: Collection[TopicPartition]) -> None:
        try:
            for each in partitions:
                self._directories[each] = PartitionDirectory(self._config[keys.OUTPUT_PATH], each)
        except OSError as error:
            raise ConnectError(f"the directory for files cannot be used: {error}") from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        try:
            for record in records:
                if record.value is not None or self._config[keys.NULL_VALUES] == keys.FAIL:
                    self._put(record)
            self._complete_scheduled()
        except OSError as error:
            raise ConnectError(
                f"files cannot be written: {error}; the task will read the records again when it is restarted"
            ) from error

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Return the offsets of records that are in complete files, and commit nothing behind them."""
        return {
            partition: self._open[partition].file.first if partition in self._open else offset
            for partition, offset in offsets.items()
        }

    def close(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._discard(partition)
            self._directories.pop(partition, None)

    def stop(self) -> None:
        self.close(list(getattr(self, "_open", ())))  # the worker stops a task that could not start, too

    def _put(self, record: SinkRecord) -> None:
        partition = TopicPartition(record.original_topic, record.original_partition)
        opened = self._open.get(partition)
        if opened is not None and (self._is_late(opened, record) or not opened.encoder.fits(record)):
            self._complete(partition)
        try:
            if record.value is None:
                raise DataError(f"the record has no value, and {keys.NULL_VALUES} is {keys.FAIL}")
            opened = self._open.get(partition) or self._begin(partition, record)
            opened.size += opened.encoder.write(record)
        except DataError as error:
            if opened is not None and not opened.count:
                self._discard(partition)
            self._report(record, error)
            return
        opened.count += 1
        opened.last = record.original_offset
        is_full = opened.count >= self._config[keys.FLUSH_SIZE]
        if is_full or opened.size >= self._config[keys.ROTATE_BYTES]:
            self._complete(partition)

    def _begin(self, partition: TopicPartition, record: SinkRecord) -> _Open:
        """Begin a file with its first record. Raises DataError if that has no form in the file's format."""
        format = self._config[keys.FORMAT]
        compression = "none" if format == keys.AVRO else self._config[keys.COMPRESSION]
        first = record.original_offset
        file = OutputFile(self._directories[partition], first, SUFFIXES[format], compression)
        try:
            written = encoder(format, file.out, record, self._config[keys.CODEC])
        except BaseException:
            file.discard()
            raise
        opened = _Open(file, written, time.monotonic(), record.timestamp_ms, first)
        self._open[partition] = opened
        return opened

    def _is_late(self, opened: _Open, record: SinkRecord) -> bool:
        """Whether the time between a file's first record and this one is too long."""
        interval_ms = self._config[keys.ROTATE_INTERVAL]
        first_ms, now_ms = opened.first_timestamp_ms, record.timestamp_ms
        return (
            interval_ms >= 0
            and first_ms is not None
            and now_ms is not None
            and now_ms - first_ms >= interval_ms
        )

    def _complete_scheduled(self) -> None:
        interval_ms = self._config[keys.ROTATE_SCHEDULE]
        if interval_ms >= 0:
            now_s = time.monotonic()
            due = [
                each for each, opened in self._open.items() if now_s - opened.opened_s >= interval_ms / 1000
            ]
            for partition in due:
                self._complete(partition)

    def _complete(self, partition: TopicPartition) -> None:
        opened = self._open[partition]
        opened.encoder.finish()
        opened.file.complete(opened.last)
        del self._open[partition]
        self.context.request_commit()

    def _discard(self, partition: TopicPartition) -> None:
        opened = self._open.pop(partition, None)
        if opened is not None:
            opened.file.discard()

    def _report(self, record: SinkRecord, error: DataError) -> None:
        reporter = self.context.reporter
        if reporter is None:
            where = f"{record.original_topic}-{record.original_partition} at offset {record.original_offset}"
            raise ConnectError(f"the record of {where} cannot be written: {error}") from error
        reporter.report(record, error)
