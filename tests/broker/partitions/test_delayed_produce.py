"""Produce requests that wait for their replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from penstock.broker.partitions.commit_waiters import CommitWaiters, OnCommit
from penstock.broker.partitions.delayed_produce import DelayedAppend, DelayedProduce, Uncommitted
from penstock.broker.partitions.purgatory import Purgatory
from penstock.broker.partitions.replica import Replica
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ProduceResponse
from virtual_time import run_virtually

Answer = ProduceResponse.PartitionProduceResponse


class Leading:
    """The part of a replica that produce requests wait for."""

    def __init__(self, leader_epoch: int = 4, after_append: ErrorCode = ErrorCode.NONE) -> None:
        self.leader_epoch = leader_epoch
        self.after_append = after_append
        self.waiters = CommitWaiters()

    def when_committed(self, end_offset: int, then: OnCommit) -> None:
        self.waiters.wait(end_offset, then)

    def check_enough_replicas_after_append(self) -> ErrorCode:
        return self.after_append


class Request:
    """A produce request that has appended up to offset 10 of each partition."""

    def __init__(self, purgatory: Purgatory, partitions: list[Leading], timeout_ms: int = 10_000) -> None:
        self.answers = [Answer(index=number, base_offset=9) for number in range(len(partitions))]
        self.completed = 0
        uncommitted = [
            Uncommitted(cast("Replica", partition), 4, 10, answer)
            for partition, answer in zip(partitions, self.answers, strict=True)
        ]
        self.delayed = DelayedProduce(purgatory, uncommitted, timeout_ms, self._complete)

    def _complete(self) -> None:
        self.completed += 1

    @property
    def outcome(self) -> list[tuple[ErrorCode, int]]:
        return [(ErrorCode.of(answer.error_code), answer.base_offset) for answer in self.answers]


def run(scenario: Callable[[Purgatory], Awaitable[None]]) -> None:
    async def start() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        await scenario(purgatory)
        assert purgatory.waiting == 0

    run_virtually(start())


def test_all_partitions_are_waited_for() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        partitions = [Leading(), Leading()]
        request = Request(purgatory, partitions)
        partitions[0].waiters.passed(10)
        partitions[1].waiters.passed(9)
        await asyncio.sleep(0)
        assert request.completed == 0
        partitions[1].waiters.passed(12)
        await asyncio.sleep(0)
        assert request.completed == 1
        assert request.outcome == [(ErrorCode.NONE, 9), (ErrorCode.NONE, 9)]

    run(scenario)


def test_what_is_not_committed_in_time_is_said_to_have_timed_out() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        partitions = [Leading(), Leading()]
        request = Request(purgatory, partitions, timeout_ms=20)
        partitions[0].waiters.passed(10)
        await asyncio.sleep(0.06)
        assert request.completed == 1
        assert request.outcome == [(ErrorCode.NONE, 9), (ErrorCode.REQUEST_TIMED_OUT, -1)]
        partitions[1].waiters.passed(10)
        await asyncio.sleep(0)
        assert request.completed == 1
        assert request.outcome[1] == (ErrorCode.REQUEST_TIMED_OUT, -1)

    run(scenario)


def test_a_leader_that_stops_leading_says_so() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        partition = Leading()
        request = Request(purgatory, [partition])
        partition.waiters.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await asyncio.sleep(0)
        assert (request.completed, request.outcome) == (1, [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)])

    run(scenario)


def test_a_new_leader_epoch_since_the_append_is_another_leadership() -> None:
    """The record at that offset may be another one now."""

    async def scenario(purgatory: Purgatory) -> None:
        request = Request(purgatory, [Leading(leader_epoch=6)])
        await asyncio.sleep(0)
        assert (request.completed, request.outcome) == (1, [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)])

    run(scenario)


def test_too_few_replicas_after_the_append_are_told() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        partition = Leading(after_append=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        request = Request(purgatory, [partition])
        partition.waiters.passed(10)
        await asyncio.sleep(0)
        assert request.outcome == [(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1)]

    run(scenario)


def test_a_client_that_is_gone_is_not_answered() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        partition = Leading()
        request = Request(purgatory, [partition])
        request.delayed.cancel()
        partition.waiters.passed(10)
        await asyncio.sleep(0)
        assert request.completed == 0

    run(scenario)


class Single:
    """A request with one batch that ends at offset 10."""

    def __init__(self, purgatory: Purgatory, partition: Leading, timeout_ms: int = 10_000) -> None:
        self.outcomes: list[ErrorCode] = []
        replica = cast("Replica", partition)
        self.delayed = DelayedAppend(purgatory, replica, 10, timeout_ms, self.outcomes.append)


def test_a_single_batch_ends_once_whatever_comes_first() -> None:
    async def scenario(purgatory: Purgatory) -> None:
        committed, refused, late, gone = Leading(), Leading(), Leading(), Leading()
        few = Leading(after_append=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        requests = [Single(purgatory, partition) for partition in (committed, refused, few, gone)]
        requests.append(Single(purgatory, late, timeout_ms=20))
        requests[3].delayed.cancel()
        committed.waiters.passed(9)
        await asyncio.sleep(0)
        assert requests[0].outcomes == []
        for partition in (committed, few, gone):
            partition.waiters.passed(10)
        refused.waiters.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await asyncio.sleep(0.06)
        late.waiters.passed(10)
        await asyncio.sleep(0)
        assert [request.outcomes for request in requests] == [
            [ErrorCode.NONE],
            [ErrorCode.NOT_LEADER_OR_FOLLOWER],
            [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND],
            [],
            [ErrorCode.REQUEST_TIMED_OUT],
        ]

    run(scenario)
