"""Fetch: long poll, limits, sessions, epochs, errors; through a socket."""

import asyncio
import time
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of, fetch_request, produce_request
from penstock.protocol.batch import iter_headers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchResponse, ProduceResponse
from penstock.testing import Cluster
from penstock.testing.simulator.nodes import EPOCH_MS
from virtual_time import VirtualNode, on_virtual_node
from waiting import until

READ_COMMITTED = 1
LONGER_THAN_ANY_TEST_MS = 600_000
"""The maximum wait of a fetch that another event has to end."""


def partitions(response: FetchResponse) -> dict[int, FetchResponse.PartitionData]:
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def count(data: FetchResponse.PartitionData) -> int:
    """The number of batches in an answer, all of which must be complete."""
    records = bytes(data.records or b"")
    headers = list(iter_headers(records))
    assert sum(header.size_bytes for _, header in headers) == len(records)
    return len(headers)


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name(wire: Wire, topic: str, version: int) -> None:
    wire.produce(topic, batch_of(b"a"))
    data = wire.fetch(topic, version=version)
    assert data.error_code == 0
    assert data.high_watermark == 1
    assert count(data) == 1
    if version >= 5:
        assert data.log_start_offset == 0
    if version >= 11:
        assert data.preferred_read_replica == -1


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_by_id(wire: Wire, version: int) -> None:
    name = f"fetch-by-id-{version}"
    topic_id = wire.create_topic(name)
    wire.produce(name, batch_of(b"a"))
    response = wire.ask(fetch_request(topic_id, {0: 0}), FetchResponse, version)
    assert response.responses[0].topic_id == topic_id
    assert count(partitions(response)[0]) == 1
    response = wire.ask(fetch_request(b"\x09" * 16, {0: 0}), FetchResponse, version)
    assert partitions(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_recreated_topic_has_another_id(wire: Wire) -> None:
    from penstock.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse

    old_id = wire.create_topic("recreated")
    wire.produce("recreated", batch_of(b"old"))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name="recreated")], timeout_ms=10_000
    )
    assert wire.ask(request, DeleteTopicsResponse).responses[0].error_code == 0
    new_id = wire.create_topic("recreated")
    assert new_id != old_id
    response = wire.ask(fetch_request(old_id, {0: 0}), FetchResponse, 13)
    assert partitions(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert wire.values("recreated") == []


def test_a_long_poll_ends_when_records_come(wire: Wire, topic: str, node: Cluster) -> None:
    wire.send(fetch_request(topic, {0: 0}, max_wait_ms=LONGER_THAN_ANY_TEST_MS), 12)
    with Wire(node.bootstrap_servers) as producer:
        producer.produce(topic, batch_of(b"a"))
    assert count(partitions(wire.receive(FetchResponse))[0]) == 1


def test_a_long_poll_ends_at_once_when_records_come(tmp_path: Path) -> None:
    async def story(node: VirtualNode) -> None:
        reader, producer = node.client("reader"), node.client("producer")
        topic_id = await node.create_topic(reader, "t")
        fetch = fetch_request(topic_id, {0: 0}, max_wait_ms=20_000)
        waiting = asyncio.ensure_future(node.ask(reader, fetch, FetchResponse))
        await until(lambda: node.broker.purgatory.waiting == 1)
        produce = produce_request(topic_id, batch_of(b"a", timestamp=EPOCH_MS))
        produced = await node.ask(producer, produce, ProduceResponse)
        assert produced.responses[0].partition_responses[0].error_code == 0
        answered_s = asyncio.get_running_loop().time()
        assert count(partitions(await waiting)[0]) == 1
        assert asyncio.get_running_loop().time() - answered_s < 0.1

    on_virtual_node(tmp_path, story)


def test_a_long_poll_waits_for_min_bytes(wire: Wire, topic: str, node: Cluster) -> None:
    batch = batch_of(b"x" * 100)
    wire.send(fetch_request(topic, {0: 0}, max_wait_ms=LONGER_THAN_ANY_TEST_MS, min_bytes=3 * len(batch)), 12)
    with Wire(node.bootstrap_servers) as producer:
        for _ in range(3):
            producer.produce(topic, batch)
    assert count(partitions(wire.receive(FetchResponse))[0]) == 3


def test_a_long_poll_ends_empty_when_its_time_is_over(wire: Wire, topic: str) -> None:
    started_s = time.monotonic()
    response = wire.ask(fetch_request(topic, {0: 0}, max_wait_ms=150), FetchResponse, 12)
    assert time.monotonic() - started_s >= 0.14
    assert partitions(response)[0].error_code == 0
    assert count(partitions(response)[0]) == 0


def test_an_error_does_not_wait(wire: Wire, topic: str) -> None:
    request = fetch_request(topic, {0: 0, 5: 0}, max_wait_ms=20_000)
    assert partitions(wire.ask(request, FetchResponse, 12))[5].error_code == 3
    request = fetch_request(topic, {0: 99}, max_wait_ms=20_000)
    assert partitions(wire.ask(request, FetchResponse, 12))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_deleted_topic_ends_its_long_polls(wire: Wire, topic: str, node: Cluster) -> None:
    from penstock.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse

    wire.send(fetch_request(topic, {0: 0}, max_wait_ms=LONGER_THAN_ANY_TEST_MS), 12)
    with Wire(node.bootstrap_servers) as admin:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=topic)], timeout_ms=10_000
        )
        admin.ask(request, DeleteTopicsResponse)
    data = partitions(wire.receive(FetchResponse))[0]
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_first_batch_comes_whole_whatever_the_limit(wire: Wire, topic: str) -> None:
    for _ in range(5):
        wire.produce(topic, batch_of(b"x" * 1000))
    tiny = fetch_request(topic, {0: 0}, partition_max_bytes=1)
    assert count(partitions(wire.ask(tiny, FetchResponse, 12))[0]) == 1
    tiny = fetch_request(topic, {0: 0}, max_bytes=1)
    assert count(partitions(wire.ask(tiny, FetchResponse, 12))[0]) == 1
    two = fetch_request(topic, {0: 0}, partition_max_bytes=2500)
    assert count(partitions(wire.ask(two, FetchResponse, 12))[0]) == 2


