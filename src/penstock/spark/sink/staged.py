"""What a task hands to the driver: finished record batches, inside its report or in a file."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.metadata import TopicPartition
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.locations import Location

#: A report larger than this goes through a file: every report passes through Spark's driver, and 100 MB of
#: them would cost half a second a batch.
INLINE_BYTES: Final = 1 << 20
_FILE_BUFFER_BYTES: Final = 1 << 20


T = TypeVar("T", bound="TaskStaged")


class StagedBatchMissing(Exception):
    """The driver does not find what a task has staged."""


class Run(NamedTuple):
    """Which run of which query a report belongs to, and its batch."""

    query_id: str
    run_id: str
    batch_id: int


class GroupNote(NamedTuple):
    """What a consumer group is told of a partition in the batch's transaction, without an offset."""

    group_id: str
    partition: TopicPartition
    metadata: str


@dataclass(frozen=True, slots=True)
class TaskStaged(WriterCommitMessage):
    """A task's report. ``index``: topic, partition and size in bytes of each record batch, in order; they lie
    one after the other in ``inline``, or in the file ``name`` of the staging directory."""

    run: Run | None
    rows: int
    index: tuple[tuple[str, int, int], ...]
    inline: bytes | None
    name: str | None
    notes: tuple[GroupNote, ...] = field(default=(), kw_only=True)

    def batches(self, staging: Location | None) -> Iterator[EncodedBatch]:
        """Each in a buffer of its own, as often as asked. Raises StagedBatchMissing, OSError."""
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
                    raise StagedBatchMissing(f"{file.uri} is shorter than the task that staged it has said")
                yield EncodedBatch(topic, partition, data)

    def as_a(self, kind: type[T], **more: Any) -> T:
        """The same report with the further fields of another kind of them."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(self)}, **more)

    def partitions(self) -> set[TopicPartition]:
        return {TopicPartition(topic, partition) for topic, partition, _ in self.index}


class Stage:
    """Collects one task attempt's batches: in memory, and from `inline_bytes` on in a file of its own.

    ``staging`` None: there is no place for files, and ``inline_bytes`` is a limit.
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
        """Raises OSError; StagingRequired where there is no place for files."""
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

    def finish(self, run: Run | None, rows: int) -> TaskStaged:
        """The report; a file is complete and closed by then."""
        if self._file is None:
            return TaskStaged(run, rows, tuple(self._index), b"".join(self._buffered), None)
        self._file.close()
        return TaskStaged(run, rows, tuple(self._index), None, self._name)

    def discard(self) -> None:
        """Remove the file of an attempt that fails."""
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
    """More to write than fits in reports, and no directory for it."""


def partitions_of(reports: Iterable[TaskStaged]) -> set[TopicPartition]:
    found: set[TopicPartition] = set()
    for report in reports:
        found |= report.partitions()
    return found
