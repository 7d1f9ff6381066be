"""Operations on records that fail: retries with back-off, tolerance, and what is reported and counted."""

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from penstock.connect.errors import ConnectError, DataError, RetriableError
from penstock.connect.tasks.metrics import ErrorMetrics
from penstock.connect.tasks.settings import ErrorSettings
from penstock.connect.tasks.tolerance import Attempt, Stage, Tolerance


class Reports:
    def __init__(self) -> None:
        self.seen: list[tuple[str, Stage]] = []

    def open(self) -> None: ...

    def report(self, attempt: Attempt[str]) -> Future[None] | None:
        self.seen.append((attempt.original, attempt.stage))
        return None

    def stop(self) -> None: ...

    def close(self) -> None:
        self.seen.append(("closed", Stage.TASK_POLL))


class Clock:
    """A clock that waiting advances."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now_s += seconds
        return False


def failing(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def operation() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return operation


def tolerance(clock: Clock, reports: Reports, **settings: object) -> tuple[Tolerance[str], ErrorMetrics]:
    metrics = ErrorMetrics()
    made: ErrorSettings = ErrorSettings(**settings)  # type: ignore[arg-type]
    return Tolerance(made, metrics, [reports], clock=clock, wait=clock.wait), metrics


def test_a_tolerated_error_skips_the_record_and_later_stages() -> None:
    reports = Reports()
    subject, metrics = tolerance(Clock(), reports, tolerance="all")
    attempt = Attempt("r")
    assert subject.run(attempt, Stage.KEY_CONVERTER, str, failing(DataError("bad"))) is None
    assert subject.run(attempt, Stage.VALUE_CONVERTER, str, failing()) is None
    assert reports.seen == [("r", Stage.KEY_CONVERTER)]
    assert (metrics.failures, metrics.errors, metrics.skipped) == (1, 1, 1)
    assert not subject.is_exceeded


def test_without_tolerance_an_error_is_reported_and_raised() -> None:
    reports = Reports()
    subject, _ = tolerance(Clock(), reports)
    with pytest.raises(ConnectError, match="Tolerance exceeded in error handler") as raised:
        subject.run(Attempt("r"), Stage.TRANSFORMATION, str, failing(ValueError("bad")))
    assert isinstance(raised.value.__cause__, ValueError)
    assert reports.seen == [("r", Stage.TRANSFORMATION)]
    assert subject.is_exceeded


def test_errors_beyond_converters_and_transforms_are_never_tolerated() -> None:
    subject, _ = tolerance(Clock(), Reports(), tolerance="all")
    with pytest.raises(ConnectError, match="Unhandled exception in error handler"):
        subject.run(Attempt("r"), Stage.TASK_PUT, str, failing(ValueError("bad")))


def test_retries_double_their_delay_until_one_succeeds() -> None:
    clock = Clock()
    subject, metrics = tolerance(clock, Reports(), retry_timeout_ms=-1)
    errors = [RetriableError("later")] * 4
    attempt = Attempt("r")
    assert subject.run(attempt, Stage.TRANSFORMATION, str, failing(*errors)) == "done"
    assert clock.waits == [0.3, 0.6, 1.2, 2.4]
    assert (attempt.count, metrics.retries, metrics.failures) == (5, 4, 4)


def test_retries_end_at_the_timeout() -> None:
    clock = Clock()
    subject, metrics = tolerance(clock, Reports(), retry_timeout_ms=1000, tolerance="all")
    errors = [RetriableError("later")] * 100
    assert subject.run(Attempt("r"), Stage.TRANSFORMATION, str, failing(*errors)) is None
    assert clock.now_s == pytest.approx(1.0)
    assert metrics.skipped == 1


def test_a_delay_never_exceeds_its_bound() -> None:
    clock = Clock()
    subject, _ = tolerance(clock, Reports(), retry_timeout_ms=-1, retry_delay_max_ms=1000)
    subject.run(Attempt("r"), Stage.TRANSFORMATION, str, failing(*[RetriableError("later")] * 20))
    assert max(clock.waits) <= 1.0


def test_stopping_ends_retries() -> None:
    subject: Tolerance[str] = Tolerance(ErrorSettings(retry_timeout_ms=-1, tolerance="all"), ErrorMetrics())
    subject.stop()
    attempt = Attempt("r")
    assert subject.run(attempt, Stage.TRANSFORMATION, str, failing(RetriableError("later"))) is None
    assert isinstance(attempt.error, RetriableError)


def test_failures_from_elsewhere_are_reported_too() -> None:
    reports = Reports()
    subject, _ = tolerance(Clock(), reports, tolerance="all")
    subject.note(Attempt("r"), Stage.TASK_PUT, str, ValueError("bad"))
    subject.close()
    assert reports.seen == [("r", Stage.TASK_PUT), ("closed", Stage.TASK_POLL)]
