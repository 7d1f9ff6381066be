"""Topics with several replicas on real nodes, on the simulator's virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from penstock.broker.api import list_offsets
from penstock.broker.following.fetchers import fetcher_number
from penstock.broker.partitions.replica import Replica
from penstock.metadata.configs import BrokerConfig
from penstock.protocol.batch import iter_headers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FetchRequest,
    FetchResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListOffsetsRequest,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.records import Record, encode_batch
from penstock.testing.simulator.clients.client import Address, Client, NoAnswer
from penstock.testing.simulator.cluster import SimulatedCluster
from penstock.testing.simulator.history import Partition
from penstock.testing.simulator.layout import CLIENT_PORT, Layout, host_of
from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.scenario import Scenario

TOPIC = "flights"
PARTITION = Partition(TOPIC, 0)
ALL = -1
TOPICS, BROKER = 2, 4
"""The types of configuration resources."""
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ThreeNodes:
    """Three nodes, and a client that sends the requests of a test."""

    def __init__(self, loop: VirtualLoop, directory: Path, **properties: str) -> None:
        self.loop = loop
        layout = Layout((1, 2, 3), (1, 2, 3))
        scenario = replace(Scenario.of(Random(1)), layout=layout, segment_bytes=1_000_000, log_directories=1)
        self.cluster = SimulatedCluster(loop, directory, scenario, Random(1))
        for node in self.cluster.nodes.values():
            added = {name.replace("_", "."): value for name, value in properties.items()}
            node.config = BrokerConfig.from_properties({**node.config.static, **added})
        self.client = Client(self.cluster.settings, "client", Random(2))

    async def start(self, *, replicas: int = 3, **configs: str) -> None:
        for node in self.cluster.nodes.values():
            node.start()
        await self.cluster.until("all are up", lambda: len(self.cluster.up) == 3, 30)
        topic = CreateTopicsRequest.CreatableTopic(
            name=TOPIC,
            num_partitions=1,
            replication_factor=replicas,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = await self.client.ask(address(1), request, CreateTopicsResponse, 20_000)
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        await self.until(lambda: self.leader_id is not None and len(self.replicas) == replicas)

    async def until(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
        await self.cluster.until("it came true", condition, timeout_s)

    def replica(self, node_id: int) -> Replica | None:
        broker = self.cluster.nodes[node_id].broker
        if broker is None or not hasattr(broker, "replicas"):
            return None
        return broker.replicas.get(TOPIC, 0)

    @property
    def replicas(self) -> dict[int, Replica]:
        found = {node_id: self.replica(node_id) for node_id in self.cluster.nodes}
        return {node_id: replica for node_id, replica in found.items() if replica is not None}

    @property
    def leader_id(self) -> int | None:
        leaders = [(r.leader_epoch, node_id) for node_id, r in self.replicas.items() if r.is_leader]
        return max(leaders)[1] if leaders else None

    @property
    def leader(self) -> Replica:
        assert self.leader_id is not None
        return self.replicas[self.leader_id]

    @property
    def follower_ids(self) -> list[int]:
        return [node_id for node_id in self.replicas if node_id != self.leader_id]

    def is_in_sync(self, count: int) -> bool:
        if self.leader_id is None or self.leader.replicated is None:
            return False
        leading = self.leader.replicated.leading
        return leading is not None and len(leading.isr) == count and leading.pending is None

    async def produce(
        self, value: bytes = b"a flight", acks: int = ALL, timeout_ms: int = 1_000
    ) -> tuple[ErrorCode, int]:
        """Produce and return the error and the base offset."""
        assert self.leader_id is not None
        records = encode_batch([Record(0, 1_700_000_000_000, b"key", value)])
        data = ProduceRequest.PartitionProduceData(index=0, records=records)
        topic = ProduceRequest.TopicProduceData(topic_id=self.leader.topic_id, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        response = await self.client.ask(address(self.leader_id), request, ProduceResponse, 10_000)
        answer = response.responses[0].partition_responses[0]
        return ErrorCode.of(answer.error_code), answer.base_offset

    async def fetch(self, node_id: int, offset: int, rack: str = "") -> FetchResponse.PartitionData:
        partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchRequest.FetchTopic(topic_id=self.leader.topic_id, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic], rack_id=rack)
        response = await self.client.ask(address(node_id), request, FetchResponse)
        return response.responses[0].partitions[0]

    async def delete_records(self, offset: int, timeout_ms: int) -> tuple[ErrorCode, int]:
        """Delete records and return the error and the low watermark."""
        assert self.leader_id is not None
        partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        response = await self.client.ask(address(self.leader_id), request, DeleteRecordsResponse, 10_000)
        result = response.topics[0].partitions[0]
        return ErrorCode.of(result.error_code), result.low_watermark

    async def configure(self, type_: int, name: str, **configs: str) -> None:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=type_,
            resource_name=name,
            configs=[
                IncrementalAlterConfigsRequest.AlterableConfig(
                    name=key.replace("_", "."), config_operation=0, value=value
                )
                for key, value in configs.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        node_id = int(name) if type_ == BROKER else 1
        response = await self.client.ask(address(node_id), request, IncrementalAlterConfigsResponse)
        assert response.responses[0].error_code == 0, response.responses[0].error_message


def rack_of(node_id: int) -> str:
    """The rack of a node, according to the simulator's machines."""
    return f"rack{node_id % 3}"


