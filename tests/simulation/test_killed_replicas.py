"""The cost of a kill, unlike a power cut: nothing is lost if the machine keeps running (KIP-966)."""

from __future__ import annotations

import gc
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from penstock.broker.node import Broker
from penstock.broker.partitions.replica import Replica
from penstock.metadata.configs import BrokerConfig
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ProduceRequest,
    ProduceResponse,
)
from penstock.protocol.records import Record, decode_batches, encode_batch
from penstock.testing.simulator.clients.client import Address, Client
from penstock.testing.simulator.cluster import SimulatedCluster
from penstock.testing.simulator.layout import CLIENT_PORT, Layout, host_of
from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.scenario import Scenario

TOPIC = "flights"
VALUES = [b"%d" % number for number in range(20)]
FLIPPED = 0x10
REGISTERED = re.compile(r"broker registered broker_id=(\d) epoch=\d+ previous_epoch=(-?\d+)")


class Cluster:
    """Three nodes; `trust` sets `penstock.trust.page.cache`."""

    def __init__(self, loop: VirtualLoop, directory: Path, *, trust: bool) -> None:
        layout = Layout((1, 2, 3), (1, 2, 3))
        scenario = replace(Scenario.of(Random(1)), layout=layout, segment_bytes=1_000_000, log_directories=1)
        self.simulated = SimulatedCluster(loop, directory, scenario, Random(1))
        self.machines = self.simulated.nodes
        for machine in self.machines.values():
            added = {"penstock.trust.page.cache": str(trust).lower()}
            machine.config = BrokerConfig.from_properties({**machine.config.static, **added})
        self._client = Client(self.simulated.settings, "client", Random(2))

    async def start(self) -> None:
        """Start all nodes."""
        for machine in self.machines.values():
            machine.start()
        await self.simulated.until("all are up", lambda: len(self.simulated.up) == 3, 60)

    async def fill(self) -> None:
        """Create a topic with acknowledged records, none of which is synced."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=TOPIC,
            num_partitions=1,
            replication_factor=3,
            configs=[CreateTopicsRequest.CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        created = await self._client.ask(self._address(1), request, CreateTopicsResponse, 20_000)
        assert created.topics[0].error_code == 0, created.topics[0].error_message
        await self.simulated.until("all are in sync", self.is_in_sync, 60)
        for value in VALUES:
            records = encode_batch([Record(0, 1_700_000_000_000, None, value)])
            data = ProduceRequest.PartitionProduceData(index=0, records=records)
            produced = ProduceRequest.TopicProduceData(
                topic_id=created.topics[0].topic_id, partition_data=[data]
            )
            request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[produced])
            answer = await self._client.ask(self._address(self.leader_id), request, ProduceResponse, 10_000)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    async def delete_before(self, offset: int) -> None:
        """Delete the records before this offset on all live replicas."""
        partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
        answer = await self._client.ask(self._address(self.leader_id), request, DeleteRecordsResponse, 20_000)
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, offset)

    @staticmethod
    def _address(node_id: int) -> Address:
        return Address(node_id, host_of(node_id), CLIENT_PORT)

    @property
    def brokers(self) -> dict[int, Broker]:
        """The brokers of the nodes that are up, by node id."""
        up = {node_id: machine.broker for node_id, machine in self.machines.items() if machine.is_up}
        return {node_id: broker for node_id, broker in up.items() if broker is not None}

    @property
    def replicas(self) -> dict[int, Replica]:
        found = {node_id: broker.replicas.get(TOPIC, 0) for node_id, broker in self.brokers.items()}
        return {node_id: replica for node_id, replica in found.items() if replica is not None}

    @property
    def leader(self) -> Replica | None:
        leading = [replica for replica in self.replicas.values() if replica.is_leader]
        return max(leading, key=lambda replica: replica.leader_epoch, default=None)

    @property
    def leader_id(self) -> int:
        return next(node_id for node_id, replica in self.replicas.items() if replica is self.leader)

    def is_in_sync(self) -> bool:
        leader = self.leader
        if leader is None or leader.replicated is None or leader.replicated.leading is None:
            return False
        return len(leader.replicated.leading.isr) == 3

    def log_file(self, node_id: int) -> Path:
        return self.replicas[node_id].log.segments.active.file.path

    def values(self) -> list[bytes]:
        """The values in the leader's log."""
        assert self.leader is not None
        log = self.leader.log
        data = log.segments.active.file.pread(log.segments.active.size, 0)
        return [bytes(record.value or b"") for record in decode_batches(data)]


