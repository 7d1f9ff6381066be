"""Penstock and Apache Kafka take turns on one data directory.

Each node continues with the other's data, after a clean stop and after `kill -9`, and serves all of it:
batches byte for byte, offsets by timestamp, topic ids, configs, groups, producers. Neither may complain of a
file that the other wrote.
"""

import re
from pathlib import Path
from typing import Protocol

import pytest
from node_story import GROUPS, TIMESTAMPS, Story
from node_view import differences, view_of

from kafka_node import KafkaNode
from penstock.testing import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

USUAL = (  # warnings that Kafka logs with any directory
    "Overriding internal.metadata.log.segment.bytes is only supported for testing",
    "Performing controller activation",
    "Auto topic creation failed for __consumer_offsets",  # two clients asked for it at once
    "to exist, but it was missing. Creating",  # a partition added to a topic
    ":idempotent-0",  # the gap in sequence numbers that the story tries
    "Attempting to close NetworkClient that has already been closed",  # at every stop
    "heartbeat",  # late, on a busy machine
    "apiKey=CONTROLLER_REGISTRATION",  # asked before it is active, and Kafka logs every exception as an error
    "the partition is not online or is no longer the leader",  # stopped while groups were loaded
)
TORN = "codecs-2"  # the partition whose last write a kill interrupts
NEXT_OFFSET = 1_000_000  # must be higher than any earlier one
# A killed node's session must time out before a Kafka controller registers its successor.
SHORT_SESSION = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "1000"}
# Metadata is then in a snapshot and the log after it, whose start has been deleted.
SMALL_METADATA_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "1",
    "internal.metadata.log.segment.bytes": "4000",
    "internal.metadata.delete.delay.millis": "0",
}


class Node(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...
    def start(self) -> object: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


class Directory:
    """A data directory and the two nodes that open it in turn; `end` is "stop" or "kill"."""

    def __init__(self, libs: Path, root: Path, end: str, *, dynamic_quorum: bool = False) -> None:
        config = {**SHORT_SESSION, **SMALL_METADATA_LOG}
        self.kafka = KafkaNode(libs, root, dynamic_quorum=dynamic_quorum, config=config)
        # Fewer partitions than Kafka creates: the existing number counts.
        transactions = {"transaction.state.log.num.partitions": "3"}
        self.penstock = Cluster({**SMALL_METADATA_LOG, **transactions}, data_dir=self.kafka.data_dir)
        self.ends_cleanly = end == "stop"
        self._end = end

    def end(self, node: Node) -> None:
        """Stop or kill the node; a kill leaves a partial batch that was never acknowledged."""
        getattr(node, self._end)()
        if not self.ends_cleanly:
            newest = max((self.kafka.data_dir / TORN).glob("*.log"))
            torn = NEXT_OFFSET.to_bytes(8, "big") + newest.read_bytes()[8:100]
            assert len(torn) == 100
            with newest.open("ab") as segment:
                segment.write(torn)

    def close(self) -> None:
        self.kafka.stop()
        self.penstock.close()

    def complaints(self) -> list[str]:
        kafkas = [line for line in self.kafka.complaints() if not any(usual in line for usual in USUAL)]
        ours = self.penstock.log_file.read_text().splitlines()
        return kafkas + [line for line in ours if re.search(r" (WARNING|ERROR|CRITICAL) ", line)]


@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.long), "kill"])
def test_kafka_takes_over_from_penstock_and_gives_back(kafka_libs: Path, tmp_path: Path, end: str) -> None:
    directory = Directory(kafka_libs, tmp_path, end)
    try:
        take_turns(directory, directory.penstock, directory.kafka)
    finally:
        directory.close()


@pytest.mark.long
@pytest.mark.parametrize(("quorum", "end"), [("dynamic", "stop"), ("static", "kill")])
def test_penstock_takes_over_from_kafka_and_gives_back(
    kafka_libs: Path, tmp_path: Path, quorum: str, end: str
) -> None:
    directory = Directory(kafka_libs, tmp_path, end, dynamic_quorum=quorum == "dynamic")
    try:
        take_turns(directory, directory.kafka, directory.penstock)
    finally:
        directory.close()


def take_turns(directory: Directory, first: Node, second: Node) -> None:
    """Run the nodes in the order first, second, first; each must serve what the previous one served."""
    story = Story(kafkas_own=first is directory.kafka, trims=directory.ends_cleanly)
    first.start()
    story.begin(first.bootstrap_servers)
    before = view_of(first.bootstrap_servers, TIMESTAMPS, GROUPS)
    directory.end(first)
    for node in (second, first):
        node.start()
        assert differences(view_of(node.bootstrap_servers, TIMESTAMPS, GROUPS), before) == []
        story.go_on(node.bootstrap_servers)
        before = view_of(node.bootstrap_servers, TIMESTAMPS, GROUPS)
        directory.end(node)
    torn = [line for line in directory.complaints() if TORN in line]
    assert directory.complaints() == torn
    assert len(torn) == (0 if directory.ends_cleanly else 2), "each finds the torn batch once, and cuts it"
    kafkas_log = directory.kafka.log_file.read_text()
    recovered = set(re.findall(r"Recovering unflushed segment \d+\. \d+ recovered for (\S+)\.", kafkas_log))
    assert recovered == {"__cluster_metadata-0"} or not directory.ends_cleanly
