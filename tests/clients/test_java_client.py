"""Apache Kafka's own Java client and command-line tools, unchanged, against a node."""

import json
import uuid
from pathlib import Path

import pytest

from kafka_node import run_java
from penstock.client.admin.users import UserCredential, describe_users
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as ClientCluster
from penstock.security.scram import ScramMechanism
from penstock.testing import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
ROUND_TRIP = Path(__file__).with_name("RoundTrip.java")


def test_java_client_round_trip(kafka_libs: Path, penstock_cluster: Cluster) -> None:
    """Run all checks in one Java process, because its start takes longest."""
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    topics = f"java-{uuid.uuid4().hex[:6]}"
    out = run_java(kafka_libs, str(ROUND_TRIP), penstock_cluster.bootstrap_servers, topics, "5000", *codecs)
    assert out.splitlines() == [f"round trip of 5000 records, {codec}" for codec in codecs]


def test_verifiable_producer_and_consumer(kafka_libs: Path, penstock_cluster: Cluster) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, f"verifiable-{uuid.uuid4().hex[:6]}"
    tools = "org.apache.kafka.tools"
    common = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "2000"]
    produced = run_java(kafka_libs, f"{tools}.VerifiableProducer", *common)
    events = [json.loads(line) for line in produced.splitlines()]
    assert sum(event["name"] == "producer_send_success" for event in events) == 2000
    consumed = run_java(kafka_libs, f"{tools}.VerifiableConsumer", *common, "--group-id", topic)
    counts = [e["count"] for e in map(json.loads, consumed.splitlines()) if e["name"] == "records_consumed"]
    assert sum(counts) == 2000


@pytest.mark.long
def test_kafka_topics_and_configs_tools(kafka_libs: Path, penstock_cluster: Cluster) -> None:
    topic = f"tools-{uuid.uuid4().hex[:6]}"
    topics = ["org.apache.kafka.tools.TopicCommand", "--bootstrap-server", penstock_cluster.bootstrap_servers]
    run_java(
        kafka_libs,
        *topics,
        "--create",
        "--topic",
        topic,
        "--partitions",
        "2",
        "--config",
        "retention.ms=9000000",
    )
    described = run_java(kafka_libs, *topics, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described
    assert "retention.ms=9000000" in described
    configs = [
        "kafka.admin.ConfigCommand",
        "--bootstrap-server",
        penstock_cluster.bootstrap_servers,
    ]
    entity = ["--entity-type", "topics", "--entity-name", topic]
    run_java(kafka_libs, *configs, *entity, "--alter", "--add-config", "max.message.bytes=4096")
    assert "max.message.bytes=4096" in run_java(kafka_libs, *configs, *entity, "--describe")
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]
    logger = "penstock.broker.control.controller"
    run_java(kafka_libs, *configs, *loggers, "--alter", "--add-config", f"{logger}=TRACE")
    assert f"{logger}=TRACE" in run_java(kafka_libs, *configs, *loggers, "--describe")
    run_java(kafka_libs, *configs, *loggers, "--alter", "--delete-config", logger)
    assert f"{logger}=TRACE" not in run_java(kafka_libs, *configs, *loggers, "--describe")


def test_the_configs_tool_sets_and_deletes_users(kafka_libs: Path, penstock_cluster: Cluster) -> None:
    """Its --describe needs DescribeClientQuotas, too, so that a client of ours describes the users."""
    user = f"user-{uuid.uuid4().hex[:6]}"
    servers = penstock_cluster.bootstrap_servers
    tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", servers]
    alter = [*tool, "--entity-type", "users", "--entity-name", user, "--alter"]
    first, second = "SCRAM-SHA-256=[iterations=8192,password=pencil]", "SCRAM-SHA-512=[password=pencil]"
    run_java(kafka_libs, *alter, "--add-config", first)
    run_java(kafka_libs, *alter, "--add-config", second)
    with ClientCluster(ClientConfig.from_properties({"bootstrap.servers": servers})) as cluster:
        sha_256, sha_512 = describe_users(cluster, user)
        assert sha_256 == UserCredential(user, ScramMechanism.SCRAM_SHA_256, 8192)
        assert sha_512 == UserCredential(user, ScramMechanism.SCRAM_SHA_512, 4096)
        run_java(kafka_libs, *alter, "--delete-config", "SCRAM-SHA-256")
        assert describe_users(cluster, user) == [sha_512]
