"""The times of tasks as metadata of a group."""

from __future__ import annotations

import base64
import uuid

import pytest

from penstock.client.admin.topics import NewTopic, create_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import NO_OFFSET, CommittedOffset, ConsumerGroup
from penstock.spark.streams.state.times import (
    DamagedTimes,
    from_metadata,
    restore_times,
    times_block,
    to_metadata,
)
from penstock.testing import Cluster as Nodes
from penstock.topology.stores.ordered_bytes import OrderedBytes


def times_of(**ms: int) -> OrderedBytes:
    found = OrderedBytes()
    for name, at_ms in ms.items():
        found.put(name.encode(), b"%d" % at_ms)
    return found


def test_they_have_the_bytes_of_kafka_streams() -> None:
    times = times_of(node=1, **{"": 258})
    head = b"\x02" + (258).to_bytes(8, "big")
    one = (1).to_bytes(4, "big") + (4).to_bytes(4, "big") + b"node" + (1).to_bytes(8, "big")
    assert base64.b64decode(to_metadata(times)) == head + one
    assert base64.b64decode(to_metadata(times_of(**{"": 258}))) == head


@pytest.mark.parametrize("ms", [{}, {"": 0}, {"": 5, "a": 7}, {"größer": -1, "b": 2**62}])
def test_they_come_back(ms: dict[str, int]) -> None:
    times, found = times_of(**ms), OrderedBytes()
    restore_times(times_block("app", TopicPartition("t", 0), to_metadata(times), 0), found)
    assert dict(found.data) == dict(times.data)


TORN = base64.b64encode(b"\x02" + bytes(10)).decode()


@pytest.mark.parametrize("metadata", ["", "x", "exactly-once", TORN])
def test_what_is_not_theirs_is_told(metadata: str) -> None:
    with pytest.raises(DamagedTimes, match="expected the times of a task"):
        from_metadata(metadata)


def test_a_later_version_is_told() -> None:
    with pytest.raises(DamagedTimes, match="version 3, expected 2"):
        from_metadata(base64.b64encode(b"\x03" + bytes(8)).decode())


def test_a_note_in_a_group_is_no_offset(penstock_cluster: Nodes) -> None:
    name = f"notes-{uuid.uuid4().hex[:8]}"
    noted, read = TopicPartition(name, 0), TopicPartition(name, 1)
    config = ClientConfig.from_properties({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    with Cluster(config) as cluster:
        create_topics(cluster, [NewTopic(name, 2)])
        group = ConsumerGroup(cluster, name)
        offsets = {noted: CommittedOffset(NO_OFFSET, metadata="a note"), read: CommittedOffset(7)}
        cluster.retry(lambda: group.commit(offsets))
        assert group.committed([noted, read]) == {read: CommittedOffset(7)}
        assert group.all_committed().keys() == {read}
        assert group.notes([noted, read]) == {noted: "a note"}
