"""Apache Kafka's own Java client and command-line tools, unchanged, against a node."""

import json
import uuid
from pathlib import Path

import pytest

from broker_wire import Wire
from kafka_node import run_java
from kafka_tools import KafkaTools
from penstock.client.admin.users import UserCredential, describe_users
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as ClientCluster
from penstock.security.scram import ScramMechanism
from penstock.testing import Cluster
from quota_wire import set_quota

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
ROUND_TRIP = Path(__file__).with_name("RoundTrip.java")


def test_java_client_round_trip(kafka_libs: Path, penstock_cluster: Cluster) -> None:
    """Run all checks in one Java process, because its start takes longest."""
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    topics = f"java-{uuid.uuid4().hex[:6]}"
    out = run_java(kafka_libs, str(ROUND_TRIP), penstock_cluster.bootstrap_servers, topics, "5000", *codecs)
    assert out.splitlines() == [f"round trip of 5000 records, {codec}" for codec in codecs]


@pytest.mark.long
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
    user = f"user-{uuid.uuid4().hex[:6]}"
    servers = penstock_cluster.bootstrap_servers
    entity = ("--bootstrap-server", servers, "--entity-type", "users", "--entity-name", user)
    first, second = "SCRAM-SHA-256=[iterations=8192,password=pencil]", "SCRAM-SHA-512=[password=pencil]"
    with (
        KafkaTools(kafka_libs) as tools,
        ClientCluster(ClientConfig.from_properties({"bootstrap.servers": servers})) as cluster,
    ):
        tools.run("configs", *entity, "--alter", "--add-config", first)
        tools.run("configs", *entity, "--alter", "--add-config", second)
        sha_256, sha_512 = describe_users(cluster, user)
        assert sha_256 == UserCredential(user, ScramMechanism.SCRAM_SHA_256, 8192)
        assert sha_512 == UserCredential(user, ScramMechanism.SCRAM_SHA_512, 4096)
        tools.run("configs", *entity, "--alter", "--delete-config", "SCRAM-SHA-256")
        assert describe_users(cluster, user) == [sha_512]
        told = f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-512=iterations=4096"
        assert told in tools.run("configs", *entity, "--describe")


def test_the_configs_tool_sets_and_describes_quotas(kafka_libs: Path, penstock_cluster: Cluster) -> None:
    user, client_id, address = f"user-{uuid.uuid4().hex[:6]}", f"client-{uuid.uuid4().hex[:6]}", "10.1.2.3"
    server = ("--bootstrap-server", penstock_cluster.bootstrap_servers)
    of_user = ("--entity-type", "users", "--entity-name", user)
    of_both = (*of_user, "--entity-type", "clients", "--entity-name", client_id)
    of_defaults = (*of_user, "--entity-type", "clients", "--entity-default")
    of_ip = ("--entity-type", "ips", "--entity-name", address)
    with KafkaTools(kafka_libs) as tools:

        def alter(*words: str) -> None:
            assert "Completed updating config" in tools.run("configs", *server, "--alter", *words)

        def described(*words: str) -> list[str]:
            return tools.run("configs", *server, "--describe", *words).splitlines()

        alter(*of_user, "--add-config", "producer_byte_rate=1024,request_percentage=12.5")
        alter(*of_both, "--add-config", "consumer_byte_rate=2048")
        alter(*of_defaults, "--add-config", "controller_mutation_rate=0.5")
        alter(*of_ip, "--add-config", "connection_creation_rate=1000")
        [line] = described(*of_user)
        assert line.startswith(f"Quota configs for user-principal '{user}' are ")
        assert {"producer_byte_rate=1024.0", "request_percentage=12.5"} == set(
            line.split(" are ")[1].split(", ")
        )
        told = f"Quota configs for user-principal '{user}', "
        assert described(*of_both) == [f"{told}client-id '{client_id}' are consumer_byte_rate=2048.0"]
        assert described(*of_defaults) == [f"{told}the default client-id are controller_mutation_rate=0.5"]
        assert described(*of_ip) == [f"Quota configs for ip '{address}' are connection_creation_rate=1000.0"]
        alter(*of_user, "--delete-config", "producer_byte_rate,request_percentage")
        alter(*of_both, "--delete-config", "consumer_byte_rate")
        alter(*of_defaults, "--delete-config", "controller_mutation_rate")
        alter(*of_ip, "--delete-config", "connection_creation_rate")
        assert described(*of_user) == described(*of_ip) == []
        refused = tools.attempt(
            "configs", *server, "--alter", *of_user, "--add-config", "producer_byte_rate=0.5"
        )
        assert refused[0] == 1
        assert "producer_byte_rate cannot be a fractional value." in refused[1]


def test_the_topics_tool_reports_an_exhausted_quota(kafka_libs: Path) -> None:
    """It does not retry, as Kafka's clients do otherwise."""
    with Cluster() as cluster, KafkaTools(kafka_libs) as tools:
        with Wire(cluster.bootstrap_servers) as wire:
            set_quota(wire, {"user": "ANONYMOUS"}, controller_mutation_rate=0.001)
        create = ("--bootstrap-server", cluster.bootstrap_servers, "--create", "--topic")
        assert "Created topic first." in tools.run("topics", *create, "first")
        code, text = tools.attempt("topics", *create, "second")
        assert code == 1
        assert "The throttling quota has been exceeded." in text
