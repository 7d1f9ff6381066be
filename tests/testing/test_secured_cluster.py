"""`Cluster(security=…)`: users, certificates, ACLs, and the settings for each client."""

import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from test_cluster import SCHEMA

from application_acls import acls_of
from penstock.testing import Acl, Cluster, ClusterError, Security
from penstock.testing.security.description import REGISTRY, Mechanism, Protocol
from penstock.testing.security.secured import OF_REGISTRY
from round_trips import by_aiokafka, by_confluent_kafka, by_java, by_kafka_python

TIMEOUT_S = 30
PASSWORD = 'of "alice",] 100% =secret= \\ ü'
KINDS: list[tuple[Protocol, Mechanism]] = [
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "PLAIN"),
    ("SSL", "PLAIN"),
]
ALICE = [
    Acl("alice-of-sales", ["read", "write", "create"], topic="own-", prefixed=True),
    Acl("alice-of-sales", "read", group="*"),
    Acl("alice-of-sales", "write", transactional_id="own-", prefixed=True),
]


def description(protocol: Protocol, mechanism: Mechanism) -> Security:
    users = {"alice-of-sales": PASSWORD, "bob": "of-bob"}
    return Security(users, ALICE, protocol, mechanism)


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(security=description(*request.param)) as cluster:
        yield cluster


@pytest.fixture
def topic() -> str:
    return f"own-{uuid.uuid4().hex}"


def refusal(admin: AdminClient, topic: str) -> str:
    """The reason why a user may not create a topic; empty if the topic is there."""
    try:
        admin.create_topics([NewTopic(topic, 1)])[topic].result(TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def test_each_client_gets_in_with_its_settings(cluster: Cluster, topic: str) -> None:
    user = "alice-of-sales"
    by_confluent_kafka(cluster.client_settings(user), f"{topic}-confluent")
    by_aiokafka(cluster.client_settings(user, for_="aiokafka"), f"{topic}-aiokafka")
    by_kafka_python(cluster.client_settings(user, for_="kafka-python"), f"{topic}-python")


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_java_client_gets_in_with_the_file(kafka_libs: Path, cluster: Cluster, topic: str) -> None:
    by_java(kafka_libs, cluster.bootstrap_servers, cluster.properties_file("alice-of-sales"), topic)


def test_what_no_acl_allows_is_denied(cluster: Cluster, topic: str) -> None:
    assert refusal(cluster.admin_client("alice-of-sales"), topic) == ""
    assert refusal(cluster.admin_client("alice-of-sales"), f"not-{topic}") == "TOPIC_AUTHORIZATION_FAILED"
    assert refusal(cluster.admin_client("bob"), topic) == "TOPIC_AUTHORIZATION_FAILED"
    assert refusal(cluster.admin_client(), f"not-{topic}") == ""
    log = cluster.log_file.read_text()
    denied = "User:bob is Denied operation = CREATE from host = 127.0.0.1 on resource = Topic:LITERAL:"
    assert f"{denied}{topic} " in log
    assert " is Allowed " not in log


def test_what_the_page_lists_is_enough(cluster: Cluster, topic: str) -> None:
    admin = cluster.admin_client()
    admin.create_topics([NewTopic(topic, 1)])[topic].result(TIMEOUT_S)
    cluster.add_acls(*acls_of("producer", "bob", OUT=topic))
    cluster.add_acls(*acls_of("consumer", "bob", IN=topic, GROUP=topic))
    by_confluent_kafka(cluster.client_settings("bob"), topic)


def test_the_registry_has_what_the_page_lists() -> None:
    listed = [entry for acl in acls_of("schema registry", REGISTRY) for entry in acl.entries()]
    assert sorted(listed) == sorted(entry for acl in OF_REGISTRY for entry in acl.entries())


def test_acls_come_and_go_while_the_cluster_runs(cluster: Cluster, topic: str) -> None:
    bob = Acl("bob", "create", topic=topic)
    admin = cluster.admin_client("bob")
    cluster.add_acls(bob)
    assert refusal(admin, topic) == ""
    cluster.remove_acls(bob)
    assert refusal(admin, f"{topic}-2") == "TOPIC_AUTHORIZATION_FAILED"


def test_commands_get_in_with_the_file(cluster: Cluster) -> None:
    words = ["topic", "list", "-b", cluster.bootstrap_servers, "--command-config"]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words, str(cluster.properties_file())],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_nobody_else_can_read_the_files_with_secrets(cluster: Cluster) -> None:
    cluster.client_settings("bob")
    cluster.properties_file("bob")
    readable = [
        file
        for file in cluster.data_dir.rglob("*")
        if file.is_file()
        and file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
        and (b"PRIVATE" in file.read_bytes() or b"of-bob" in file.read_bytes())
    ]
    assert readable == []
    assert stat.S_IMODE((cluster.data_dir / "security").stat().st_mode) == 0o700


def test_the_nodes_know_each_other(topic: str) -> None:
    with Cluster(nodes=2, security=Security(["alice"], [Acl("alice", "all", topic="*")])) as cluster:
        first = cluster.data_dir / "security"
        admin = cluster.admin_client("alice")
        admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(TIMEOUT_S)
        producer = Producer({**cluster.client_settings("alice"), "acks": "all"})
        producer.produce(topic, b"on both")
        assert producer.flush(TIMEOUT_S) == 0
        cluster.add_user("carol", "of-carol")
        third = cluster.add_broker()
        assert third.is_running
        assert refusal(cluster.admin_client("carol"), topic) == "TOPIC_AUTHORIZATION_FAILED"
    assert not first.exists()


