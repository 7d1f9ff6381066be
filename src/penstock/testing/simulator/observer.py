"""Check the nodes from inside: invariants at any moment, and the final state once the cluster is quiet."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.metadata.snapshot import encode_records
from penstock.protocol.batch import iter_headers
from penstock.protocol.records import (
    ControlRecordType,
    Record,
    control_record_type,
    decode_records,
    records_section,
)
from penstock.storage.names import CLUSTER_METADATA_TOPIC, parse_directory_name
from penstock.storage.partition.partition_metadata import read_topic_id
from penstock.testing.simulator.cluster import SimulatedCluster
from penstock.testing.simulator.history import Partition, Violation
from penstock.testing.simulator.nodes import VirtualNode

if TYPE_CHECKING:
    from penstock.broker.node import Broker
    from penstock.broker.partitions.replica import Replica

IMAGE_EVERY: Final = 8
"""Images are compared at every such offset of the metadata log; each comparison takes a millisecond."""


class Observer:
    """Checks the nodes of a cluster. Call `look` as often as is affordable."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._controllers: dict[int, int] = {}
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._marks: dict[tuple[int, int, bytes, int, int], int] = {}
        self._images: dict[int, tuple[int, int]] = {}
        self.elections = 0

    def look(self) -> None:
        """Check the invariants. Raises Violation."""
        for node in self._cluster.up:
            assert node.broker is not None
            self._one_controller_an_epoch(node, node.broker)
            if node.config.is_broker:
                self._partitions(node, node.broker)
            offset = node.broker.image.offset
            if offset % IMAGE_EVERY == 0:
                self._images_agree(node, node.broker)

    def _one_controller_an_epoch(self, node: VirtualNode, broker: Broker) -> None:
        quorum = broker.quorum
        if quorum.is_leader:
            first = self._controllers.setdefault(quorum.epoch, node.node_id)
            if first != node.node_id:
                raise Violation(
                    f"metadata quorum epoch {quorum.epoch}: nodes {first} and {node.node_id} lead"
                )

    def _partitions(self, node: VirtualNode, broker: Broker) -> None:
        for replica in broker.replicas:
            if not replica.is_leader:
                continue
            epoch = (replica.topic_id, replica.partition, replica.leader_epoch)
            first = self._leaders.setdefault(epoch, node.node_id)
            if first != node.node_id:
                raise Violation(f"{_name(replica)} epoch {epoch[2]}: nodes {first} and {node.node_id} lead")
            place = (node.node_id, node.incarnation, *epoch)
            before = self._marks.get(place, 0)
            if replica.high_watermark < before:
                raise Violation(
                    f"{_name(replica)} epoch {epoch[2]}: the high watermark fell from {before} to "
                    f"{replica.high_watermark} on node {node.node_id}"
                )
            self._marks[place] = replica.high_watermark

    def _images_agree(self, node: VirtualNode, broker: Broker) -> None:
        offset = broker.image.offset
        known = self._images.get(offset)
        if known is not None and known[1] == node.node_id:
            return
        checksum = _image_checksum(broker)
        if known is None:
            self._images[offset] = (checksum, node.node_id)
        elif known[0] != checksum:
            raise Violation(
                f"metadata images of nodes {known[1]} and {node.node_id} differ at offset {offset}"
            )

    # Once all is quiet

    def is_whole(self) -> bool:
        """Whether every node is up and unfenced, and in sync in every partition it has."""
        nodes = list(self._cluster.nodes.values())
        if not all(node.is_up and not node.is_paused for node in nodes):
            return False
        offsets = {node.broker.image.offset for node in nodes if node.broker is not None}
        if len(offsets) != 1:
            return False
        broker = nodes[0].broker
        assert broker is not None
        for registration in broker.image.brokers.values():
            if registration.fenced or registration.in_controlled_shutdown:
                return False
        epochs = {
            node.node_id: node.broker.lifecycle.epoch
            for node in nodes
            if node.broker is not None and node.config.is_broker
        }
        registered = broker.image.brokers
        if any(
            node_id not in registered or registered[node_id].epoch != epoch
            for node_id, epoch in epochs.items()
        ):
            return False
        return all(
            set(partition.isr) == set(partition.replicas) and not partition.adding_replicas
            for topic in broker.image.topics.by_name.values()
            for partition in topic.partitions.values()
        )

    def state_of(self, partition: Partition) -> object:
        """A state that changes if a replica falls out of sync; None unless all are known to be in sync."""
        images = [node.broker.image for node in self._cluster.up if node.broker is not None]
        if len(images) < len(self._cluster.nodes) or len({image.offset for image in images}) != 1:
            return None
        topic = images[0].topics.by_id.get(partition.topic_id)
        found = topic.partitions.get(partition.number) if topic is not None else None
        if found is None or set(found.isr) != set(found.replicas):
            return None
        return found.leader, found.leader_epoch, found.partition_epoch

    def is_settled(self) -> bool:
        """Whether all records in the logs are committed, and every replica knows it."""
        return self.is_whole() and all(
            replica.high_watermark == replica.log.log_end_offset
            for node in self._cluster.up
            if node.broker is not None and node.config.is_broker
            for replica in node.broker.replicas
        )

    def describe(self) -> str:
        """The conditions that `is_settled` waits for, as far as one node knows."""
        found = [f"node {node.node_id} is not up" for node in self._cluster.nodes.values() if not node.is_up]
        for node in self._cluster.up:
            if node.broker is None or not node.config.is_broker:
                continue
            found += [
                f"{_name(replica)} on node {node.node_id} ends at {replica.log.log_end_offset}, "
                f"committed to {replica.high_watermark}"
                for replica in node.broker.replicas
                if replica.high_watermark != replica.log.log_end_offset
            ]
        broker = self._cluster.up[0].broker if self._cluster.up else None
        if broker is not None:
            found += [
                f"{topic.name}-{number} leader={at.leader} epoch={at.leader_epoch} replicas={at.replicas} "
                f"isr={at.isr} elr={at.elr} adding={at.adding_replicas} removing={at.removing_replicas}"
                for topic in broker.image.topics.by_name.values()
                for number, at in topic.partitions.items()
                if set(at.isr) != set(at.replicas) or at.adding_replicas
            ]
            found += [
                f"broker {broker_id} is fenced"
                for broker_id, at in broker.image.brokers.items()
                if at.fenced or at.in_controlled_shutdown
            ]
        return "; ".join(found)

    def wrong_directories(self) -> list[str]:
        """Replicas that are missing or superfluous on disks: each is in one directory of its node."""
        wrong: list[str] = []
        for node in self._cluster.up:
            if node.broker is None or not node.config.is_broker:
                continue
            expected = sorted(
                (f"{topic.name}-{number}", topic.topic_id)
                for topic in node.broker.image.topics.by_name.values()
                for number, partition in topic.partitions.items()
                if node.node_id in partition.replicas
            )
            found = sorted(_replicas_on_disks(node.config.log_dirs))
            if found != expected:
                missing = [name for name, _ in expected if name not in dict(found)]
                surplus = [name for name, _ in found if name not in dict(expected)]
                wrong.append(f"node {node.node_id} lacks {missing} and has too many: {surplus}")
        return wrong

    def check_agreement(self) -> None:
        """Check that all replicas of a partition hold the same bytes and all images agree.

        Raises Violation.
        """
        for node in self._cluster.up:
            assert node.broker is not None
            self._images_agree(node, node.broker)
        replicas: dict[tuple[bytes, int], list[tuple[int, Replica]]] = {}
        for node in self._cluster.up:
            assert node.broker is not None
            for replica in node.broker.replicas:
                replicas.setdefault((replica.topic_id, replica.partition), []).append((node.node_id, replica))
        for copies in replicas.values():
            start = max(replica.log.log_start_offset for _, replica in copies)
            end = min(replica.high_watermark for _, replica in copies)
            first_id, first = copies[0]
            expected = _content(first, start, end)
            for node_id, replica in copies[1:]:
                if _content(replica, start, end) != expected:
                    raise Violation(
                        f"{_name(replica)}: nodes {first_id} and {node_id} differ between {start} and {end}"
                    )


