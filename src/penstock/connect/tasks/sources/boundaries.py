"""Decides where the transactions of an exactly-once source end (``transaction.boundary``, KIP-618). Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import ConnectError
from penstock.connect.tasks.settings import OffsetSettings, TransactionSettings


class Ending(Enum):
    """How a transaction ends now."""

    COMMIT = "commit"
    ABORT = "abort"
    """The records are aborted, and their offsets are committed in a transaction of their own."""


class Boundary(Protocol):
    """One way to end transactions."""

    def begin(self) -> None:
        """Note that the task begins, or continues after a pause."""

    def after_record(self, record: SourceRecord) -> Ending | None:
        """Return how the transaction ends after this record, if it does."""

    def after_batch(self) -> Ending | None:
        """Return how the transaction ends after the records of a `poll`, if it does."""

    def at_end(self) -> Ending | None:
        """Return how the transaction ends before a pause or a stop; if it does not, it is aborted later."""


class _EachPoll:
    def begin(self) -> None: ...

    def after_record(self, record: SourceRecord) -> Ending | None:
        return None

    def after_batch(self) -> Ending | None:
        return Ending.COMMIT

    def at_end(self) -> Ending | None:
        return Ending.COMMIT


class _Interval(_EachPoll):
    def __init__(self, interval_ms: int, clock: Callable[[], float]) -> None:
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._last_s = clock()

    def begin(self) -> None:
        self._last_s = self._clock()

    def after_batch(self) -> Ending | None:
        if self._clock() < self._last_s + self._interval_s:
            return None
        self._last_s = self._clock()
        return Ending.COMMIT


class TaskDefined(_EachPoll):
    """Boundaries that the task sets by itself: this is also the task's `TransactionContext`.

    A request for a record means this very object, as `poll` returns it.
    """

    def __init__(self) -> None:
        self._batch: set[Ending] = set()
        self._records: dict[int, tuple[SourceRecord, set[Ending]]] = {}

    def commit(self, after: SourceRecord | None = None) -> None:
        self._request(Ending.COMMIT, after)

    def abort(self, after: SourceRecord | None = None) -> None:
        self._request(Ending.ABORT, after)

    def _request(self, ending: Ending, after: SourceRecord | None) -> None:
        if after is None:
            self._batch.add(ending)
        else:
            self._records.setdefault(id(after), (after, set()))[1].add(ending)

    def after_record(self, record: SourceRecord) -> Ending | None:
        _, requested = self._records.pop(id(record), (record, set[Ending]()))
        if len(requested) > 1:
            raise ConnectError(
                "Connector requested both commit and abort of same record against topic/partition"
                f" {record.topic}/{record.partition}"
            )
        return next(iter(requested), None)

    def after_batch(self) -> Ending | None:
        requested, self._batch = self._batch, set()
        if len(requested) > 1:
            raise ConnectError("Connector requested both commit and abort of same transaction")
        return next(iter(requested), None)

    def at_end(self) -> Ending | None:
        return self.after_batch()


def boundary_of(
    settings: TransactionSettings, offsets: OffsetSettings, clock: Callable[[], float] = time.monotonic
) -> Boundary:
    """Return the boundary that a connector is configured to have; a `TaskDefined` for ``connector``."""
    match settings.boundary:
        case "poll":
            return _EachPoll()
        case "interval":
            interval_ms = settings.interval_ms
            return _Interval(offsets.flush_interval_ms if interval_ms is None else interval_ms, clock)
        case _:
            return TaskDefined()