def test_users_and_acls_outlive_a_restart_and_the_cluster(tmp_path: Path, topic: str) -> None:
    with Cluster(data_dir=tmp_path, security=Security(["alice", "bob"])) as cluster:
        cluster.add_acls(Acl("alice", "create", topic="own-", prefixed=True))
        cluster.restart()
        assert refusal(cluster.admin_client("alice"), topic) == ""
        known = cluster.client_settings("alice")["sasl.password"]
    later = Security({"bob": "another", "carol": "new"}, [Acl("bob", "create", topic="own-", prefixed=True)])
    with Cluster(data_dir=tmp_path, security=later) as cluster:
        assert cluster.client_settings("alice")["sasl.password"] == known
        for number, user in enumerate(("alice", "bob")):
            assert refusal(cluster.admin_client(user), f"{topic}-{number}") == ""
        assert refusal(cluster.admin_client("carol"), topic) == "TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(ClusterError, match="has the users of a cluster with SASL_SSL and SCRAM-SHA-512"):
        Cluster(data_dir=tmp_path, security=Security(mechanism="PLAIN"))


def test_the_registry_logs_in_as_a_user_of_its_own() -> None:
    with Cluster(registry=True, security=True) as cluster:
        registry = SchemaRegistryClient({"url": cluster.registry_url})
        number = registry.register_schema("orders-value", SCHEMA)
        assert registry.get_schema(number).schema_str == SCHEMA.schema_str


def test_a_user_may_have_the_name_of_a_file(topic: str) -> None:
    names = ["authority", "users", "../a", "ü ö"]
    for kind in ("SASL_SSL", "SSL"):
        with Cluster(security=Security(names, protocol=kind, super_users=names)) as cluster:  # type: ignore[arg-type]
            for number, name in enumerate(names):
                assert cluster.properties_file(name).parent == cluster.data_dir / "security"
                assert refusal(cluster.admin_client(name), f"{topic}-{number}") == ""


def test_without_acls_everybody_may_do_everything(topic: str) -> None:
    with Cluster(security=Security(["alice"], acls=None)) as cluster:
        assert refusal(cluster.admin_client("alice"), topic) == ""
        with pytest.raises(ClusterError, match="SECURITY_DISABLED"):
            cluster.add_acls(Acl("alice", "create", topic=topic))


def test_an_open_cluster_hands_out_its_address_and_nothing_else() -> None:
    with Cluster() as cluster:
        assert cluster.client_settings() == {"bootstrap.servers": cluster.bootstrap_servers}
        for call in (cluster.properties_file, lambda: cluster.ca_file, lambda: cluster.add_user("x")):
            with pytest.raises(ClusterError, match="the cluster is open to everybody: create it with"):
                call()


def test_the_data_of_an_open_cluster_is_not_that_of_a_secured_one(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "meta.properties").touch()
    with pytest.raises(ClusterError, match="has the data of an open cluster"):
        Cluster(data_dir=tmp_path, security=True)


def test_passwords_do_not_appear_in_descriptions_and_arguments() -> None:
    security = Security({"alice": "hidden"})
    assert "hidden" not in repr(security)
    with Cluster(security=security, fork=False) as cluster:
        assert b"hidden" not in Path(f"/proc/{cluster.pid}/cmdline").read_bytes()
        assert "hidden" not in cluster.node(1).log_tail()
        with pytest.raises(KeyError, match=r"user alcie: expected one of \['admin', 'alice'\]"):
            cluster.client_settings("alcie")
        with pytest.raises(ValueError, match="knows no client 'java2': expected one of confluent-kafka"):
            cluster.client_settings("alice", for_="java2")  # type: ignore[call-overload]


def test_users_of_plain_are_fixed() -> None:
    with (
        Cluster(security=Security(mechanism="PLAIN")) as cluster,
        pytest.raises(ClusterError, match="users of PLAIN are in the configuration"),
    ):
        cluster.add_user("carol")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": "alice"}, "expected a list, found a text"),
        ({"users": ["penstock-node"]}, "a user cannot be called 'penstock-node'"),
        ({"users": ["a,b"], "protocol": "SSL"}, "a certificate cannot name the user 'a,b'"),
        ({"users": ["a b"], "mechanism": "PLAIN"}, "PLAIN cannot have the user 'a b'"),
        ({"protocol": "PLAINTEXT"}, "protocol 'PLAINTEXT': expected one of SASL_SSL, SASL_PLAINTEXT, SSL"),
        ({"mechanism": "GSSAPI"}, "mechanism 'GSSAPI': expected one of SCRAM-SHA-512, "),
        ({"super_users": ["alice"]}, "there is no user 'alice': expected one of admin"),
        ({"acls": [Acl("alice", "read", topic="t")]}, "there is no user 'alice'"),
    ],
)
def test_what_no_security_can_be(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Security(**arguments)  # type: ignore[arg-type]


def test_what_no_acl_can_be() -> None:
    with pytest.raises(ValueError, match="an Acl names at least one operation and one of topic, group"):
        Acl("alice", "read")
    with pytest.raises(ValueError, match="a group has no operation 'write': expected one of all, read, "):
        Acl("alice", "write", topic="t", group="g")
