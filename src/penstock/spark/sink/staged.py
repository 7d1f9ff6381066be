"""Finished record batches that a task passes to the driver, inside its report or in a file."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.connections.metadata import TopicPartition
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.locations import Location

INLINE_BYTES: Final = 1 << 20
"""The largest report that is passed without a file.

Every report passes through Spark's driver, and 100 MB of them would cost half a second per batch.
"""
_FILE_BUFFER_BYTES: Final = 1 << 20


T = TypeVar("T", bound="TaskStaged")


class StagedBatchMissing(Exception):
    """The driver does not find the file that a task has staged."""


class Run(NamedTuple):
    """The query, the run and the batch that a report belongs to."""

    query_id: str
    run_id: str
    batch_id: int


class GroupNote(NamedTuple):
    """Metadata that the batch's transaction commits for a group and a partition, without an offset."""

    group_id: str
    partition: TopicPartition
    metadata: str


@dataclass(frozen=True, slots=True)
class TaskStaged(WriterCommitMessage):
    """A task's report.

    ``index`` has the topic, the partition and the size in bytes of each record batch, in order. The batches
    are concatenated in ``inline``, or in the file ``name`` of the staging directory. ``topic_ids`` has the id
    of each topic in the index, at the time when the task chose partitions.
    """

    run: Run | None
    rows: int
    index: tuple[tuple[str, int, int], ...]
    inline: bytes | None
    name: str | None
    notes: tuple[GroupNote, ...] = field(default=(), kw_only=True)
    topic_ids: tuple[tuple[str, bytes], ...] = field(default=(), kw_only=True)

    def batches(self, staging: Location | None) -> Iterator[EncodedBatch]:
        """Yield each batch in its own buffer; may be called again. Raises StagedBatchMissing, OSError."""
        if self.inline is not None:
            view = memoryview(self.inline)
            position = 0
            for topic, partition, size in self.index:
                yield EncodedBatch(topic, partition, bytearray(view[position : position + size]))
                position += size
            return
        assert staging is not None
        assert self.name is not None
        file = staging.child(self.name)
        try:
            stream = file.filesystem.open_input_stream(file.path, buffer_size=_FILE_BUFFER_BYTES)
        except FileNotFoundError:
            raise StagedBatchMissing(
                f"the driver does not find {file.uri}, which a task has staged: executors and the driver "
                "must share this directory"
            ) from None
        with stream:
            for topic, partition, size in self.index:
                data = bytearray(size)
                if stream.readinto(data) != size:
                    raise StagedBatchMissing(f"{file.uri} is shorter than the task that staged it reported")
                yield EncodedBatch(topic, partition, data)

    def as_a(self, kind: type[T], **more: Any) -> T:
        """Return the same report as a subclass with further fields."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(self)}, **more)

    def partitions(self) -> set[TopicPartition]:
        return {TopicPartition(topic, partition) for topic, partition, _ in self.index}


class Stage:
    """The batches of one task attempt: in memory, and from `inline_bytes` on in a file of its own.

    If ``staging`` is None, there is no directory for files, and ``inline_bytes`` is a limit.
    """

    def __init__(self, staging: Location | None, name: str, inline_bytes: int = INLINE_BYTES) -> None:
        self._staging = staging
        self._name = f"{name}-{uuid.uuid4().hex[:12]}"
        self._inline_bytes = inline_bytes
        self._index: list[tuple[str, int, int]] = []
        self._buffered: list[bytearray] = []
        self._size = 0
        self._file: pa.NativeFile | None = None

    def add(self, batch: EncodedBatch) -> None:
        """Add a batch. Raises OSError, and StagingRequired if a file is needed without a directory."""
        self._index.append((batch.topic, batch.partition, len(batch.data)))
        self._size += len(batch.data)
        if self._file is not None:
            self._file.write(batch.data)
            return
        self._buffered.append(batch.data)
        if self._size > self._inline_bytes:
            self._file = self._open()
            for data in self._buffered:
                self._file.write(data)
            self._buffered.clear()

    def finish(self, run: Run | None, rows: int, topic_ids: Iterable[tuple[str, bytes]] = ()) -> TaskStaged:
        """Return the report; a file is complete and closed by then."""
        index, ids = tuple(self._index), tuple(topic_ids)
        if self._file is None:
            return TaskStaged(run, rows, index, b"".join(self._buffered), None, topic_ids=ids)
        self._file.close()
        return TaskStaged(run, rows, index, None, self._name, topic_ids=ids)

    def discard(self) -> None:
        """Delete the file of an attempt that fails."""
        if self._file is not None and self._staging is not None:
            file = self._staging.child(self._name)
            with contextlib.suppress(OSError):
                self._file.close()
                file.filesystem.delete_file(file.path)

    def _open(self) -> pa.NativeFile:
        if self._staging is None:
            raise StagingRequired(
                f"a task has more than {self._inline_bytes} bytes to write, too much for a report to the "
                "driver: set the option 'stagingLocation' to a directory that executors and the driver share"
            )
        self._staging.filesystem.create_dir(self._staging.path, recursive=True)
        file = self._staging.child(self._name)
        return file.filesystem.open_output_stream(file.path, buffer_size=_FILE_BUFFER_BYTES)


class StagingRequired(ValueError):
    """A task has more to write than fits in its report, and there is no directory for files."""


def partitions_of(reports: Iterable[TaskStaged]) -> set[TopicPartition]:
    found: set[TopicPartition] = set()
    for report in reports:
        found |= report.partitions()
    return found
