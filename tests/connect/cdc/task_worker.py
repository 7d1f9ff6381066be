"""The part of a worker that a source task needs, without a broker: offsets, transactions and reports."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.connect.cdc.postgres.source import PostgresTask
from penstock.connect.connector.connector import parsed
from penstock.connect.connector.source import SourceTask
from penstock.connect.data.records import Offset, Partition, SourceRecord

EMPTY_POLLS_MAX = 400


class Boundaries:
    """A transaction context that remembers the records after which the transaction ends."""

    def __init__(self) -> None:
        self.last: SourceRecord | None = None
        self.aborted: SourceRecord | None = None

    def commit(self, after: SourceRecord | None = None) -> None:
        self.last = after

    def abort(self, after: SourceRecord | None = None) -> None:
        self.aborted = after


class TaskWorker:
    """Runs one task, exactly once: records and their offset are committed together, or not at all.

    `committed` has the records that consumers see, and `offset` the stored one. `crash` forgets everything
    since the last commit and starts another task from the stored offset.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        offset: Offset | None = None,
        task_class: type[SourceTask] = PostgresTask,
    ) -> None:
        self._task_class = task_class
        self.properties = {"topic.prefix": "pre", **properties}
        self.committed: list[SourceRecord] = []
        self.transactions: list[int] = []
        self.transaction: Boundaries | None = Boundaries()
        self.stored = offset
        self._open: list[SourceRecord] = []
        self.task = self._started()

    def configs(self) -> Mapping[str, str]:
        return self.properties

    def offset(self, partition: Partition) -> Offset | None:
        assert partition == {"server": "pre"}
        return self.stored

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        return [self.offset(each) for each in partitions]

    def step(self) -> bool:
        """Poll once, and commit if a transaction ends in what came; tells whether anything came."""
        assert self.transaction is not None
        records = self.task.poll() or ()
        for record in records:
            self._open.append(record)
            if record is self.transaction.last:
                self._commit()
            elif record is self.transaction.aborted:
                self._open, self.stored = [], record.source_offset  # as workers do
        if not records:
            self.task.commit()
        return bool(records)

    def until(self, is_done: Callable[[], bool]) -> None:
        """Poll until something is reached, for as long as records come and some polls longer."""
        empty = 0
        while not is_done():
            empty = 0 if self.step() else empty + 1
            assert empty < EMPTY_POLLS_MAX, f"not reached after {len(self.committed)} records"

    def until_row(self, table: str, row_id: int) -> None:
        """Poll until a row is captured."""
        self.until(lambda: any(is_row(each, table, row_id) for each in self.committed[-50:]))

    def crash(self) -> None:
        """Lose the task, and start another one."""
        self.task.stop()
        self._open = []
        self.task = self._started()

    def stop(self) -> None:
        self.task.stop()

    def _commit(self) -> None:
        self.committed += self._open
        self.transactions.append(len(self.committed))
        self.stored = self._open[-1].source_offset
        for record in reversed(self._open):  # in whatever order
            self.task.commit_record(record, None)
        self.task.commit()
        self._open = []

    def _started(self) -> SourceTask:
        task = self._task_class()
        task.context = self
        task.start(parsed(task.definition, self.properties))
        return task


def is_row(record: SourceRecord, table: str, row_id: int | str) -> bool:
    if record.value is None or not record.topic.endswith(f".{table}"):
        return False
    after: Any = record.value.get("after")
    return after is not None and after["id"] == row_id