def test_max_bytes_is_shared_by_the_partitions_in_order(wire: Wire) -> None:
    wire.create_topic("shared-limit", partitions=3)
    for partition in range(3):
        for _ in range(3):
            wire.produce("shared-limit", batch_of(b"x" * 1000), partition)
    request = fetch_request("shared-limit", {2: 0, 0: 0, 1: 0}, max_bytes=5000)
    found = {p: count(data) for p, data in partitions(wire.ask(request, FetchResponse, 12)).items()}
    assert list(found.items()) == [(2, 3), (0, 1), (1, 0)]


def test_a_session_serves_all_partitions_in_turn(wire: Wire) -> None:
    wire.create_topic("in-turn", partitions=3)
    for partition in range(3):
        wire.produce("in-turn", batch_of(b"x" * 1000), partition)
    first = wire.ask(
        fetch_request("in-turn", {0: 0, 1: 0, 2: 0}, max_bytes=1100, session=(0, 0)), FetchResponse, 12
    )
    assert first.session_id > 0
    served = []
    for epoch in (1, 2, 3):
        response = wire.ask(
            fetch_request("in-turn", {}, max_bytes=1100, session=(first.session_id, epoch)), FetchResponse, 12
        )
        served += [p for p, data in partitions(response).items() if count(data)]
    assert served == [0, 1, 2]


def test_session_errors_are_told_at_the_top(wire: Wire, topic: str) -> None:
    response = wire.ask(fetch_request(topic, {0: 0}, session=(12345, 1)), FetchResponse, 12)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert response.responses == []


def test_leader_epochs(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch_of(b"a"))
    newer = fetch_request(topic, {0: 0}, leader_epoch=1000)
    assert partitions(wire.ask(newer, FetchResponse, 12))[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    diverged = fetch_request(topic, {0: 50}, last_fetched_epoch=0)
    data = partitions(wire.ask(diverged, FetchResponse, 12))[0]
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 1)


def test_read_committed_sees_the_same_without_transactions(wire: Wire, topic: str) -> None:
    wire.produce(topic, batch_of(b"a"))
    request = fetch_request(topic, {0: 0}, isolation_level=READ_COMMITTED)
    data = partitions(wire.ask(request, FetchResponse, 12))[0]
    assert (count(data), data.last_stable_offset, data.aborted_transactions) == (1, 1, [])


def test_a_large_answer_comes_whole_to_a_slow_reader(wire: Wire, topic: str) -> None:
    values = [bytes([65 + number % 26]) * 200_000 for number in range(40)]
    for value in values:
        wire.produce(topic, batch_of(value))
    request = fetch_request(topic, {0: 0}, partition_max_bytes=20 << 20)
    wire.send(request, 12)
    wire.send(request, 12)
    time.sleep(0.2)
    for _ in range(2):
        data = partitions(wire.receive(FetchResponse))[0]
        assert count(data) == 40
    assert wire.values(topic) == values