def address(node_id: int) -> Address:
    return Address(node_id, host_of(node_id), CLIENT_PORT)


def simulated(directory: Path, scenario: Callable[[ThreeNodes], Awaitable[None]], **properties: str) -> None:
    """Run a scenario on three nodes in virtual time."""
    loop = VirtualLoop(Random(3))
    gc.disable()  # finalizers of stopped nodes must not run
    try:
        with loop.stopped_stopwatches():
            nodes = ThreeNodes(loop, directory, **properties)

            async def run() -> None:
                await scenario(nodes)
                nodes.cluster.check()

            loop.run_until_complete(run())
    finally:
        loop.abandon()
        loop.close()
        gc.enable()


def raw(replica: Replica) -> bytes:
    found, offset = b"", replica.log.log_start_offset
    while (piece := replica.log.read(offset, 1 << 20)) is not None:
        data = piece.read()
        found += data
        for _, header in iter_headers(data):
            offset = header.next_offset
    return found


def test_acks_all_waits_for_the_in_sync_replicas(tmp_path: Path) -> None:
    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start(min_insync_replicas="2")
        for number in range(20):
            assert await nodes.produce(b"%d" % number) == (ErrorCode.NONE, number)
            in_sync = nodes.leader.replicated.leading.isr  # type: ignore[union-attr]
            assert all(nodes.replicas[node_id].log.log_end_offset > number for node_id in in_sync)
        await nodes.until(lambda: all(r.high_watermark == 20 for r in nodes.replicas.values()), 2)
        contents = {raw(replica) for replica in nodes.replicas.values()}
        assert len(contents) == 1, "followers write the leader's bytes"

    simulated(tmp_path, scenario)


def test_without_enough_replicas_acks_all_times_out_then_is_refused(tmp_path: Path) -> None:
    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start(min_insync_replicas="3")
        await nodes.until(lambda: nodes.is_in_sync(3))
        lost = nodes.follower_ids[0]
        nodes.cluster.nodes[lost].pause()
        assert await nodes.produce(timeout_ms=300) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        high_watermark = nodes.leader.high_watermark
        await nodes.until(lambda: nodes.is_in_sync(2))
        assert await nodes.produce() == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        assert await nodes.produce(acks=1) == (ErrorCode.NONE, 1)
        await asyncio.sleep(1)
        assert nodes.leader.high_watermark == high_watermark, "KIP-966"
        nodes.cluster.nodes[lost].resume()
        await nodes.until(lambda: nodes.is_in_sync(3))
        assert await nodes.produce() == (ErrorCode.NONE, 2)
        assert nodes.leader.high_watermark == 3, "what had timed out is committed with it"

    simulated(tmp_path, scenario)


def test_a_leader_that_stood_still_takes_nobody_for_lagging(tmp_path: Path) -> None:
    """The leader processes fetches that arrived meanwhile before it decides which replicas lag."""

    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start()
        await nodes.until(lambda: nodes.is_in_sync(3))
        assert nodes.leader_id is not None
        node = nodes.cluster.nodes[nodes.leader_id]
        for _ in range(5):
            await asyncio.gather(*(nodes.produce(acks=1) for _ in range(5)))
            node.pause()
            await asyncio.sleep(1.0)
            node.resume()
            await asyncio.sleep(0.2)
        assert node.broker is not None
        assert node.broker.replication.alter_partition.stats.shrinks == 0

    simulated(tmp_path, scenario, replica_lag_time_max_ms="400")


