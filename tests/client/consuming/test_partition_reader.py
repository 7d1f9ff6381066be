"""Readers of partitions and brokers that answer what the test chooses."""

import os
from collections import deque
from typing import Any, cast

import pytest

from penstock.client.config import ClientConfig, ServerAddress
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import (
    NO_LEADER,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)
from penstock.client.consuming.partition_reader import PartitionReader
from penstock.client.errors import OffsetOutOfRange, ProtocolViolation, ServerError
from penstock.client.reading.fetcher import FetchConfig
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.protocol.records import Record, encode_batch

TOPIC_ID = b"t" * 16


class Broker:
    """A connection to a broker that answers each fetch with the same batch, at once."""

    overdue = False
    has_decrypted = True

    def __init__(self, batch: bytes) -> None:
        self._batch = batch
        self._fetches: deque[FetchRequest] = deque()
        self._files = os.pipe()

    def fileno(self) -> int:
        return self._files[0]

    def send(self, request: FetchRequest) -> None:
        self._fetches.append(request)

    def receive(self, response_type: type[FetchResponse]) -> FetchResponse:
        [topic] = self._fetches.popleft().topics
        answers = [
            FetchResponse.PartitionData(
                partition_index=each.partition, high_watermark=1, records=memoryview(self._batch)
            )
            for each in topic.partitions
        ]
        return FetchResponse(
            responses=[FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=answers)]
        )

    def close(self) -> None: ...


class Brokers(Cluster):
    """A cluster with one topic, whose partitions have these leaders."""

    def __init__(self, leaders: dict[int, int], batch: bytes) -> None:
        super().__init__(ClientConfig.from_properties({"bootstrap.servers": "unused:1"}))
        self.lookups = 0
        partitions = {number: PartitionMetadata(leader, 0) for number, leader in leaders.items()}
        topic = TopicMetadata("t", TOPIC_ID, False, partitions)
        nodes = {leader: ServerAddress("unused", 1) for leader in leaders.values()}
        self.metadata = ClusterMetadata("c", nodes, {"t": topic})
        self._batch = batch

    def refresh(self, topics: Any = None, *, create: bool = False) -> ClusterMetadata:
        self.lookups += 1
        return self.metadata

    def open_connection(self, node_id: int) -> Connection:
        return cast(Connection, Broker(self._batch))


def no_reset(error: OffsetOutOfRange) -> int:
    raise error


def batch() -> bytearray:
    return bytearray(encode_batch([Record(0, 0, None, b"v", [])]))


def test_a_checksum_that_fails_is_an_error_unless_it_is_not_checked() -> None:
    damaged = batch()
    damaged[-2] ^= 1
    for check_crcs in (True, False):
        reader = PartitionReader(Brokers({0: 1}, damaged), FetchConfig(check_crcs=check_crcs), no_reset)
        reader.assign({TopicPartition("t", 0): 0})
        if check_crcs:
            with pytest.raises(ProtocolViolation, match="checksum of the batch at offset 0 of t-0"):
                reader.wait(1)
        else:
            reader.wait(1)
            assert [record.value for record in reader.take(5)] == [b"w"]
        reader.close()


def test_partitions_without_a_leader_do_not_stop_the_others() -> None:
    cluster = Brokers({0: NO_LEADER, 1: 1}, batch())
    reader = PartitionReader(cluster, FetchConfig(), no_reset)
    reader.assign({TopicPartition("t", number): 0 for number in range(3)})  # the last does not exist
    reader.wait(1)
    assert [record.partition for record in reader.take(5)] == [1]
    assert reader.take_missed()
    looked_up = cluster.lookups
    for _ in range(20):
        reader.ask()
    assert cluster.lookups <= looked_up + 2, "the cluster is asked for leaders again only after a wait"
    reader.close()


def test_if_no_partition_has_a_leader_the_reason_is_raised() -> None:
    reader = PartitionReader(Brokers({0: NO_LEADER}, batch()), FetchConfig(), no_reset)
    reader.assign({TopicPartition("t", 0): 0})
    with pytest.raises(ServerError, match="LEADER_NOT_AVAILABLE"):
        reader.wait(1)
    reader.close()
