"""Produce requests with acks=all that wait until their records are committed.

A request waits for all its partitions, each until the high watermark has passed the appended records, up to
the producer's timeout. Records that are not committed by then may be committed later: the producer gets a
timeout error and retries the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.partitions.purgatory import Purgatory
    from penstock.broker.partitions.replica import Replica
    from penstock.protocol.messages import ProduceResponse

MESSAGES = {
    ErrorCode.REQUEST_TIMED_OUT: "the in-sync replicas did not have the records in time",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "fewer replicas than min.insync.replicas have the records",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "another node became the leader before the records were committed",
}


class Uncommitted(NamedTuple):
    """Records appended to one partition, and the answer to fill in for them."""

    replica: Replica
    leader_epoch: int
    end_offset: int
    answer: ProduceResponse.PartitionProduceResponse


class DelayedProduce:
    """One waiting request; `complete` is called once, from the loop, with the answers filled in."""

    __slots__ = ("_complete", "_purgatory", "_waiting", "tick")

    def __init__(
        self,
        purgatory: Purgatory,
        appended: list[Uncommitted],
        timeout_ms: int,
        complete: Callable[[], None],
    ) -> None:
        self._purgatory = purgatory
        self._complete: Callable[[], None] | None = complete
        self._waiting = dict(enumerate(appended))
        self.tick = purgatory.enter(self, timeout_ms)
        for number, (replica, leader_epoch, end_offset, _) in enumerate(appended):
            if replica.leader_epoch != leader_epoch:
                self._done(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                replica.when_committed(end_offset, lambda error, n=number: self._done(n, error))  # type: ignore[misc]

    def _done(self, number: int, error: ErrorCode) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return  # the request has timed out
        if error is ErrorCode.NONE:
            error = waiting.replica.check_enough_replicas_after_append()
        _fill_in_failure(waiting, error)
        if not self._waiting:
            self._purgatory.leave(self)
            self._purgatory.schedule(self)

    def cancel(self) -> None:
        """Discard the request, because the client has disconnected."""
        if self._waiting:
            self._purgatory.leave(self)
            self._waiting.clear()
        self._complete = None

    def run(self) -> None:
        """Send the answer."""
        complete, self._complete = self._complete, None
        if complete is not None:
            complete()

    def expire(self) -> None:
        """Answer with a timeout for the partitions that are not committed yet."""
        for waiting in self._waiting.values():
            _fill_in_failure(waiting, ErrorCode.REQUEST_TIMED_OUT)
        if self._waiting:
            self._purgatory.leave(self)
            self._waiting.clear()
        self.run()


class DelayedAppend:
    """A waiting request with a single batch; `complete` is called once, with the result.

    It does the same as `DelayedProduce` with less overhead, which dominates the cost of small requests.
    """

    __slots__ = ("_complete", "_error", "_is_waiting", "_purgatory", "_replica", "tick")

    def __init__(
        self,
        purgatory: Purgatory,
        replica: Replica,
        end_offset: int,
        timeout_ms: int,
        complete: Callable[[ErrorCode], None],
    ) -> None:
        self._purgatory = purgatory
        self._replica = replica
        self._complete: Callable[[ErrorCode], None] | None = complete
        self._error = ErrorCode.NONE
        self._is_waiting = True
        self.tick = purgatory.enter(self, timeout_ms)
        replica.when_committed(end_offset, self._done)

    def _done(self, error: ErrorCode) -> None:
        if not self._is_waiting:
            return  # the request has timed out
        self._is_waiting = False
        self._error = self._replica.check_enough_replicas_after_append() if error is ErrorCode.NONE else error
        self._purgatory.leave(self)
        self._purgatory.schedule(self)

    def cancel(self) -> None:
        """Discard the request, because the client has disconnected."""
        if self._is_waiting:
            self._is_waiting = False
            self._purgatory.leave(self)
        self._complete = None

    def run(self) -> None:
        """Send the answer."""
        complete, self._complete = self._complete, None
        if complete is not None:
            complete(self._error)

    def expire(self) -> None:
        """Answer with a timeout, unless the batch is committed."""
        if self._is_waiting:
            self._is_waiting = False
            self._error = ErrorCode.REQUEST_TIMED_OUT
            self._purgatory.leave(self)
        self.run()


def _fill_in_failure(waiting: Uncommitted, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        fill_in(waiting.answer, error)


def fill_in(answer: ProduceResponse.PartitionProduceResponse, error: ErrorCode) -> None:
    """Fill in the error of an append that is not known to be committed."""
    answer.error_code = error
    answer.error_message = MESSAGES.get(error)
    answer.base_offset = -1
    answer.log_append_time_ms = -1
