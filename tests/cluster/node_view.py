"""A node's answers to all requests about its data, so that two nodes can be compared.

It leaves out values that may differ between two nodes on the same directory: addresses, and leader epochs,
which increase with every start.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, is_dataclass
from typing import TypeVar

from broker_wire import Wire, fetch_request
from penstock.protocol import batch
from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, decode_batches

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
READ_COMMITTED = 1
TOPIC, BROKER = 2, 4
DYNAMIC_SOURCES = {1, 2, 3}  # a topic's own, a broker's own, all brokers' (DescribeConfigs' ConfigSource)
LOADING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
LOADING_TIMEOUT_S = 60

M = TypeVar("M", bound=Message)


@dataclass
class PartitionView:
    leader: int
    replicas: list[int]
    isr: list[int]
    offsets: dict[int, tuple[int, int, int]]
    """The timestamp, offset and leader epoch for each requested timestamp, special ones included."""
    batches: bytes
    """The complete batches that a `read_committed` consumer gets, unchanged, with offsets and checksums."""
    last_stable_offset: int
    aborted: set[tuple[int, int]]
    """The aborted transactions: producer id and first offset."""
    producers: set[tuple[int, ...]]
    """For each producer: id, epoch, last sequence and timestamp, coordinator epoch, transaction start."""

    @property
    def records(self) -> list[Record]:
        return list(decode_batches(self.batches))


@dataclass
class TopicView:
    topic_id: bytes
    configs: dict[str, str | None]
    partitions: dict[int, PartitionView] = field(default_factory=dict)


@dataclass
class NodeView:
    cluster_id: str | None
    topics: dict[str, TopicView]
    broker_configs: dict[str, dict[str, str | None]]
    """The configs of broker 1, and under "" those of all brokers."""
    committed: dict[str, dict[tuple[str, int], tuple[int, int, str | None]]]
    """The offset, leader epoch and metadata by group and partition."""
    groups: dict[str, str]
    """The states of groups."""
    transactions: dict[str, tuple[object, ...]]
    """The state, producer id and epoch, timeout, start and partitions by transactional id."""


def differences(found: object, before: object, where: str = "") -> list[str]:
    """Short descriptions of the places in which two views differ."""
    if is_dataclass(before) and type(found) is type(before):
        found, before = vars(found), vars(before)
    if isinstance(found, dict) and isinstance(before, dict):
        return [
            line
            for key in sorted(found.keys() | before.keys(), key=str)
            for line in differences(found.get(key, "nothing"), before.get(key, "nothing"), f"{where}/{key}")
        ]
    return [] if found == before else [f"{where}: {found!r:.200} and not {before!r:.200}"]


def view_of(bootstrap: str, timestamps: Iterable[int] = (), groups: Iterable[str] = ()) -> NodeView:
    """Query all data of a node except the content of internal topics, and the offsets of `timestamps`."""
    with Wire(bootstrap) as wire:
        metadata = wire.ask(m.MetadataRequest(topics=None), m.MetadataResponse, 12)
        names = [topic.name or "" for topic in metadata.topics]
        configs = _dynamic_configs(wire, [(TOPIC, name) for name in names] + [(BROKER, "1"), (BROKER, "")])
        view = NodeView(
            cluster_id=metadata.cluster_id,
            topics={},
            broker_configs={name: configs[BROKER, name] for name in ("1", "")},
            committed={group: _committed(wire, group) for group in groups},
            groups=_groups(wire),
            transactions=_transactions(wire),
        )
        for topic in metadata.topics:
            name = topic.name or ""
            seen = view.topics[name] = TopicView(topic.topic_id, configs[TOPIC, name])
            for partition in topic.partitions:
                if not topic.is_internal:
                    seen.partitions[partition.partition_index] = _partition(wire, name, partition, timestamps)
        return view


def _partition(
    wire: Wire,
    topic: str,
    partition: m.MetadataResponse.MetadataResponsePartition,
    timestamps: Iterable[int],
) -> PartitionView:
    assert partition.error_code == 0, (topic, ErrorCode(partition.error_code))
    index = partition.partition_index
    asked = [EARLIEST, LATEST]
    if _offset(wire, topic, index, EARLIEST)[1] == 0:
        # Kafka searches deleted records too, as long as retention has not removed their segments
        asked += (MAX_TIMESTAMP, *timestamps)
    offsets = {timestamp: _offset(wire, topic, index, timestamp) for timestamp in asked}
    view = PartitionView(
        leader=partition.leader_id,
        replicas=partition.replica_nodes,
        isr=partition.isr_nodes,
        offsets=offsets,
        batches=b"",
        last_stable_offset=-1,
        aborted=set(),
        producers=_producers(wire, topic, index),
    )
    _read(wire, topic, index, view)
    return view


def _offset(wire: Wire, topic: str, partition: int, timestamp: int) -> tuple[int, int, int]:
    asked = m.ListOffsetsRequest.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=timestamp
    )
    request = m.ListOffsetsRequest(
        replica_id=-1, topics=[m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
    )
    found = wire.ask(request, m.ListOffsetsResponse, 7).topics[0].partitions[0]
    assert found.error_code == 0, (topic, partition, ErrorCode(found.error_code))
    # the end of a log, which may be its start as well, is in the epoch of this run
    epoch = -1 if timestamp in (EARLIEST, LATEST) else found.leader_epoch
    return found.timestamp, found.offset, epoch


def _read(wire: Wire, topic: str, partition: int, view: PartitionView) -> None:
    offset = view.offsets[EARLIEST][1]
    while True:
        request = fetch_request(topic, {partition: offset}, isolation_level=READ_COMMITTED)
        data = wire.ask(request, m.FetchResponse, 12).responses[0].partitions[0]
        assert data.error_code == 0, (topic, partition, ErrorCode(data.error_code))
        view.last_stable_offset = data.last_stable_offset
        view.aborted |= {(t.producer_id, t.first_offset) for t in data.aborted_transactions or ()}
        records = bytes(data.records or b"")
        headers = list(batch.iter_headers(records))
        if not headers:
            return
        position, last = headers[-1]
        view.batches += records[: position + last.size_bytes]  # Kafka may send a piece of a batch at the end
        offset = last.next_offset


def _producers(wire: Wire, topic: str, partition: int) -> set[tuple[int, ...]]:
    asked = m.DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    request = m.DescribeProducersRequest(topics=[asked])
    found = wire.ask(request, m.DescribeProducersResponse, 0).topics[0].partitions[0]
    assert found.error_code == 0, (topic, partition, ErrorCode(found.error_code))
    return {
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
        )
        for producer in found.active_producers
    }


def _transactions(wire: Wire) -> dict[str, tuple[object, ...]]:
    """The transactions, once the coordinators have loaded them."""
    deadline = time.monotonic() + LOADING_TIMEOUT_S
    while True:
        listed = wire.ask(m.ListTransactionsRequest(), m.ListTransactionsResponse, 1)
        if listed.error_code not in LOADING:
            break
        assert time.monotonic() < deadline, "the coordinators do not load transactions"
        time.sleep(0.05)
    assert listed.error_code == 0, ErrorCode(listed.error_code)
    names = [state.transactional_id for state in listed.transaction_states]
    request = m.DescribeTransactionsRequest(transactional_ids=names)
    described = wire.ask(request, m.DescribeTransactionsResponse, 0).transaction_states
    return {
        state.transactional_id: (
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            sorted((topic.topic, tuple(sorted(topic.partitions))) for topic in state.topics),
        )
        for state in described
    }


def _dynamic_configs(
    wire: Wire, resources: list[tuple[int, str]]
) -> dict[tuple[int, str], dict[str, str | None]]:
    request = m.DescribeConfigsRequest(
        resources=[
            m.DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for kind, name in resources
        ]
    )
    results = wire.ask(request, m.DescribeConfigsResponse, 4).results
    assert all(result.error_code == 0 for result in results)
    return {
        (result.resource_type, result.resource_name): {
            config.name: config.value for config in result.configs if config.config_source in DYNAMIC_SOURCES
        }
        for result in results
    }


def _groups(wire: Wire) -> dict[str, str]:
    listed = wire.ask(m.ListGroupsRequest(), m.ListGroupsResponse, 4)
    assert listed.error_code == 0, ErrorCode(listed.error_code)
    return {group.group_id: group.group_state for group in listed.groups}


def _committed(wire: Wire, group: str) -> dict[tuple[str, int], tuple[int, int, str | None]]:
    """The committed offsets, once the coordinator has loaded the group."""
    asked = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    request = m.OffsetFetchRequest(groups=[asked])
    deadline = time.monotonic() + LOADING_TIMEOUT_S
    while True:
        (found,) = wire.ask(request, m.OffsetFetchResponse, 9).groups
        if found.error_code not in LOADING:
            break
        assert time.monotonic() < deadline, f"the coordinator does not load {group}"
        time.sleep(0.05)
    assert found.error_code == 0, ErrorCode(found.error_code)
    return {
        (topic.name, partition.partition_index): (
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata,
        )
        for topic in found.topics
        for partition in topic.partitions
    }
