"""Takes the records that a sink reports as errors (KIP-610), for one thread except `report`.

The worker waits for all of them before it commits offsets, so that none is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future

from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.connect.connector.sink import SinkTask
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError
from penstock.connect.tasks.conversion import TrackedRecord
from penstock.connect.tasks.tolerance import Attempt, Stage, Tolerance


class ErrantRecords:
    """The reporter in a sink's context; ``consumed`` turns records that the sink has made into bytes."""

    def __init__(
        self,
        tolerance: Tolerance[ConsumedRecord],
        consumed: Callable[[SinkRecord], ConsumedRecord],
    ) -> None:
        self._tolerance = tolerance
        self._consumed = consumed
        self._lock = threading.Lock()
        self._waiting: dict[TopicPartition, list[Future[None]]] = {}
        self._first: Exception | None = None

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Report a record, from any thread. Raises ConnectError if errors are not tolerated."""
        attempt = record.attempt if isinstance(record, TrackedRecord) else Attempt(self._consumed(record))
        with self._lock:
            if self._first is None:
                self._first = error
            future = self._tolerance.note(attempt, Stage.TASK_PUT, SinkTask, error)
            if future is None:
                future = Future()
                future.set_result(None)
            elif not future.done():
                original = attempt.original
                tp = TopicPartition(original.topic, original.partition)
                self._waiting.setdefault(tp, []).append(future)
            return future

    def wait(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until all reported records of these partitions are written. Raises ConnectError."""
        for future in self._take(partitions):
            try:
                future.result()
            except Exception as error:
                raise ConnectError(f"a reported record was not written: {error}") from error

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Do not wait for records of these partitions any more: they are another member's now."""
        self._take(partitions)

    def check(self) -> None:
        """Raise ConnectError if an error was reported that is not tolerated, though the task went on."""
        if self._first is not None and self._tolerance.is_exceeded:
            raise ConnectError("Tolerance exceeded in error handler") from self._first

    def _take(self, partitions: Collection[TopicPartition]) -> list[Future[None]]:
        with self._lock:
            return [future for tp in partitions for future in self._waiting.pop(tp, ())]
