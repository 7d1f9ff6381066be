"""The numbers of an application's dead letters and dropped records, kept in its checkpoint.

The tasks count. Spark passes their reports to the sink's commit, in a separate process on the driver; the
numbers are read in another process.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from penstock.spark.sink.locations import Location
from penstock.spark.sink.staged import TaskStaged
from penstock.spark.sink.writer import TaskWritten

log = logging.getLogger(__name__)

_UNNAMED: Final = ""
"""The name of a count that has none; its file holds a number instead of an object."""


@dataclass(frozen=True, slots=True)
class StagedWithCounts(TaskStaged):
    """The report of a task that has dead letters among its rows, or whose nodes have dropped records."""

    dead_letters: int
    dropped: Mapping[str, int] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True, slots=True)
class WrittenWithCounts(TaskWritten):
    dead_letters: int
    dropped: Mapping[str, int] = field(default_factory=dict, kw_only=True)


def with_counts(
    report: WriterCommitMessage, dead_letters: int, dropped: Mapping[str, int]
) -> WriterCommitMessage:
    """Add to a task's report the number of dead letters, and of dropped records by node."""
    if not dead_letters and not dropped:
        return report
    if isinstance(report, TaskStaged):
        return report.as_a(StagedWithCounts, dead_letters=dead_letters, dropped=dict(dropped))
    assert isinstance(report, TaskWritten)
    return WrittenWithCounts(report.rows, dead_letters, dropped=dict(dropped))


def log_dropped(owner: str, batch_id: int, dropped: Mapping[str, int]) -> None:
    """Warn once per batch of the records that the nodes of an application have dropped."""
    by_node = ", ".join(f"{node}: {count}" for node, count in sorted(dropped.items()))
    log.warning(
        "records dropped, too late or without a key or value application=%s batch=%d count=%d nodes=%s",
        owner,
        batch_id,
        sum(dropped.values()),
        by_node,
    )


class DeadLetterCount:
    """The count of dead letters in ``checkpoint``, a directory or URI."""

    def __init__(self, checkpoint: str) -> None:
        self._kept = _CountFile(checkpoint, "dead-letters.json", "dead letters")

    def total(self) -> int:
        """The number since the checkpoint was made, or the last one read if the file can't be read now."""
        return self._kept.totals()[_UNNAMED]

    def add(self, messages: Iterable[WriterCommitMessage | None], batch_id: int) -> None:
        """Add those of a published batch. An error is only logged, since the batch is already published."""
        self._kept.add(
            Counter({_UNNAMED: sum(report.dead_letters for report in _with_counts(messages))}), batch_id
        )


class DroppedCount:
    """The count of the records that each node of an application has dropped by rule, in ``checkpoint``.

    These are late records, and records without a key or value where one is needed, which Kafka Streams counts
    as ``dropped-records-total``.
    """

    def __init__(self, checkpoint: str, application: str) -> None:
        self._kept = _CountFile(checkpoint, "dropped-records.json", "dropped records")
        self._application = application

    def totals(self) -> Mapping[str, int]:
        """The numbers since the checkpoint was made, or those read last if the file can't be read now."""
        return dict(self._kept.totals())

    def add(self, messages: Iterable[WriterCommitMessage | None], batch_id: int) -> None:
        """Log and add those of a published batch. An error is only logged."""
        dropped: Counter[str] = Counter()
        for report in _with_counts(messages):
            dropped.update(report.dropped)
        if dropped:
            log_dropped(self._application, batch_id, dropped)
        self._kept.add(dropped, batch_id)


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


def _with_counts(
    messages: Iterable[WriterCommitMessage | None],
) -> Iterator[StagedWithCounts | WrittenWithCounts]:
    return (each for each in messages if isinstance(each, StagedWithCounts | WrittenWithCounts))


class _Kept(NamedTuple):
    """The counts so far; ``batch`` was the last to add to them, so that a repeated batch adds only once."""

    batch: int
    total: Counter[str]


class _CountFile:
    """A file of counts in a checkpoint; ``what`` names them in the log."""

    def __init__(self, checkpoint: str, name: str, what: str) -> None:
        self._uri = checkpoint
        self._name = name
        self._what = what
        self._last: Counter[str] = Counter()

    def totals(self) -> Counter[str]:
        try:
            self._last = _read(self._file()).total
        except OSError as error:
            log.warning("number of %s not readable error=%s", self._what, error)
        return self._last

    def add(self, counts: Counter[str], batch_id: int) -> None:
        """Add the counts of a batch, unless it has added them before. An error is only logged."""
        if not counts.total():
            return
        try:
            file = self._file()
            kept = _read(file)
            if kept.batch < batch_id:
                total = kept.total + counts
                fields = {"batch": batch_id, "total": total.get(_UNNAMED, total)}
                file.write(json.dumps(fields).encode())
        except OSError as error:
            log.warning(
                "%s not counted count=%d batch=%d error=%s", self._what, counts.total(), batch_id, error
            )

    def _file(self) -> Location:
        return Location.open(self._uri, "checkpointLocation").child("penstock", self._name)


def _read(file: Location) -> _Kept:
    data = file.read()
    if data is None:
        return _Kept(-1, Counter())
    try:
        fields = json.loads(data)
        total = fields["total"]
        counts = total if isinstance(total, dict) else {_UNNAMED: total}
        return _Kept(int(fields["batch"]), Counter({str(name): int(n) for name, n in counts.items()}))
    except (ValueError, KeyError, TypeError):
        raise OSError(f"{file.uri} is damaged: {data[:80]!r}") from None
