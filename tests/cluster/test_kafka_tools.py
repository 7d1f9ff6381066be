"""Apache Kafka's own tools, unchanged, against a cluster of three nodes.

With PENSTOCK_KAFKA_CLUSTERS the same test runs on Apache Kafka, which defines the expectations.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_node import run_java
from kafka_tools import VERIFIABLE_CONSUMER, VERIFIABLE_PRODUCER, KafkaTools
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.long]

CONFIG = {"auto.leader.rebalance.enable": "false"}


class Tools:
    """The tools with the address of a cluster."""

    def __init__(self, tools: KafkaTools, cluster: SeveralNodes) -> None:
        self._tools = tools
        self._at = ("--bootstrap-server", cluster.bootstrap_servers)

    def __call__(self, tool: str, *words: str) -> str:
        return self._tools.run(tool, *self._at, *words)

    def fails(self, tool: str, *words: str) -> str:
        code, text = self._tools.attempt(tool, *self._at, *words)
        assert code != 0, text
        return text

    def after(self, tool: str, command: str) -> str:
        """Run a tool that takes its subcommand first."""
        return self._tools.run(tool, command, *self._at)

    def alone(self, tool: str, *words: str) -> str:
        return self._tools.run(tool, *words)


@pytest.fixture(scope="module", params=["penstock", "kafka"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_libs: Path
) -> Iterator[SeveralNodes]:
    directory = tmp_path_factory.mktemp("nodes")
    if request.param == "kafka":
        if not os.environ.get("PENSTOCK_KAFKA_CLUSTERS"):
            pytest.skip("clusters of Apache Kafka take half a minute: PENSTOCK_KAFKA_CLUSTERS=1 runs them")
        made = kafka_nodes(kafka_libs, directory, dynamic_quorum=True, config=CONFIG)
    else:
        made = penstock_nodes(directory, dynamic_quorum=True, config=CONFIG)
    with made:
        yield made


@pytest.mark.timeout(240)
def test_all_tools(cluster: SeveralNodes, kafka_libs: Path, tmp_path: Path) -> None:
    with KafkaTools(kafka_libs) as started:
        tools = Tools(started, cluster)
        topics(tools)
        configs(tools)
        quorum(tools, cluster)
        features(tools)
        log_dirs(tools)
        verifiable_clients(kafka_libs, cluster)
        reassignment(tools, tmp_path, cluster.bootstrap_servers)
        elections(tools, tmp_path)
        whole_cluster(tools)
        metadata_log(tools, cluster)


def topics(tools: Tools) -> None:
    create = ("--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "3")
    assert "Created topic orders." in tools("topics", *create)
    assert "already exists" in tools.fails("topics", *create)
    too_many = ("--create", "--topic", "many", "--partitions", "1", "--replication-factor", "4")
    assert "Unable to replicate the partition 4 time(s)" in tools.fails("topics", *too_many)
    described = tools("topics", "--describe", "--topic", "orders")
    assert "PartitionCount: 3\tReplicationFactor: 3" in described
    partitions = re.findall(
        r"Partition: (\d)\tLeader: (\d)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)\tElr: *\tLastKnownElr: *$",
        described,
        re.MULTILINE,
    )
    assert [number for number, *_ in partitions] == ["0", "1", "2"]
    assert {leader for _, leader, *_ in partitions} == {"1", "2", "3"}
    for _, leader, replicas, isr in partitions:
        assert replicas.startswith(leader)
        assert sorted(replicas.split(",")) == sorted(isr.split(",")) == ["1", "2", "3"]
    assert tools("topics", "--describe", "--under-replicated-partitions") == ""
    assert tools("topics", "--describe", "--unavailable-partitions") == ""
    assert "orders" in tools("topics", "--list").splitlines()
    tools("topics", "--alter", "--topic", "orders", "--partitions", "6")
    assert "PartitionCount: 6" in tools("topics", "--describe", "--topic", "orders")


def configs(tools: Tools) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    default = ("--entity-type", "brokers", "--entity-default")
    done = tools("configs", *broker, "--alter", "--add-config", "log.cleaner.backoff.ms=20000")
    assert "Completed updating config for broker 2." in done
    tools("configs", *default, "--alter", "--add-config", "log.cleaner.backoff.ms=30000")
    wait_until(lambda: "log.cleaner.backoff.ms=20000" in tools("configs", *broker, "--describe"))
    own = tools("configs", *broker, "--describe")
    assert re.search(
        r"log\.cleaner\.backoff\.ms=20000 sensitive=false synonyms=\{"
        r"DYNAMIC_BROKER_CONFIG:log\.cleaner\.backoff\.ms=20000, "
        r"DYNAMIC_DEFAULT_BROKER_CONFIG:log\.cleaner\.backoff\.ms=30000, "
        r"DEFAULT_CONFIG:log\.cleaner\.backoff\.ms=15000\}",
        own,
    ), own
    all_of_it = tools("configs", *broker, "--describe", "--all")
    assert "node.id=2 sensitive=false" in all_of_it
    refused = tools.fails("configs", *broker, "--alter", "--add-config", "log.cleaner.backoff.ms=soon")
    assert "log.cleaner.backoff.ms" in refused
    tools("configs", *broker, "--alter", "--delete-config", "log.cleaner.backoff.ms")
    tools("configs", *default, "--alter", "--delete-config", "log.cleaner.backoff.ms")
    wait_until(lambda: "log.cleaner" not in tools("configs", *broker, "--describe"))
    topic = ("--entity-type", "topics", "--entity-name", "orders")
    tools("configs", *topic, "--alter", "--add-config", "retention.ms=86400000,max.message.bytes=2000000")
    wait_until(lambda: "retention.ms=86400000 sensitive=false" in tools("configs", *topic, "--describe"))


def quorum(tools: Tools, cluster: SeveralNodes) -> None:
    status = tools("metadata-quorum", "describe", "--status")
    leader = re.search(r"LeaderId:\s+(\d)", status)
    assert leader is not None, status
    voters = re.search(r"CurrentVoters:\s+(\[.*\])", status)
    assert voters is not None, status
    assert sorted(voter["id"] for voter in json.loads(voters[1])) == [1, 2, 3]
    assert all(len(voter["directoryId"]) == 22 for voter in json.loads(voters[1]))
    endpoints = {voter["id"]: voter["endpoints"] for voter in json.loads(voters[1])}
    assert endpoints == {node: [f"CONTROLLER://{at}"] for node, at in cluster.controllers.items()}
    assert re.search(r"CurrentObservers:\s+\[\]", status), status
    rows = [line.split("\t") for line in tools("metadata-quorum", "describe", "--replication").splitlines()]
    assert [cell.strip() for cell in rows[0]][:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
    found = {row[0].strip(): row[-2].strip() if not row[-1].strip() else row[-1].strip() for row in rows[1:]}
    assert found == {node: "Leader" if node == leader[1] else "Follower" for node in ("1", "2", "3")}, rows
    assert all(int(row[3]) <= 10 for row in rows[1:]), rows


def features(tools: Tools) -> None:
    described = tools("features", "describe")
    for name, level in (
        ("kraft.version", "1"),
        ("metadata.version", "4.3-IV0"),
        ("transaction.version", "2"),
        ("eligible.leader.replicas.version", "1"),
    ):
        found = re.search(rf"Feature: {re.escape(name)}\s.*FinalizedVersionLevel: {level}\s", described)
        assert found, described


def log_dirs(tools: Tools) -> None:
    described = tools("log-dirs", "--describe", "--broker-list", "1,2,3", "--topic-list", "orders")
    answer = json.loads(next(line for line in described.splitlines() if line.startswith("{")))
    assert sorted(broker["broker"] for broker in answer["brokers"]) == [1, 2, 3]
    for broker in answer["brokers"]:
        [directory] = broker["logDirs"]
        assert directory["error"] is None
        held = sorted(partition["partition"] for partition in directory["partitions"])
        assert held == [f"orders-{number}" for number in range(6)]


def verifiable_clients(libs: Path, cluster: SeveralNodes) -> None:
    at = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", "orders", "--max-messages", "1000")
    sent = events(run_java(libs, VERIFIABLE_PRODUCER, *at, "--acks", "-1"))
    assert sum(event["name"] == "producer_send_success" for event in sent) == 1000
    words = ("--group-id", "verified", "--reset-policy", "earliest")
    read = events(run_java(libs, VERIFIABLE_CONSUMER, *at, *words))
    assert sum(int(event["count"]) for event in read if event["name"] == "records_consumed") == 1000
    assert any(event["name"] == "offsets_committed" and event["success"] for event in read)


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def reassignment(tools: Tools, directory: Path, bootstrap_servers: str) -> None:
    tools("topics", "--create", "--topic", "moved", "--replica-assignment", "1:2,2:3,3:1")
    asked = directory / "topics.json"
    asked.write_text('{"version": 1, "topics": [{"topic": "moved"}]}')
    words = ("--topics-to-move-json-file", str(asked), "--broker-list", "1,2,3", "--generate")
    proposed = tools("reassign", *words)
    assert "Proposed partition reassignment configuration" in proposed
    plan = directory / "plan.json"
    moves = [
        {"topic": "moved", "partition": p, "replicas": r} for p, r in enumerate(([3, 1], [1, 2], [2, 3]))
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    file = ("--reassignment-json-file", str(plan))
    executed = tools("reassign", *file, "--execute", "--throttle", "20000000")
    assert "The inter-broker throttle limit was set to 20000000 B/s" in executed
    assert "Successfully started partition reassignments for moved-0,moved-1,moved-2" in executed
    verified = ""

    def is_done() -> bool:
        nonlocal verified
        verified = tools("reassign", *file, "--verify")
        return verified.count("is completed.") == 3

    wait_until(is_done)
    assert "Clearing broker-level throttles on brokers 1,2,3" in verified
    assert "Clearing topic-level throttles on topic moved" in verified
    assert "No partition reassignments found." in tools("reassign", "--list")
    replicas = re.findall(r"Replicas: ([\d,]+)", tools("topics", "--describe", "--topic", "moved"))
    assert replicas == ["3,1", "1,2", "2,3"]
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(4):  # more than a follower fetches before the throttle applies
        producer.produce("moved", os.urandom(900_000), partition=0)
    assert producer.flush(20) == 0
    slow = directory / "slow.json"
    back = [{"topic": "moved", "partition": 0, "replicas": [2, 1]}]
    slow.write_text(json.dumps({"version": 1, "partitions": back}))
    file = ("--reassignment-json-file", str(slow))
    tools("reassign", *file, "--execute", "--throttle", "1")
    assert "moved-0: replicas: 2,1,3. adding: 2. removing: 3." in tools("reassign", "--list")
    cancelled = tools("reassign", *file, "--cancel")
    assert "Successfully cancelled partition reassignment for: moved-0" in cancelled
    wait_until(lambda: "No partition reassignments found." in tools("reassign", "--list"))
    replicas = re.findall(r"Replicas: ([\d,]+)", tools("topics", "--describe", "--topic", "moved"))
    assert replicas[0] in ("3,1", "1,3")


def elections(tools: Tools, directory: Path) -> None:
    plan = directory / "order.json"
    described = tools("topics", "--describe", "--topic", "orders")
    first = re.search(r"Partition: 0\tLeader: (\d)\tReplicas: ([\d,]+)", described)
    assert first is not None
    turned = [int(replica) for replica in first[2].split(",")][::-1]
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": turned}]})
    )
    tools("reassign", "--reassignment-json-file", str(plan), "--execute")
    words = ("--election-type", "preferred", "--topic", "orders", "--partition", "0")
    elected = tools("leader-election", *words)
    assert "Successfully completed leader election (PREFERRED) for partitions orders-0" in elected
    again = tools("leader-election", *words)
    assert "Valid replica already elected for partitions orders-0" in again
    described = tools("topics", "--describe", "--topic", "orders")
    assert f"Partition: 0\tLeader: {turned[0]}\t" in described


def whole_cluster(tools: Tools) -> None:
    assert "Cluster ID: MkU3OEVBNTcwNTJENDM2Qg" in tools.after("cluster", "cluster-id")
    endpoints = tools.after("cluster", "list-endpoints")
    assert [line.split()[0] for line in endpoints.splitlines()[1:]] == ["1", "2", "3"]


def metadata_log(tools: Tools, cluster: SeveralNodes) -> None:
    """Check that every node has the same metadata log and that Kafka's decoder reads it."""
    dumps = []
    for node in cluster.nodes.values():
        [segment] = (node.data_dir / "__cluster_metadata-0").glob("*.log")
        text = tools.alone("dump-log", "--cluster-metadata-decoder", "--files", str(segment))
        dumps.append([line for line in text.splitlines() if line.startswith(("| offset", "baseOffset"))])
        for record in ("REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_CHANGE_RECORD", "CONFIG_RECORD"):
            assert f'"type":"{record}"' in text, record
        assert "Could not deserialize" not in text
    shortest = min(map(len, dumps))
    assert shortest > 20
    assert dumps[0][:shortest] == dumps[1][:shortest] == dumps[2][:shortest]