def test_what_waits_when_another_node_begins_to_lead_is_sent_there(tmp_path: Path) -> None:
    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start(min_insync_replicas="1")
        await nodes.until(lambda: nodes.is_in_sync(3))
        old = nodes.leader
        first, second = nodes.follower_ids
        # The record waits for an unreachable follower; meanwhile the leader shuts down.
        nodes.cluster.nodes[first].pause()
        waiting = asyncio.ensure_future(nodes.produce(timeout_ms=60_000))
        await asyncio.sleep(0.1)
        assert old.log.log_end_offset == 1
        assert old.high_watermark == 0
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=2_000,
            topics=[
                AlterPartitionReassignmentsRequest.ReassignableTopic(
                    name=TOPIC,
                    partitions=[
                        AlterPartitionReassignmentsRequest.ReassignablePartition(
                            partition_index=0, replicas=[second]
                        )
                    ],
                )
            ],
        )
        response = await nodes.client.ask(address(second), request, AlterPartitionReassignmentsResponse)
        assert response.error_code == 0
        assert await waiting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        await nodes.until(lambda: list(nodes.replicas) == [second] or first in nodes.replicas)
        assert nodes.leader_id == second
        assert nodes.leader.high_watermark == 1

    simulated(tmp_path, scenario)


def test_deleted_records_are_deleted_on_all_live_replicas(tmp_path: Path) -> None:
    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start()
        await nodes.until(lambda: nodes.is_in_sync(3))
        for _ in range(10):
            await nodes.produce()
        assert await nodes.delete_records(4, 5_000) == (ErrorCode.NONE, 4)
        assert {replica.log.log_start_offset for replica in nodes.replicas.values()} == {4}
        slow = nodes.cluster.nodes[nodes.follower_ids[0]]
        slow.pause()
        assert await nodes.delete_records(6, 300) == (ErrorCode.REQUEST_TIMED_OUT, 4)
        assert await nodes.delete_records(8, 30_000) == (ErrorCode.NONE, 8), "the dead do not count"
        slow.resume()
        await nodes.until(lambda: {r.log.log_start_offset for r in nodes.replicas.values()} == {8})

    simulated(tmp_path, scenario)


def test_with_fsync_what_acks_all_acknowledged_survives_the_loss_of_all_machines(tmp_path: Path) -> None:
    """Followers report only offsets that are on their disks (`penstock.acks.fsync`)."""

    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start(min_insync_replicas="3")
        await nodes.until(lambda: nodes.is_in_sync(3))
        acknowledged = [value for value in range(30) if (await nodes.produce(b"%d" % value))[0] == 0]
        assert len(acknowledged) == 30
        for node in nodes.cluster.nodes.values():
            node.cut_power()
        for node in nodes.cluster.nodes.values():
            node.start()
        await nodes.until(lambda: len(nodes.replicas) == 3)
        ends = {node_id: replica.log.log_end_offset for node_id, replica in nodes.replicas.items()}
        assert ends == {1: 30, 2: 30, 3: 30}

    simulated(tmp_path, scenario, penstock_acks_fsync="true")


def test_consumers_are_sent_to_a_replica_in_their_rack(tmp_path: Path) -> None:
    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start()
        await nodes.until(lambda: nodes.is_in_sync(3))
        for _ in range(3):
            await nodes.produce()
        follower_id = nodes.follower_ids[0]
        assert nodes.leader_id is not None
        sent = await nodes.fetch(nodes.leader_id, 0, rack_of(follower_id))
        assert (sent.preferred_read_replica, len(sent.records or b"")) == (follower_id, 0)
        near = await nodes.fetch(nodes.leader_id, 0, rack_of(nodes.leader_id))
        assert (near.preferred_read_replica, len(near.records or b"") > 0) == (-1, True)
        await nodes.until(lambda: nodes.replicas[follower_id].high_watermark == 3, 2)
        read = await nodes.fetch(follower_id, 0, rack_of(follower_id))
        assert (read.error_code, read.high_watermark) == (0, 3)
        assert bytes(read.records or b"") == raw(nodes.replicas[follower_id])

    simulated(tmp_path, scenario, replica_selector_class=RACK_AWARE)


def test_a_partition_moves_under_a_throttle_and_its_old_replica_goes(tmp_path: Path) -> None:
    rate, size_bytes = 20_000, 200_000

    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start(replicas=1)
        old_id = nodes.leader_id
        assert old_id is not None
        new_id = next(node_id for node_id in nodes.cluster.nodes if node_id != old_id)
        for _ in range(size_bytes // 2_000):
            await nodes.produce(b"x" * 1_930)
        await nodes.configure(TOPICS, TOPIC, leader_replication_throttled_replicas=f"0:{old_id}")
        await nodes.configure(TOPICS, TOPIC, follower_replication_throttled_replicas=f"0:{new_id}")
        for node_id in (old_id, new_id):
            await nodes.configure(
                BROKER,
                str(node_id),
                leader_replication_throttled_rate=str(rate),
                follower_replication_throttled_rate=str(rate),
            )
        started_s = nodes.loop.now_s
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(
            name=TOPIC,
            partitions=[
                AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[new_id])
            ],
        )
        request = AlterPartitionReassignmentsRequest(timeout_ms=2_000, topics=[topic])
        await nodes.client.ask(address(1), request, AlterPartitionReassignmentsResponse)
        await nodes.until(lambda: list(nodes.replicas) == [new_id], 60)
        took_s = nodes.loop.now_s - started_s
        assert size_bytes / rate * 0.4 < took_s < size_bytes / rate * 3, took_s
        assert nodes.leader.high_watermark == nodes.leader.log.log_end_offset == size_bytes // 2_000
        old = nodes.cluster.nodes[old_id].broker
        assert old is not None
        assert old.logs.get(TOPIC, 0) is None

    simulated(tmp_path, scenario, replica_fetch_max_bytes="10000")


