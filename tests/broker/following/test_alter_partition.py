"""AlterPartition: how proposals are batched and resent, and which partitions receive the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import cast

from penstock.broker.following.alter_partition import AlterPartitionManager
from penstock.broker.partitions.leadership import IsrProposal
from penstock.broker.partitions.replicated_partition import ReplicatedPartition
from penstock.broker.peers import PeerTimedOut, PeerViolation
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AlterPartitionRequest, AlterPartitionResponse
from virtual_time import run_virtually
from waiting import until

TOPIC = b"\x05" * 16


class Partition:
    """Keeps the answers; proposes again if the error is one of `again`."""

    def __init__(self, number: int) -> None:
        self.replica = SimpleNamespace(topic_id=TOPIC, topic="flights", partition=number)
        self.told: list[object] = []
        self.again: set[ErrorCode] = set()

    def accepted(self, proposal: IsrProposal, isr: list[int], leader_epoch: int, epoch: int) -> bool:
        self.told.append((proposal.isr, isr, leader_epoch, epoch))
        return True

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        self.told.append((proposal.isr, error))
        return error in self.again


class Controller:
    """Answers from a script: one entry per request, an error for all partitions or for each."""

    def __init__(self, *script: ErrorCode | dict[int, ErrorCode] | Exception) -> None:
        self.script = list(script)
        self.requests: list[AlterPartitionRequest] = []
        self.held = asyncio.Event()
        self.held.set()

    async def call(self, request: object, response_type: object) -> AlterPartitionResponse:
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        entry = self.script.pop(0) if self.script else {}
        await self.held.wait()
        if isinstance(entry, Exception):
            raise entry
        if isinstance(entry, ErrorCode):
            return AlterPartitionResponse(error_code=entry)
        partitions = [
            AlterPartitionResponse.PartitionData(
                partition_index=asked.partition_index,
                error_code=entry.get(asked.partition_index, ErrorCode.NONE),
                leader_epoch=asked.leader_epoch,
                isr=[state.broker_id for state in asked.new_isr_with_epochs],
                partition_epoch=asked.partition_epoch + 1,
            )
            for topic in request.topics
            for asked in topic.partitions
            if entry.get(asked.partition_index) != ErrorCode.UNKNOWN_SERVER_ERROR
        ]
        return AlterPartitionResponse(
            topics=[AlterPartitionResponse.TopicData(topic_id=TOPIC, partitions=partitions)]
        )


def proposal(*isr: int, joins: int | None = None, epoch: int = 3) -> IsrProposal:
    return IsrProposal(isr, tuple(100 + member for member in isr), 7, epoch, joins)


def sent(controller: Controller) -> list[dict[int, list[tuple[int, int]]]]:
    """For each request: (broker, broker epoch) of the proposed replicas by partition."""
    return [
        {
            asked.partition_index: [(s.broker_id, s.broker_epoch) for s in asked.new_isr_with_epochs]
            for topic in request.topics
            for asked in topic.partitions
        }
        for request in controller.requests
    ]


def run(controller_of: Callable[[], Controller], scenario: Callable[..., Awaitable[None]]) -> None:
    async def start() -> None:
        controller = controller_of()
        manager = AlterPartitionManager(1, lambda: controller, lambda: 55, asyncio.get_running_loop())  # type: ignore[arg-type,return-value]

        def submit(partition: Partition, wanted: IsrProposal) -> None:
            manager.submit(cast("ReplicatedPartition", partition), wanted)

        await scenario(controller, manager, submit)
        await manager.close()

    run_virtually(start())


def test_what_gathers_while_a_request_is_under_way_goes_with_the_next() -> None:
    async def scenario(controller: Controller, manager: AlterPartitionManager, submit: Callable) -> None:  # type: ignore[type-arg]
        partitions = [Partition(number) for number in range(3)]
        controller.held.clear()
        submit(partitions[0], proposal(1, 2, joins=2))
        await asyncio.sleep(0)
        submit(partitions[1], proposal(1, 2))
        submit(partitions[1], proposal(1))
        submit(partitions[2], proposal(1))
        controller.held.set()
        await asyncio.sleep(0.01)
        assert sent(controller) == [{0: [(1, 101), (2, 102)]}, {1: [(1, 101)], 2: [(1, 101)]}]
        assert {(request.broker_id, request.broker_epoch) for request in controller.requests} == {(1, 55)}
        assert partitions[0].told == [((1, 2), [1, 2], 7, 4)]
        assert partitions[1].told == [((1,), [1], 7, 4)]
        assert (manager.stats.expands, manager.stats.shrinks, manager.stats.failed) == (1, 2, 0)

    run(Controller, scenario)


def test_a_request_that_is_refused_as_a_whole_is_sent_again_with_what_is_newer() -> None:
    async def scenario(controller: Controller, manager: AlterPartitionManager, submit: Callable) -> None:  # type: ignore[type-arg]
        first, second = Partition(0), Partition(1)
        submit(first, proposal(1))
        submit(second, proposal(1))
        await asyncio.sleep(0.01)
        submit(second, proposal(1, 2, epoch=9))
        await asyncio.sleep(0.1)
        assert sent(controller) == [
            {0: [(1, 101)], 1: [(1, 101)]},
            {0: [(1, 101)], 1: [(1, 101), (2, 102)]},
        ]
        assert first.told == [((1,), [1], 7, 4)]
        assert second.told == [((1, 2), [1, 2], 7, 10)]

    run(lambda: Controller(ErrorCode.STALE_BROKER_EPOCH), scenario)


def test_partitions_hear_of_their_own_errors() -> None:
    async def scenario(controller: Controller, manager: AlterPartitionManager, submit: Callable) -> None:  # type: ignore[type-arg]
        refused, again, missing = Partition(0), Partition(1), Partition(2)
        again.again = {ErrorCode.REQUEST_TIMED_OUT}
        for partition in (refused, again, missing):
            submit(partition, proposal(1))
        await asyncio.sleep(0.1)
        assert [sorted(request) for request in sent(controller)] == [[0, 1, 2], [1, 2]]
        assert refused.told == [((1,), ErrorCode.FENCED_LEADER_EPOCH)]
        assert again.told == [((1,), ErrorCode.REQUEST_TIMED_OUT), ((1,), [1], 7, 4)]
        assert missing.told == [((1,), [1], 7, 4)], "it was in no answer, so it was sent again"
        assert manager.stats.failed == 2

    script = {
        0: ErrorCode.FENCED_LEADER_EPOCH,
        1: ErrorCode.REQUEST_TIMED_OUT,
        2: ErrorCode.UNKNOWN_SERVER_ERROR,
    }
    run(lambda: Controller(script), scenario)


def test_an_answer_that_cannot_be_read_is_asked_for_again() -> None:
    """The partition would otherwise wait forever: it makes no other proposal while one is unanswered."""

    async def scenario(controller: Controller, manager: AlterPartitionManager, submit: Callable) -> None:  # type: ignore[type-arg]
        partition = Partition(0)
        submit(partition, proposal(1))
        await until(lambda: partition.told)
        assert partition.told == [((1,), [1], 7, 4)]
        assert len(controller.requests) == 3

    script = [PeerViolation("answered ALTER_PARTITION version 3: nonsense"), ErrorCode.STALE_BROKER_EPOCH]
    run(lambda: Controller(*script), scenario)


def test_when_the_node_stops_nothing_is_sent_again() -> None:
    async def scenario(controller: Controller, manager: AlterPartitionManager, submit: Callable) -> None:  # type: ignore[type-arg]
        partition = Partition(0)
        submit(partition, proposal(1))
        await asyncio.sleep(0.1)
        assert len(controller.requests) == 1
        assert partition.told == []

    run(lambda: Controller(PeerTimedOut("the node is stopping")), scenario)