def _name(replica: Replica) -> str:
    return f"{replica.topic}-{replica.partition}"


def _replicas_on_disks(directories: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """The name and topic id of each replica, except those marked as deleted or stray."""
    for directory in directories:
        for path in directory.iterdir():
            parsed = parse_directory_name(path.name) if path.is_dir() else None
            if parsed is None or parsed.mark or parsed.topic_partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            yield path.name, read_topic_id(path) or b""


def _image_checksum(broker: Broker) -> int:
    records = list(broker.image.records())
    return zlib.crc32(encode_records(records, broker.image.metadata_version, 0)) if records else 0


def _content(replica: Replica, start: int, end: int) -> object:
    """The content that replicas share: their bytes, or the last record of each key if they are compacted.

    A log cleaner may remove the records of aborted transactions, so those are left out.
    """
    data = b"".join(_bytes_between(replica, start, end))
    if not replica.config.compacts:
        return data
    latest: dict[bytes | None, Record] = {}
    undecided: dict[int, list[Record]] = {}
    for position, header in iter_headers(data):
        records = list(decode_records(header, records_section(data, header, position)))
        if header.is_control:
            decided = undecided.pop(header.producer_id, [])
            is_commit = control_record_type(records[0].key) is ControlRecordType.COMMIT
            records = decided if is_commit else []
        elif header.is_transactional:
            undecided.setdefault(header.producer_id, []).extend(records)
            continue
        for record in records:
            if record.key not in latest or latest[record.key].offset < record.offset:
                latest[record.key] = record
    return latest


def _bytes_between(replica: Replica, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        found = replica.log.read(start, 1 << 20, min_one_batch=True, up_to_offset=end)
        if found is None:
            return
        data = found.read()
        yield data
        *_, (_, last) = iter_headers(data)
        start = last.base_offset + last.last_offset_delta + 1
