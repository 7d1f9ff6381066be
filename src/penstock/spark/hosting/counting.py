"""The records that members have written: who gets the blame for a batch, and how many there are by topic.

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
from penstock.spark.streams.blocks.merging import arrange
from penstock.spark.streams.blocks.packing import Block, Kind

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


@dataclass(frozen=True, slots=True)
class StagedByMembers(TaskStaged):
    """A task's report together with the records that its members have written.

    ``owners`` has the member that has written each batch of the index, by number.
    """

    written: Written
    owners: tuple[int, ...]


class OutputsSeen:
    """The outputs that one task has passed on, counted in ``written``."""

    def __init__(self) -> None:
        self.written: dict[int, Counter[str]] = {}
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
        if not self.written:
            return report
        assert isinstance(report, TaskStaged)
        written = {number: dict(counts) for number, counts in self.written.items()}
        return report.as_a(StagedByMembers, written=written, owners=tuple(self._owners))


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

    def read(self) -> Written:
        """Return the records written since each member was added. Raises OSError."""
        return self._kept()[1]

    def add(self, messages: Iterable[WriterCommitMessage | None], batch_id: int) -> None:
        """Add the counts of a published batch, only once even if the batch is run again.

        An error is only logged: the batch is already published.
        """
        try:
            last, kept = self._kept()
            if batch_id <= last:
                return
            for message in messages:
                if isinstance(message, StagedByMembers):
                    for number, counts in message.written.items():
                        kept.setdefault(number, Counter()).update(counts)
            if batch_id % _FORGOTTEN_EVERY == 0:
                known = self._roster.read().by_number
                kept = {number: counts for number, counts in kept.items() if number in known}
            self._file.write(json.dumps({"batch": batch_id, "written": kept}).encode())
        except (OSError, RuntimeError) as error:
            log.warning("outputs not counted batch=%d error=%s", batch_id, error)

    def _kept(self) -> tuple[int, dict[int, Counter[str]]]:
        """Return the last batch that was counted, and the counts."""
        data = self._file.read()
        if data is None:
            return -1, {}
        try:
            fields = json.loads(data)
            counts = {int(number): Counter(each) for number, each in fields["written"].items()}
            return int(fields["batch"]), counts
        except (ValueError, KeyError, TypeError, AttributeError):
            raise OSError(f"{self._file.uri} is damaged: {data[:80]!r}") from None
