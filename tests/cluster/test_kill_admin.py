"""kill -9 during admin operations and commits: acknowledged ones hold, and none stays half done.

An operation that was pending at the kill may have happened or not. PENSTOCK_SEED repeats a run's choices and
times, PENSTOCK_KILLS sets the number of kills.
"""

import os
import random
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of
from long_run import repetitions
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster

KILLS = repetitions("PENSTOCK_KILLS", gate=3, long=15)
TOPICS_EACH = 4
GROUP = "committers"
TOPIC = 2
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.retention.bytes": "20000",
    "internal.metadata.log.segment.bytes": "8000",
    "log.segment.delete.delay.ms": "100",
}
OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True)
class Topic:
    topic_id: bytes
    partitions: int
    retention_ms: str | None = None
    has_record: bool = False
    """The id of the topic, stored as a record in partition 0; an earlier topic of that name had another."""


@dataclass
class Operator:
    """Changes topics of its own until the connection breaks; `possible` has the states that each may have."""

    prefix: str
    rng: random.Random
    bootstrap: str = ""
    possible: dict[str, set[Topic | None]] = field(default_factory=dict)
    acknowledged: int = 0

    def __post_init__(self) -> None:
        self.possible = {f"{self.prefix}{i}": {None} for i in range(TOPICS_EACH)}

    def run_until_killed(self) -> None:
        try:
            with Wire(self.bootstrap) as wire:
                while True:
                    self.operate(wire, self.rng.choice(list(self.possible)))
                    self.acknowledged += 1
        except OSError:
            return

    def operate(self, wire: Wire, name: str) -> None:
        (topic,) = self.possible[name]
        if topic is None:
            self.create(wire, name)
            return
        kind = self.rng.randrange(4)
        if kind == 0:
            self.possible[name].add(None)
            state = m.DeleteTopicsRequest.DeleteTopicState(name=name)
            request = m.DeleteTopicsRequest(topics=[state], timeout_ms=10_000)
            assert wire.ask(request, m.DeleteTopicsResponse).responses[0].error_code == 0
            self.possible[name] = {None}
        elif kind == 1 and topic.partitions < 12:
            count = topic.partitions + self.rng.randrange(1, 4)
            self.change(name, replace(topic, partitions=count))
            more = m.CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
            request = m.CreatePartitionsRequest(topics=[more], timeout_ms=10_000)
            assert wire.ask(request, m.CreatePartitionsResponse).results[0].error_code == 0
            self.changed(name)
        else:
            value = str(self.rng.randrange(1, 1 << 40) << 20)
            self.change(name, replace(topic, retention_ms=value))
            configs = m.IncrementalAlterConfigsRequest
            entry = configs.AlterableConfig(name="retention.ms", config_operation=0, value=value)
            resource = configs.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[entry])
            answer = wire.ask(configs(resources=[resource]), m.IncrementalAlterConfigsResponse)
            assert answer.responses[0].error_code == 0
            self.changed(name)

    def create(self, wire: Wire, name: str) -> None:
        partitions = self.rng.randrange(1, 8)
        # its id is unknown until the node reports it
        self.possible[name].add(Topic(b"", partitions))
        topic = Topic(wire.create_topic(name, partitions), partitions)
        written = replace(topic, has_record=True)
        self.possible[name] = {topic, written}
        assert wire.produce(name, batch_of(topic.topic_id)).error_code == 0
        self.possible[name] = {written}

    def change(self, name: str, after: Topic) -> None:
        self.possible[name].add(after)
        self._after = after

    def changed(self, name: str) -> None:
        self.possible[name] = {self._after}

    def check(self, wire: Wire) -> dict[str, int]:
        """Check that the node's state is a possible one and keep only that. Returns partitions by topic."""
        found_partitions = {}
        for name, possible in self.possible.items():
            found = describe(wire, name)
            if found is not None:
                found_partitions[name] = found.partitions
            known = found in possible
            created_unheard = found is not None and Topic(b"", found.partitions) in possible
            assert known or created_unheard, f"{name} is {found}, expected one of {possible}"
            self.possible[name] = {found}
        return found_partitions


