"""Requests with very many entries are decoded, authorized and answered in many turns of the loop."""

import asyncio
from pathlib import Path

import pytest

from broker_wire import Wire
from in_process import create, run, running_node
from penstock.broker.api import txn_offset_commit
from penstock.broker.network import served, turns
from penstock.broker.node import Broker
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

TOPICS = 3_000


@pytest.fixture(autouse=True)
def every_step_is_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "LONG_REQUEST_BYTES", 1024)
    monkeypatch.setattr(turns, "PIECE_NS", 0)


def address_of(broker: Broker) -> str:
    host, port = broker.server._acceptors[0].listening.getsockname()[:2]
    return f"{host}:{port}"


def test_answers_are_complete_and_in_order(tmp_path: Path) -> None:
    names = [f"topic-{number}" for number in range(TOPICS)]

    def ask(bootstrap_servers: str) -> None:
        with Wire(bootstrap_servers) as wire:
            topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
            wire.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
            wire.send(FindCoordinatorRequest(key_type=0, coordinator_keys=names))
            latest = [ListOffsetsRequest.ListOffsetsPartition(partition_index=i) for i in range(TOPICS)]
            topic = ListOffsetsRequest.ListOffsetsTopic(name=names[1], partitions=latest)
            wire.send(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
            answered = wire.receive(MetadataResponse).topics
            assert [topic.name for topic in answered] == names
            assert [topic.name for topic in answered if not topic.error_code] == names[1:2]
            coordinators = wire.receive(FindCoordinatorResponse).coordinators
            assert [coordinator.key for coordinator in coordinators] == names
            partitions = wire.receive(ListOffsetsResponse).topics[0].partitions
            assert [partition.partition_index for partition in partitions] == list(range(TOPICS))
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert {partition.error_code for partition in partitions[1:]} == {unknown}
            assert partitions[0].error_code == 0

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, names[1])
            await asyncio.to_thread(ask, address_of(broker))

    run(story())


def test_what_turns_out_to_be_malformed_closes_the_connection(tmp_path: Path) -> None:
    def ask(bootstrap_servers: str) -> None:
        with Wire(bootstrap_servers) as wire:
            topics = [MetadataRequest.MetadataRequestTopic(name=f"topic-{i}") for i in range(TOPICS)]
            frame, *_ = wire.frame(MetadataRequest(topics=topics), 12)
            size = len(frame) - 4 - 100
            wire.socket.sendall(size.to_bytes(4, "big") + frame[4 : 4 + size])
            assert wire.is_closed()

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await asyncio.to_thread(ask, address_of(broker))
            assert broker.server.stats.hostile_frames == 1

    run(story())


def test_offsets_of_many_partitions_are_judged_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(txn_offset_commit, "PARTITIONS_PER_TURN", 7)
    commit = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic

    def ask(bootstrap_servers: str) -> None:
        with Wire(bootstrap_servers) as wire:
            request = TxnOffsetCommitRequest(
                transactional_id="nobody",
                group_id="group",
                producer_id=1,
                topics=[
                    topic(name=name, partitions=[commit(partition_index=i) for i in range(20)])
                    for name in ("here", "there", "nowhere")
                ],
            )
            answered = wire.ask(request, TxnOffsetCommitResponse)
            codes = {
                (topic.name, partition.partition_index): partition.error_code
                for topic in answered.topics
                for partition in topic.partitions
            }
            assert len(answered.topics) == 3
            assert len(codes) == 60
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert {name for (name, _), code in codes.items() if code == unknown} == {"nowhere"}
            assert 0 not in codes.values()

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "here", "there", partitions=20)
            await asyncio.to_thread(ask, address_of(broker))

    run(story())