def run(tmp_path: Path, scenario: Callable[[Cluster], Awaitable[None]], *, trust: bool = True) -> None:
    """Start a cluster with records, run the scenario, and start all nodes that are down."""
    loop = VirtualLoop(Random(3))
    gc.disable()  # finalizers of a dead node's objects must not run
    try:
        with loop.stopped_stopwatches():
            cluster = Cluster(loop, tmp_path, trust=trust)

            async def told() -> None:
                await cluster.start()
                await cluster.fill()
                await scenario(cluster)
                cluster.simulated.check()

            loop.run_until_complete(told())
    finally:
        loop.abandon()
        loop.close()
        gc.enable()


async def lose_all(cluster: Cluster) -> None:
    """Cut the leader's power and kill the others, all at one moment; then start all of them again.

    The controller notices the killed nodes first, so the leader is the last in-sync replica that it knows.
    """
    leader_id, log_file = cluster.leader_id, cluster.log_file(cluster.leader_id)
    content = log_file.read_bytes()
    killed = [machine for node_id, machine in cluster.machines.items() if node_id != leader_id]
    cluster.machines[leader_id].cut_power()
    for machine in killed:
        machine.kill()
    assert log_file.read_bytes() != content, "nothing was lost: another seed, please"
    for machine in killed:
        machine.start()

    def are_registered() -> bool:
        return all(machine.broker is not None and machine.broker.lifecycle.epoch >= 0 for machine in killed)

    await cluster.simulated.until("those that were killed are registered", are_registered, 60)
    cluster.machines[leader_id].start()
    await cluster.simulated.until("somebody leads", lambda: cluster.leader is not None, 60)
    await cluster.simulated.until("all are in sync", cluster.is_in_sync, 60)


def test_power_fails_at_the_leader_the_others_are_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await lose_all(cluster)
        assert cluster.values() == VALUES

    run(tmp_path, scenario)


def test_records_are_lost_then_where_a_kill_counts_as_a_loss(tmp_path: Path) -> None:
    """No replica is eligible, as in Apache Kafka, and the last leader returns with the records it has."""

    async def scenario(cluster: Cluster) -> None:
        await lose_all(cluster)
        assert cluster.values() != VALUES

    run(tmp_path, scenario, trust=False)


def test_a_log_that_is_damaged_is_no_eligible_one_though_its_process_was_only_killed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One of two killed replicas finds an acknowledged record damaged, so the other one leads."""

    caplog.set_level("INFO")

    async def scenario(cluster: Cluster) -> None:
        leader_id = cluster.leader_id
        damaged, sound = (node_id for node_id in cluster.machines if node_id != leader_id)
        log_file = cluster.log_file(damaged)
        epochs = {node_id: broker.lifecycle.epoch for node_id, broker in cluster.brokers.items()}
        caplog.clear()
        for node_id in (damaged, sound):
            cluster.machines[node_id].kill()
        cluster.machines[damaged].files.damage(log_file, log_file.stat().st_size - 1, FLIPPED)
        for node_id in (damaged, sound):
            cluster.machines[node_id].start()
        await cluster.simulated.until("all are up", lambda: len(cluster.simulated.up) == 3, 60)
        told = dict(REGISTERED.findall(caplog.text))
        assert told == {str(damaged): "-1", str(sound): str(epochs[sound])}
        await cluster.simulated.until("all are in sync", cluster.is_in_sync, 60)
        assert cluster.values() == VALUES

    run(tmp_path, scenario)


def test_records_that_were_deleted_stay_so_when_all_are_killed_and_a_follower_leads(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first_id = cluster.leader_id
        await cluster.delete_before(10)
        for machine in cluster.machines.values():
            machine.kill()
        for node_id, machine in cluster.machines.items():
            if node_id != first_id:
                machine.start()
        await cluster.simulated.until("a follower leads", lambda: cluster.leader is not None, 60)
        assert cluster.leader_id != first_id
        assert cluster.leader is not None
        assert cluster.leader.log.log_start_offset == 10

    run(tmp_path, scenario)