class Committer:
    """A client that commits rising offsets; the last acknowledged one, or the next, must be stored."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.bootstrap = ""

    def run_until_killed(self) -> None:
        try:
            with Wire(self.bootstrap) as wire:
                while True:
                    self.commit(wire, self.acknowledged + 1)
                    self.acknowledged += 1
        except OSError:
            return

    def commit(self, wire: Wire, offset: int) -> None:
        request = m.OffsetCommitRequest
        partition = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = request.OffsetCommitRequestTopic(name="committed", partitions=[partition])
        while True:
            asked = request(group_id=GROUP, generation_id_or_member_epoch=-1, topics=[topic])
            answer = wire.ask(asked, m.OffsetCommitResponse, 8)
            code = answer.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                return
            assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def check(self, wire: Wire) -> None:
        request = m.OffsetFetchRequest
        topic = request.OffsetFetchRequestTopics(name="committed", partition_indexes=[0])
        group = request.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
        answer = wire.ask(request(groups=[group]), m.OffsetFetchResponse, 8).groups[0]
        assert answer.error_code == 0
        offset = answer.topics[0].partitions[0].committed_offset
        assert offset in (self.acknowledged, self.acknowledged + 1)
        self.acknowledged = offset


def describe(wire: Wire, name: str) -> Topic | None:
    """The state of a topic on the node; each of its partitions must have a leader and be readable."""
    asked = m.MetadataRequest.MetadataRequestTopic(name=name)
    request = m.MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
    (topic,) = wire.ask(request, m.MetadataResponse, 12).topics
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    assert topic.error_code == 0
    assert [p.partition_index for p in topic.partitions] == list(range(len(topic.partitions)))
    assert all(p.leader_id == 1 for p in topic.partitions)
    values = [wire.values(name, partition=p.partition_index) for p in topic.partitions]
    assert values[0] in ([], [topic.topic_id]), "records of another topic of that name"
    assert not any(values[1:])
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"]
    )
    described = wire.ask(m.DescribeConfigsRequest(resources=[resource]), m.DescribeConfigsResponse)
    (entry,) = described.results[0].configs
    retention_ms = entry.value if entry.config_source == 1 else None
    return Topic(topic.topic_id, len(topic.partitions), retention_ms, bool(values[0]))


def served_directories(data_dir: Path) -> set[str]:
    return {
        path.name
        for path in data_dir.iterdir()
        if path.is_dir() and not path.name.endswith(("-delete", "-stray", "__cluster_metadata-0"))
    }


@pytest.mark.longer
def test_acknowledged_decisions_and_commits_survive_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")
    moments = random.Random(seed)
    operators = [Operator(prefix, random.Random(f"{seed}{prefix}")) for prefix in ("left.", "right_")]
    committer = Committer()
    with Cluster(SETTINGS, data_dir=tmp_path / "data") as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            wire.create_topic("committed")
            find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
            wire.ask(find, m.FindCoordinatorResponse, 4)
        for number in range(KILLS):
            workers = []
            for each in (*operators, committer):
                each.bootstrap = cluster.bootstrap_servers
                workers.append(threading.Thread(target=each.run_until_killed))
                workers[-1].start()
            time.sleep(moments.uniform(0.05, 0.6))
            cluster.kill()
            for worker in workers:
                worker.join(30)
                assert not worker.is_alive()
            cluster.start()
            with Wire(cluster.bootstrap_servers) as wire:
                committer.check(wire)
                expected = {"committed": 1, OFFSETS_TOPIC: 4}
                for operator in operators:
                    expected |= operator.check(wire)
            directories = {f"{name}-{p}" for name, count in expected.items() for p in range(count)}
            assert served_directories(cluster.data_dir) == directories, f"after kill {number}"
        print(f"{sum(o.acknowledged for o in operators)} decisions, {committer.acknowledged} commits")
        assert list(cluster.data_dir.glob("__cluster_metadata-0/*.checkpoint"))
