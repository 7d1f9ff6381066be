"""The records that members have written or dropped: who gets the blame for a batch, and the numbers.

The tasks note the member of each record batch and count records. Spark passes their reports to the sink's
commit, in a separate process on the driver. It adds the counts to a file in the checkpoint, which the host
reads.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.errors import DeliveryFailed, RecordTooLarge, ServerError, UnknownPartition
from penstock.protocol.errors import ErrorCode
from penstock.spark.hosting.failures import MemberFailed
from penstock.spark.hosting.plan import number_in
from penstock.spark.hosting.roster import RosterFile
from penstock.spark.sink.locations import Location
from penstock.spark.sink.partitioner import RowRefused
from penstock.spark.sink.staged import TaskStaged
from penstock.spark.streams.blocks.dropped import dropped_in
from penstock.spark.streams.blocks.merging import arrange
from penstock.spark.streams.blocks.packing import Block, Kind
from penstock.spark.streams.query.counting import log_dropped

log = logging.getLogger(__name__)

_FILE: Final = ("penstock", "written.json")
_FORGOTTEN_EVERY: Final = 100
"""The number of batches after which the counts of removed members are deleted."""

_OF_RECORDS: Final = (
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""The errors with which a broker refuses what one member has written, and no retry can cure."""

Written = Mapping[int, Mapping[str, int]]
"""Records by the member's number and the topic."""
Dropped = Mapping[int, Mapping[str, int]]
"""Records that nodes dropped by rule, by the member's number and the node."""
_Counts = dict[int, Counter[str]]


@dataclass(frozen=True, slots=True)
class StagedByMembers(TaskStaged):
    """A task's report together with the records that its members have written and dropped.

    ``dropped`` is by the member's number and the node. ``owners`` has the member that has written each batch
    of the index, by number.
    """

    written: Written
    dropped: Dropped
    owners: tuple[int, ...]


class OutputsSeen:
    """The outputs that one task has passed on, and the records that its members have dropped."""

    def __init__(self) -> None:
        self.written: dict[int, Counter[str]] = {}
        self.dropped: dict[int, Counter[str]] = {}
        self._owners: list[int] = []
        self._writing: int | None = None
        """The member whose block was passed on last."""

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Block]:
        """Yield the blocks packed in rows of ``plan`` and ``block`` by plan, and count their outputs.

        The blocks of each plan are arranged, because the shuffle mixes those of several tasks.
        """
        of_plans: dict[str, list[Block]] = {}
        for batch in batches:
            for plan, data in zip(batch.column("plan"), batch.column("block"), strict=True):
                of_plans.setdefault(plan.as_py(), []).append(Block.unpack(data.as_py()))
        for name, found in sorted(of_plans.items()):
            for block in arrange(found):
                if block.kind is Kind.OUTPUTS:
                    self._writing = number_in(name)
                    counts = self.written.setdefault(self._writing, Counter())
                    counts[block.targets[0]] += block.rows
                elif block.kind is Kind.DROPPED:
                    self.dropped.setdefault(number_in(name), Counter()).update(dropped_in(block))
                yield block

    def note_batch(self) -> None:
        """Note that the block that was passed on last has become one more record batch."""
        assert self._writing is not None, "only outputs become record batches"
        self._owners.append(self._writing)

    @contextmanager
    def blaming_writer(self) -> Iterator[None]:
        """Attribute an error of the sink to the member that has written the row.

        Raises MemberFailed for a missing topic and for a record that its topic does not take.
        """
        try:
            yield
        except (UnknownPartition, RecordTooLarge, RowRefused) as error:
            if self._writing is None:
                raise
            raise MemberFailed(self._writing, error) from error

    def added_to(self, report: WriterCommitMessage) -> WriterCommitMessage:
        if not self.written and not self.dropped:
            return report
        assert isinstance(report, TaskStaged)
        written, dropped = (
            {number: dict(counts) for number, counts in found.items()}
            for found in (self.written, self.dropped)
        )
        return report.as_a(StagedByMembers, written=written, dropped=dropped, owners=tuple(self._owners))


@contextmanager
def blaming_owner(messages: Sequence[WriterCommitMessage | None]) -> Iterator[None]:
    """Attribute a record that a broker refuses to the member that has written it. Raises MemberFailed."""
    try:
        yield
    except (RecordTooLarge, DeliveryFailed) as error:
        if error.batch is None or not _is_about_records(error):
            raise
        staged = [message for message in messages if isinstance(message, StagedByMembers)]
        owners = list(chain.from_iterable(message.owners for message in staged))
        raise MemberFailed(owners[error.batch], error) from error


def _is_about_records(error: RecordTooLarge | DeliveryFailed) -> bool:
    """Whether the broker refuses these records or this topic, rather than the host's producer."""
    cause = error.__cause__
    return isinstance(error, RecordTooLarge) or (isinstance(cause, ServerError) and cause.code in _OF_RECORDS)


class WrittenFile:
    """The file of counts in the checkpoint ``where``."""

    def __init__(self, where: Location) -> None:
        self._file = where.child(*_FILE)
        self._roster = RosterFile(where)

    def read(self) -> tuple[Written, Dropped]:
        """Return the records written and dropped since each member was added. Raises OSError."""
        _, written, dropped = self._kept()
        return written, dropped

    def add(self, messages: Iterable[WriterCommitMessage | None], batch_id: int) -> None:
        """Add the counts of a published batch, only once even if the batch is run again.

        Records that the batch has dropped are logged. An error is only logged: the batch is already
        published.
        """
        try:
            last, written, dropped = self._kept()
            if batch_id <= last:
                return
            now: _Counts = {}
            for message in messages:
                if isinstance(message, StagedByMembers):
                    _add(written, message.written)
                    _add(now, message.dropped)
            _add(dropped, now)
            is_forgetting = batch_id % _FORGOTTEN_EVERY == 0
            known = self._roster.read().by_number if now or is_forgetting else {}
            for number, dropped_now in now.items():
                log_dropped(known[number].name if number in known else f"{number}", batch_id, dropped_now)
            if is_forgetting:
                written = {number: counts for number, counts in written.items() if number in known}
                dropped = {number: counts for number, counts in dropped.items() if number in known}
            fields = {"batch": batch_id, "written": written, "dropped": dropped}
            self._file.write(json.dumps(fields).encode())
        except (OSError, RuntimeError) as error:
            log.warning("outputs not counted batch=%d error=%s", batch_id, error)

    def _kept(self) -> tuple[int, _Counts, _Counts]:
        """Return the last batch that was counted, and the counts."""
        data = self._file.read()
        if data is None:
            return -1, {}, {}
        try:
            fields = json.loads(data)
            written, dropped = (
                {int(number): Counter(each) for number, each in fields.get(name, {}).items()}
                for name in ("written", "dropped")  # files of earlier versions have no "dropped"
            )
            return int(fields["batch"]), written, dropped
        except (ValueError, KeyError, TypeError, AttributeError):
            raise OSError(f"{self._file.uri} is damaged: {data[:80]!r}") from None


def _add(kept: _Counts, counts: Mapping[int, Mapping[str, int]]) -> None:
    for number, each in counts.items():
        kept.setdefault(number, Counter()).update(each)
