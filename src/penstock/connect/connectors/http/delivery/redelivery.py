"""Remembers what of a batch is delivered, so that a retry sends only the rest.

A sink task whose `put` raises RetriableError gets the same batch again. Waiting is left to the worker, whose
consumer stays in its group meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import SinkTaskContext
from penstock.connect.connectors.http.delivery.lanes import Lanes
from penstock.connect.connectors.http.exchange.refusals import backoff_ms
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, RetriableError

Send: TypeAlias = Callable[[Sequence[SinkRecord]], None]
"""Sends the records of one lane, and reports each as delivered or rejected. Raises RetriableError."""

_BACKOFF_MAX_MS: Final = 60_000


class Rejected(ConnectError):
    """The outside system refuses a record, and would refuse it again."""


class TryLater(RetriableError):
    """The outside system cannot take records now. `after_ms` is the wait that it asks for, or 0.

    `blamed` are the records that may be the reason. They are rejected once there were too many retries.
    """

    def __init__(self, message: str, after_ms: int = 0, blamed: Sequence[SinkRecord] = ()) -> None:
        super().__init__(message)
        self.after_ms = after_ms
        self.blamed = blamed


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryRules:
    """How often a task repeats what failed, and how long it waits before."""

    max_retries: int
    """Number of retries without any progress after which the task fails."""
    backoff_ms: int
    endless_backoff_ms: int | None = None
    """If set, the task does not fail then, but retries at this interval without end."""


class Redelivery:
    """The progress of one task's current batch. Lanes report to it from their threads."""

    def __init__(self, rules: RetryRules, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._rules = rules
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._done: set[tuple[str, int, int]] = set()
        self._rejected: list[tuple[SinkRecord, Exception]] = []
        self._progress = 0
        self._failures = 0
        self._wait: tuple[float, RetriableError] | None = None
        """When the next attempt may begin, and the error that it waits for."""

    @property
    def is_last_attempt(self) -> bool:
        """Whether there are no more retries, so that another failure without progress is final."""
        return self._rules.endless_backoff_ms is None and self._failures >= self._rules.max_retries

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is delivered of partitions that were assigned anew: others may have read them."""
        self._done = {place for place in self._done if TopicPartition(*place[:2]) not in partitions}

    def missing(self, records: Sequence[SinkRecord]) -> list[SinkRecord]:
        """The records of a batch that are not delivered."""
        return [each for each in records if place_of(each) not in self._done] if self._done else [*records]

    def delivered(self, records: Sequence[SinkRecord]) -> None:
        """Note that records are delivered, or skipped on purpose."""
        with self._lock:
            self._done.update(map(place_of, records))
            self._progress += len(records)

    def rejected(self, record: SinkRecord, error: Exception) -> None:
        """Note that a record can never be delivered; the task's thread reports it."""
        with self._lock:
            self._rejected.append((record, error))

    def run(self, lanes: Lanes, records: Sequence[SinkRecord], send: Send, context: SinkTaskContext) -> None:
        """Deliver a batch: send what is missing, and report what is rejected.

        Raises:
            RetriableError: something is missing still, and the worker shall put the same batch again.
            ConnectError: a record is rejected and cannot be reported, or there were too many retries.
        """
        missing = self.missing(records)
        if missing:
            self._require_waited(context)
        self._progress = 0
        try:
            lanes.run(missing, send)
        except RetriableError as error:
            self._report(context)
            self._try_later(error, context)
        self._report(context)
        self._done.clear()
        self._failures = 0

    def _require_waited(self, context: SinkTaskContext) -> None:
        """Raise the last error again if its wait is not over: workers call earlier to commit or rebalance."""
        if self._wait is None:
            return
        until_s, error = self._wait
        left_s = until_s - self._clock_s()
        if left_s > 0:
            context.timeout(max(round(left_s * 1000), 1))
            raise error
        self._wait = None

    def _report(self, context: SinkTaskContext) -> None:
        rejected, self._rejected = self._rejected, []
        for record, error in rejected:
            if context.reporter is None:
                raise error
            try:
                context.reporter.report(record, error)
            except ConnectError as refused:
                if refused.__cause__ is error:  # it is not tolerated
                    raise error from None
                raise
            self.delivered([record])

    def _try_later(self, error: RetriableError, context: SinkTaskContext) -> NoReturn:
        """Set the time of the next attempt, and raise the error that ends this one."""
        rules = self._rules
        self._failures = 1 if self._progress else self._failures + 1
        wait_ms = backoff_ms(self._failures, rules.backoff_ms, _BACKOFF_MAX_MS)
        if self._failures > rules.max_retries:
            if rules.endless_backoff_ms is not None:
                wait_ms = rules.endless_backoff_ms
            elif not self._blame(error, context):
                raise ConnectError(f"Failed after {rules.max_retries} retries: {error}") from error
            else:
                wait_ms = 0
        if isinstance(error, TryLater):
            wait_ms = max(wait_ms, error.after_ms)
        context.timeout(max(wait_ms, 1))
        self._wait = self._clock_s() + wait_ms / 1000, error
        raise error

    def _blame(self, error: RetriableError, context: SinkTaskContext) -> bool:
        """Report the records that kept failing, and return whether that is possible."""
        if not isinstance(error, TryLater) or not error.blamed or context.reporter is None:
            return False
        for record in error.blamed:
            self.rejected(record, Rejected(str(error)))
        self._report(context)
        self._failures = 0
        return True


def place_of(record: SinkRecord) -> tuple[str, int, int]:
    """A record's place in Kafka."""
    return record.original_topic, record.original_partition, record.original_offset
