"""Runs the operations on single records, with the retries and the tolerance of `errors.*` (KIP-298).

Transforms and converters may fail in any way, and such records are skipped if `errors.tolerance` is `all`.
Every operation is repeated after a RetriableError until `errors.retry.timeout` has passed.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

from penstock.connect.errors import ConnectError, RetriableError
from penstock.connect.tasks.metrics import ErrorMetrics
from penstock.connect.tasks.settings import ErrorSettings

T = TypeVar("T")
Original = TypeVar("Original")

log = logging.getLogger(__name__)

_RETRY_DELAY_MIN_MS: Final = 300
"""The delay before the first retry, as in Apache Connect; it doubles with each attempt."""
_RESOLUTION_S: Final = 0.0005
"""Less time than this before the deadline counts as none, since Kafka's times are whole milliseconds."""


class Stage(Enum):
    """The steps of a record through a task, by the names in headers of dead letters."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


_ANY_ERROR: Final = frozenset(
    (Stage.TRANSFORMATION, Stage.KEY_CONVERTER, Stage.VALUE_CONVERTER, Stage.HEADER_CONVERTER)
)
"""The stages of which every error can be tolerated; of the others only a RetriableError."""


class Attempt(Generic[Original]):
    """One record on its way: where it is, and the error that ended its way, if any.

    ``original`` is the record before any step: a source record, or the bytes that were consumed.
    """

    __slots__ = ("count", "error", "executing", "original", "stage")

    def __init__(self, original: Original) -> None:
        self.original = original
        self.stage = Stage.TASK_POLL
        self.executing: type = object
        """The class that runs the current step."""
        self.count = 0
        """How often the last step was tried."""
        self.error: BaseException | None = None

    def fail(self, stage: Stage, executing: type, error: BaseException) -> None:
        self.stage, self.executing, self.error = stage, executing, error


class Reporter(Protocol[Original]):
    """Takes records that failed: writes them to the log or to a topic of dead letters."""

    def open(self) -> None:
        """Prepare before the first report. Raises ConnectError."""

    def report(self, attempt: Attempt[Original]) -> Future[None] | None:
        """Report a failed record; None if that is already done."""

    def stop(self) -> None:
        """Let reports that are not written fail, from any thread."""

    def close(self) -> None:
        """Release what the reporter holds, after everything is reported."""


class Tolerance(Generic[Original]):
    """Runs operations on the records of one task and decides what their errors mean.

    ``wait(seconds)`` waits between attempts and returns True once the task shall give up; the default ends
    early when `stop` is called.
    """

    def __init__(
        self,
        settings: ErrorSettings,
        metrics: ErrorMetrics,
        reporters: Sequence[Reporter[Original]] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._reporters = reporters
        self._clock = clock
        self._stopped = threading.Event()
        self._wait = self._stopped.wait if wait is None else wait
        self._has_failures = False

    @property
    def tolerates(self) -> bool:
        """Whether `errors.tolerance` is `all`."""
        return self._settings.tolerates

    @property
    def is_exceeded(self) -> bool:
        """Whether an operation has failed although no error is tolerated."""
        return self._has_failures and not self.tolerates

    def run(
        self, attempt: Attempt[Original], stage: Stage, executing: type, operation: Callable[[], T]
    ) -> T | None:
        """Run an operation; None if it failed in a way that is tolerated, or if an earlier one has failed.

        Raises ConnectError if the error is not tolerated.
        """
        if attempt.error is not None:
            return None
        attempt.stage, attempt.executing = stage, executing
        deadline_s = self._deadline_s()
        try:
            attempt.count = 1
            return operation()
        except Exception as error:
            return self._handle(attempt, operation, error, deadline_s)

    def note(
        self, attempt: Attempt[Original], stage: Stage, executing: type, error: Exception
    ) -> Future[None] | None:
        """Report an operation that has failed elsewhere; the future is done once all reporters are.

        Raises ConnectError if the error is not tolerated.
        """
        self._mark_failed()
        attempt.fail(stage, executing, error)
        self._metrics.failures += 1
        reported = self._report(attempt)
        if not self.tolerates:
            self._metrics.errors += 1
            raise ConnectError("Tolerance exceeded in error handler") from error
        return reported

    def open(self) -> None:
        """Prepare all reporters. Raises ConnectError."""
        for reporter in self._reporters:
            reporter.open()

    def stop(self) -> None:
        """End retries and reports, from any thread; an operation between two attempts counts as failed."""
        self._stopped.set()
        for reporter in self._reporters:
            reporter.stop()

    def close(self) -> None:
        """Close all reporters."""
        for reporter in self._reporters:
            reporter.close()

    def _deadline_s(self) -> float:
        """The time after which an operation that begins now is not repeated."""
        timeout_ms = self._settings.retry_timeout_ms
        if timeout_ms == 0:
            return -math.inf
        return math.inf if timeout_ms < 0 else self._clock() + timeout_ms / 1000

    def _handle(
        self, attempt: Attempt[Original], operation: Callable[[], T], error: Exception, deadline_s: float
    ) -> T | None:
        try:
            if isinstance(error, RetriableError):
                return self._retry(attempt, operation, error, deadline_s)
            raise error
        except Exception as last:
            self._metrics.failures += 1
            self._mark_failed()
            attempt.error = last
            if attempt.stage not in _ANY_ERROR and not isinstance(last, RetriableError):
                raise ConnectError("Unhandled exception in error handler") from last
            if not self.tolerates:
                raise ConnectError("Tolerance exceeded in error handler") from last
            self._metrics.skipped += 1
            return None
        finally:
            if attempt.error is not None:
                self._metrics.errors += 1
                self._report(attempt)

    def _retry(
        self, attempt: Attempt[Original], operation: Callable[[], T], error: RetriableError, deadline_s: float
    ) -> T:
        """Repeat an operation that has just failed. Raises its last error."""
        while True:
            self._metrics.failures += 1
            now = self._clock()
            if now > deadline_s - _RESOLUTION_S:
                raise error
            is_stopped = self._wait(min(self._delay_s(attempt.count), deadline_s - now))
            self._metrics.retries += 1
            if is_stopped:
                raise error
            attempt.count += 1
            try:
                return operation()
            except RetriableError as again:
                error = again

    def _delay_s(self, attempts: int) -> float:
        delay_ms = _RETRY_DELAY_MIN_MS << min(attempts - 1, 40)
        if delay_ms > self._settings.retry_delay_max_ms:
            delay_ms = random.randrange(self._settings.retry_delay_max_ms)
        return delay_ms / 1000

    def _mark_failed(self) -> None:
        self._metrics.last_error_s = time.time()
        self._has_failures = True

    def _report(self, attempt: Attempt[Original]) -> Future[None] | None:
        waiting = [future for each in self._reporters if (future := each.report(attempt)) is not None]
        return waiting[0] if waiting else None
