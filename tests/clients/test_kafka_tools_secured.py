"""Kafka's own tools, unchanged, on a node that has SASL_SSL, every mechanism, and ACLs."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from secured_nodes import LOGIN_MODULES, Security, settings_of_nodes

from certificates import Authority
from kafka_node import run_java
from kafka_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, KafkaTools
from penstock.testing import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tools(kafka_libs: Path) -> Iterator[KafkaTools]:
    with KafkaTools(kafka_libs) as tools:
        yield tools


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tools") / "authority")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    """A node that allows nothing without an ACL; `node` is its administrator, and ann a user of PLAIN."""
    settings = settings_of_nodes(Security("SASL_SSL"), authority, users={"ann": "of-ann"})
    with Cluster(settings | {"allow.everyone.if.no.acl.found": "false"}) as cluster:
        yield cluster


class Login:
    """A user, and the words of a tool that let it log in."""

    def __init__(self, cluster: Cluster, authority: Authority, directory: Path) -> None:
        self._servers = cluster.bootstrap_servers
        self._authority = authority
        self._directory = directory

    def __call__(self, name: str, mechanism: str = "PLAIN") -> list[str]:
        """The words for a user whose password is of-NAME."""
        file = self._directory / f"{name}-{mechanism}.properties"
        module = f"org.apache.kafka.common.security.{LOGIN_MODULES[mechanism]}"
        file.write_text(
            "security.protocol=SASL_SSL\n"
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self._authority.certificate}\n"
            f"sasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="{name}" password="of-{name}";\n'
        )
        return ["--bootstrap-server", self._servers, "--command-config", str(file)]


@pytest.fixture
def login(cluster: Cluster, authority: Authority, tmp_path: Path) -> Login:
    return Login(cluster, authority, tmp_path)


@pytest.fixture
def topic() -> str:
    return f"tools-{uuid.uuid4().hex[:6]}"


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param("PLAIN", marks=pytest.mark.long),
        pytest.param("SCRAM-SHA-256", marks=pytest.mark.long),
        "SCRAM-SHA-512",
    ],
)
def test_a_user_may_do_what_kafka_acls_allows(
    kafka_libs: Path, tools: KafkaTools, login: Login, topic: str, mechanism: str
) -> None:
    admin = login("node")
    user = "ann"
    if mechanism != "PLAIN":
        user = f"user-{uuid.uuid4().hex[:6]}"
        entity = ["--entity-type", "users", "--entity-name", user]
        tools.run("configs", *admin, "--alter", *entity, "--add-config", f"{mechanism}=[password=of-{user}]")
    mine = login(user, mechanism)
    tools.run("topics", *admin, "--create", "--topic", topic)
    assert topic not in tools.run("topics", *mine, "--list")
    roles = [
        "--allow-principal",
        f"User:{user}",
        "--producer",
        "--consumer",
        "--topic",
        topic,
        "--group",
        topic,
    ]

    tools.run("acls", *admin, "--add", *roles)
    assert topic in tools.run("topics", *mine, "--list")
    run_java(kafka_libs, CONSOLE_PRODUCER, *mine, "--topic", topic, text="tea\ncoffee\n")
    read = [*mine, "--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "2"]
    assert run_java(kafka_libs, CONSOLE_CONSUMER, *read).split() == ["tea", "coffee"]
    [row] = [
        line
        for line in tools.run("consumer-groups", *mine, "--describe", "--group", topic).splitlines()
        if topic in line and "has no active members" not in line
    ]
    assert row.split()[3:6] == ["2", "2", "0"]  # committed offset, end of the log, lag

    listed = tools.run("acls", *admin, "--list", "--topic", topic)
    assert f"(principal=User:{user}, host=*, operation=WRITE, permissionType=ALLOW)" in listed
    tools.run("acls", *admin, "--remove", "--force", *roles)
    assert "permissionType" not in tools.run("acls", *admin, "--list", "--topic", topic)
    assert topic not in tools.run("topics", *mine, "--list")


def test_a_deleted_user_cannot_log_in(tools: KafkaTools, login: Login) -> None:
    admin, user = login("node"), f"user-{uuid.uuid4().hex[:6]}"
    alter = ["--alter", "--entity-type", "users", "--entity-name", user]
    tools.run("configs", *admin, *alter, "--add-config", f"SCRAM-SHA-512=[password=of-{user}]")
    mine = login(user, "SCRAM-SHA-512")
    tools.run("topics", *mine, "--list")
    tools.run("configs", *admin, *alter, "--delete-config", "SCRAM-SHA-512")
    code, printed = tools.attempt("topics", *mine, "--list")
    assert code == 1
    assert "Authentication failed during authentication due to invalid credentials" in printed


def test_kafka_acls_needs_permission(tools: KafkaTools, login: Login, topic: str) -> None:
    for words in (["--list"], ["--add", "--allow-principal", "User:ann", "--topic", topic, "--producer"]):
        _, printed = tools.attempt("acls", *login("ann"), *words)
        assert "ClusterAuthorizationException" in printed
