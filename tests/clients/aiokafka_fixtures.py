"""A plugin of pytest that gives aiokafka's integration tests a Penstock node instead of a container.

The tests' own `conftest` needs Docker; this plugin takes its place. It has a node with the listeners and
users of aiokafka's image, and Kafka's own tools, by which the tests create ACLs and users. It lacks Kerberos.
"""

import asyncio
import gc
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from secured_nodes import AUTHORIZER, sasl_of_nodes

from certificates import Authority
from kafka_node import free_port
from kafka_tools import KafkaTools
from maven_jars import jars_of
from several_nodes import penstock_nodes

TARGET_RELEASE = "4.3.1"
HOST = "127.0.0.1"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SINGLE = {
    "num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Server(NamedTuple):
    """The ports of the node's listeners."""

    port: int
    ssl_port: int
    sasl_plain_port: int
    sasl_ssl_port: int


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("aiokafka") / "authority")


@pytest.fixture(scope="session")
def ssl_folder(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the tests load."""
    folder = tmp_path_factory.mktemp("ssl")
    shutil.copy(authority.certificate, folder / "ca.crt")
    shutil.copy(authority.client.chain, folder / "client.crt")
    shutil.copy(authority.client.key, folder / "client.key")
    return folder


@pytest.fixture(scope="session")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    nodes = penstock_nodes(tmp_path_factory.mktemp("node"), 1, config=SINGLE)
    ports = Server(*(free_port() for _ in PROTOCOLS))
    listeners = {name: f"{HOST}:{port}" for name, port in zip(PROTOCOLS, ports, strict=True)}
    listeners["CONTROLLER"] = nodes.controllers[1]
    users = {"test": "test", "admin": "admin"}
    settings = {
        **AUTHORIZER,
        **sasl_of_nodes("SASL_PLAINTEXT", users),
        **sasl_of_nodes("SASL_SSL", users),
        "super.users": "User:admin;User:ANONYMOUS",
        "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in PROTOCOLS)
        + ",CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }
    node = nodes.nodes[1]
    node.config |= settings
    node.address = listeners["PLAINTEXT"]
    with nodes:
        yield ports


class Tools:
    """Kafka's tools, with the methods of aiokafka's `ACLManager` and `KafkaConfig`."""

    def __init__(self, tools: KafkaTools, bootstrap: str) -> None:
        self._tools = tools
        self._bootstrap = ("--bootstrap-server", bootstrap)
        self._active: list[dict[str, Any]] = []

    def add_acl(self, **acl: Any) -> None:
        self._tools.run("acls", *self._bootstrap, "--add", *_words(acl))
        self._active.append(acl)

    def remove_acl(self, **acl: Any) -> None:
        self._tools.run("acls", *self._bootstrap, "--remove", "--force", *_words(acl))
        self._active.remove(acl)

    def list_acl(self) -> str:
        return self._tools.run("acls", *self._bootstrap, "--list")

    def cleanup(self) -> None:
        for acl in list(self._active):
            self.remove_acl(**acl)

    def add_scram_user(self, name: str, password: str) -> None:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            user = ("--entity-type", "users", "--entity-name", name)
            config = ("--alter", "--add-config", f"{mechanism}=[password={password}]")
            self._tools.run("configs", *self._bootstrap, *user, *config)


def _words(acl: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in acl.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        else:
            words += [option, f"User:{value}" if name.endswith("principal") else value]
    return words


@pytest.fixture(scope="session")
def tools(server: Server) -> Iterator[Tools]:
    libs = jars_of(Path(__file__).with_name("kafka_pom.xml"), f"kafka-{TARGET_RELEASE}")
    with KafkaTools(libs) as tools:
        yield Tools(tools, f"{HOST}:{server.port}")


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class(
    request: pytest.FixtureRequest,
    loop: asyncio.AbstractEventLoop,
    server: Server,
    ssl_folder: Path,
    tools: Tools,
) -> None:
    attributes = {
        "loop": loop,
        "kafka_host": HOST,
        "kafka_port": server.port,
        "kafka_ssl_port": server.ssl_port,
        "kafka_sasl_plain_port": server.sasl_plain_port,
        "kafka_sasl_ssl_port": server.sasl_ssl_port,
        "ssl_folder": ssl_folder,
        "acl_manager": tools,
        "kafka_config": tools,
        "hosts": [f"{HOST}:{server.port}"],
        "kafka_version": TARGET_RELEASE,
    }
    for name, value in attributes.items():
        setattr(request.cls, name, value)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of Kerberos."""
    for item in items:
        if "gssapi" in item.name:
            item.add_marker(pytest.mark.skip(reason="needs GSSAPI"))
