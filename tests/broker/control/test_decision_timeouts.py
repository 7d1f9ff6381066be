"""A request's timeout ends the wait for a decision that is not committed: REQUEST_TIMED_OUT, as in Kafka."""

import asyncio
import threading
from pathlib import Path

import pytest
from test_controller_runtime import create, running

from penstock.broker.api_table import ListenerType, bound
from penstock.broker.network.context import RequestContext
from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.protocol.api_keys import ApiKey, api_range
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)
from penstock.security.permissions import UNRESTRICTED
from waiting import until

TIMEOUT_MS = 100


def requests(timeout_ms: int) -> list[Message]:
    """One request of each API with a timeout, about topic t with one partition."""
    partitions = AlterPartitionReassignmentsRequest.ReassignablePartition
    return [
        CreateTopicsRequest(
            topics=[CreateTopicsRequest.CreatableTopic(name="u", num_partitions=1, replication_factor=1)],
            timeout_ms=timeout_ms,
        ),
        CreatePartitionsRequest(
            topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2)], timeout_ms=timeout_ms
        ),
        ElectLeadersRequest(
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])],
            timeout_ms=timeout_ms,
        ),
        AlterPartitionReassignmentsRequest(
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(
                    name="t", partitions=[partitions(partition_index=0, replicas=[1])]
                )
            ],
            timeout_ms=timeout_ms,
        ),
        DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")], timeout_ms=timeout_ms),
    ]


def codes(response: object) -> set[int]:
    """All error codes in a message."""
    found = set()
    for name in getattr(response, "__slots__", ()):
        value = getattr(response, name)
        if name == "error_code":
            found.add(value)
        for item in value if isinstance(value, list) else ():
            found |= codes(item)
    return found


def test_what_is_not_committed_in_time_is_answered_so_and_may_come_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_goes_on = threading.Event()
    disk_goes_on.set()
    flush = MetadataLog.flush

    def slow_flush(log: MetadataLog) -> int:
        assert disk_goes_on.wait(60)
        return flush(log)

    async def scenario() -> None:
        monkeypatch.setattr(MetadataLog, "flush", slow_flush)
        async with running(tmp_path) as broker:
            await create(broker, "t")
            served = bound(broker, ListenerType.CONTROLLER)

            async def ask(request: Message) -> object:
                key = ApiKey(request.ID)
                context = RequestContext(
                    api_range(key)[1], "test", "127.0.0.1", "User:a", "CONTROLLER", UNRESTRICTED
                )
                return await served[key].handle(served[key].part, request, context)  # type: ignore[misc]

            disk_goes_on.clear()
            try:
                answers = [await ask(request) for request in requests(TIMEOUT_MS)]
            finally:
                disk_goes_on.set()
            for answer in answers:
                assert codes(answer) - {0} == {ErrorCode.REQUEST_TIMED_OUT}, answer
            await until(lambda: "u" in broker.image.topics.by_name and "t" not in broker.image.topics.by_name)

    asyncio.run(scenario())


def test_with_no_time_at_all_nothing_is_decided(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await create(broker, "t")
            served, end_offset = bound(broker, ListenerType.CONTROLLER), broker.quorum.log_end_offset
            for timeout_ms in (0, -1):
                for request in requests(timeout_ms):
                    key = ApiKey(request.ID)
                    context = RequestContext(
                        api_range(key)[1], "test", "127.0.0.1", "User:a", "CONTROLLER", UNRESTRICTED
                    )
                    answer = await served[key].handle(served[key].part, request, context)  # type: ignore[misc]
                    assert codes(answer) - {0} == {ErrorCode.REQUEST_TIMED_OUT}, answer
            assert broker.quorum.log_end_offset == end_offset

    asyncio.run(scenario())