def test_a_new_leader_says_when_it_does_not_know_what_is_committed(tmp_path: Path) -> None:
    """KIP-207: the end is unknown between the leader's election and its followers' first fetches."""

    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start()
        await nodes.until(lambda: nodes.is_in_sync(3))
        old_id = nodes.leader_id
        assert old_id is not None
        answers: set[int] = set()
        for _ in range(20):
            with suppress(NoAnswer):
                await nodes.produce(acks=1)
        nodes.cluster.nodes[old_id].kill()

        def ask() -> bool:
            leader_id = nodes.leader_id
            if leader_id is None or leader_id == old_id:
                return False
            broker = nodes.cluster.nodes[leader_id].broker
            assert broker is not None
            wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
            asked = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[wanted])
            for replica_id in (-1, 9):
                request = ListOffsetsRequest(replica_id=replica_id, topics=[asked])
                answer = list_offsets._known_offset(broker, request, TOPIC, wanted, 11)
                known = nodes.leader.high_watermark >= nodes.leader.replicated.leading.epoch_start_offset  # type: ignore[union-attr]
                expected = ErrorCode.NONE if known or replica_id == 9 else ErrorCode.OFFSET_NOT_AVAILABLE
                assert answer.error_code == expected
                answers.add(answer.error_code)
            return answers == {0, ErrorCode.OFFSET_NOT_AVAILABLE} and known

        for _ in range(20_000):
            if ask():
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"no election in time, or one that knew all at once: {answers}")

    simulated(tmp_path, scenario)


def test_partitions_are_dealt_out_among_fetchers_whose_number_can_change(tmp_path: Path) -> None:
    def fetchers(nodes: ThreeNodes, node_id: int) -> set[tuple[int, int]]:
        broker = nodes.cluster.nodes[node_id].broker
        assert broker is not None
        return {(fetcher.leader_id, fetcher.number) for fetcher in broker.replication.fetchers}

    async def scenario(nodes: ThreeNodes) -> None:
        await nodes.start(min_insync_replicas="3")
        leader_id, follower_id = nodes.leader_id, nodes.follower_ids[0]
        assert leader_id is not None
        topic = CreateTopicsRequest.CreatableTopic(name="more", num_partitions=-1, replication_factor=-1)
        topic.assignments = [
            CreateTopicsRequest.CreatableReplicaAssignment(
                partition_index=partition, broker_ids=[leader_id, follower_id]
            )
            for partition in range(8)
        ]
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        response = await nodes.client.ask(address(1), request, CreateTopicsResponse, 20_000)
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        await nodes.until(lambda: len(fetchers(nodes, follower_id)) == 2)
        for count in (2, 4, 2, 1):
            await nodes.configure(BROKER, str(follower_id), num_replica_fetchers=str(count))
            wanted = {(leader_id, number) for number in range(count)}
            await nodes.until(lambda wanted=wanted: fetchers(nodes, follower_id) == wanted)  # type: ignore[misc]
            assert (await nodes.produce())[0] is ErrorCode.NONE, "acks=all with all three in sync"
        assert nodes.is_in_sync(3)

    simulated(tmp_path, scenario, num_replica_fetchers="2")


@pytest.mark.parametrize(
    ("topic", "partition", "of_two", "of_five"),
    [
        ("flights", 0, 1, 2),
        ("flights", 49, 0, 1),
        ("", 7, 1, 2),
        ("polygenelubricants", 0, 0, 0),
        ("polygenelubricants", 7, 1, 1),
        ("__consumer_offsets", 0, 1, 2),
        ("größe", 0, 1, 4),
    ],
)
def test_a_partition_belongs_to_the_fetcher_that_kafka_gives_it(
    topic: str, partition: int, of_two: int, of_five: int
) -> None:
    assert fetcher_number(topic, partition, 1) == 0
    assert fetcher_number(topic, partition, 2) == of_two
    assert fetcher_number(topic, partition, 5) == of_five
