"""The number of records that an application has sent to its dead-letter topic, kept in its checkpoint.

The tasks count. Spark passes their reports to the sink's commit, in a separate process on the driver; the
number is read in another process.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from penstock.spark.sink.locations import Location
from penstock.spark.sink.staged import TaskStaged
from penstock.spark.sink.writer import TaskWritten

log = logging.getLogger(__name__)

_FILE: Final = ("penstock", "dead-letters.json")


@dataclass(frozen=True, slots=True)
class StagedWithDeadLetters(TaskStaged):
    """The report of a task that has dead letters among its rows."""

    dead_letters: int


@dataclass(frozen=True, slots=True)
class WrittenWithDeadLetters(TaskWritten):
    dead_letters: int


def with_dead_letters(report: WriterCommitMessage, count: int) -> WriterCommitMessage:
    """Add the number of dead letters to a task's report."""
    if not count:
        return report
    if isinstance(report, TaskStaged):
        return report.as_a(StagedWithDeadLetters, dead_letters=count)
    assert isinstance(report, TaskWritten)
    return WrittenWithDeadLetters(report.rows, count)


class _Kept(NamedTuple):
    """The count so far; ``batch`` is the last that added to it, so that a repeated batch adds only once."""

    batch: int
    total: int


class DeadLetterCount:
    """The count of dead letters in ``checkpoint``, a directory or URI."""

    def __init__(self, checkpoint: str) -> None:
        self._uri = checkpoint
        self._last_total = 0

    def total(self) -> int:
        """The number since the checkpoint was made, or the last one read if the file can't be read now."""
        try:
            self._last_total = _read(self._file()).total
        except OSError as error:
            log.warning("number of dead letters not readable error=%s", error)
        return self._last_total

    def add(self, messages: Iterable[WriterCommitMessage | None], batch_id: int) -> None:
        """Add those of a published batch. An error is only logged, since the batch is already published."""
        some = StagedWithDeadLetters | WrittenWithDeadLetters
        count = sum(message.dead_letters for message in messages if isinstance(message, some))
        if not count:
            return
        try:
            file = self._file()
            kept = _read(file)
            if kept.batch < batch_id:
                file.write(json.dumps(_Kept(batch_id, kept.total + count)._asdict()).encode())
        except OSError as error:
            log.warning("dead letters not counted count=%d batch=%d error=%s", count, batch_id, error)

    def _file(self) -> Location:
        return Location.open(self._uri, "checkpointLocation").child(*_FILE)


class DeadLettersSeen:
    """The rows of one task that go to the dead-letter topic, counted in ``count``."""

    def __init__(self, topic: str | None) -> None:
        self._topic = topic
        self.count = 0

    def passing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on and count batches, each with rows for a single topic."""
        for batch in batches:
            if self._topic is not None and batch.column("topic")[0].as_py() == self._topic:
                self.count += batch.num_rows
            yield batch


def _read(file: Location) -> _Kept:
    data = file.read()
    if data is None:
        return _Kept(-1, 0)
    try:
        fields = json.loads(data)
        return _Kept(int(fields["batch"]), int(fields["total"]))
    except (ValueError, KeyError, TypeError):
        raise OSError(f"{file.uri} is damaged: {data[:80]!r}") from None
