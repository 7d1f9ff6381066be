"""Batches of records between the thread that reads and the task, in a queue of limited size."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from penstock.connect.data.records import SourceRecord


class Batch(NamedTuple):
    """Records in their order, and the places where transactions end.

    ``ends`` has a pair for each end of a transaction: the number of this batch's records before it, and the
    position after its commit. ``boundary`` is the last record that ends a transaction, or None. The records
    of a batch that ``aborts`` end a transaction that the database never committed.
    """

    records: Sequence[SourceRecord]
    ends: Sequence[tuple[int, int]]
    boundary: SourceRecord | None
    aborts: bool = False


class BatchQueue:
    """A queue of batches with at most about ``size`` records; one thread puts, another takes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._batches: deque[Batch] = deque()
        self._records = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._error: BaseException | None = None

    def offer(self, batch: Batch, timeout_s: float) -> bool:
        """Add a batch, waiting for space; False if there is none after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._records < self._size or self._is_closed, timeout_s)
            if self._records >= self._size or self._is_closed:
                return False
            self._batches.append(batch)
            self._records += len(batch.records)
            self._changed.notify_all()
            return True

    def take(self, timeout_s: float) -> Batch | None:
        """Remove the oldest batch, waiting for one; None after the timeout or at the end.

        Raises:
            BaseException: the error that ended the other thread, once all batches before it are taken.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not self._batches and not self._is_closed:
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    return None
            if self._batches:
                batch = self._batches.popleft()
                self._records -= len(batch.records)
                self._changed.notify_all()
                return batch
            if self._error is not None:
                raise self._error
            self._changed.wait(deadline - time.monotonic())  # nothing comes, so callers must not spin
            return None

    def close(self, error: BaseException | None = None) -> None:
        """Let no more batches in; the first ``error`` is raised once those inside are taken."""
        with self._changed:
            self._is_closed = True
            self._error = self._error or error
            self._changed.notify_all()
