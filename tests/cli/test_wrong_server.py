"""Commands that are given the address of a server of another kind: a controller, HTTP, TLS."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from certificates import Authority
from kafka_node import CLUSTER_ID, free_port
from penstock.cli import wrong_server
from penstock.cli.connection import require_broker
from penstock.cli.main import build_app
from penstock.cli.wrong_server import Address, Kind, kind_at
from penstock_node import PenstockNode

IS_CONTROLLER = "is a controller's listener, and clients connect to brokers: name a broker with"
IS_HTTP = "is an HTTP server, not a Kafka listener: name a broker with --bootstrap or PENSTOCK_BOOTSTRAP"
EXPECTS_TLS = "expects TLS: set security.protocol to SSL or SASL_SSL in the file for --command-config"

Answer = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Node:
    """The addresses of a node that is a broker and a controller, and serves metrics."""

    broker: str
    controller: str
    metrics: str


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    broker, controller, metrics = (free_port() for _ in range(3))
    at = Node(f"127.0.0.1:{broker}", f"127.0.0.1:{controller}", f"127.0.0.1:{metrics}")
    config = {
        "node.id": "1",
        "listeners": f"PLAINTEXT://{at.broker},CONTROLLER://{at.controller}",
        "controller.quorum.voters": f"1@{at.controller}",
        "penstock.metrics.port": str(metrics),
    }
    made = PenstockNode(tmp_path_factory.mktemp("node"), cluster_id=CLUSTER_ID, port=broker, config=config)
    made.start()
    yield at
    made.kill_if_running()


def invoke(line: str, *words: str) -> tuple[int, str]:
    """The exit code and the standard error of a command that reads one record, if it reads any."""
    words = (*line.split(), *words)
    done = CliRunner().invoke(build_app(words[0]), words, input="a record\n")
    return done.exit_code, done.stderr


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[Address]:
    """A server that handles one connection after the other by this function."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Address(*listening.getsockname())
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    "line",
    ["topic list", "produce t", "consume t -e", "consume t -g g", "group list", "config describe topic t"],
)
@pytest.mark.parametrize("role", ["controller", "metrics"])
def test_a_client_of_librdkafka(node: Node, line: str, role: str) -> None:
    address = node.controller if role == "controller" else node.metrics
    code, stderr = invoke(line, "-b", address)
    complaint = f"{address} {IS_CONTROLLER if role == 'controller' else IS_HTTP}"
    assert (code, complaint in stderr, stderr.count("\n")) == (3, True, 1), stderr


@pytest.mark.parametrize("line", ["cluster status", "config describe broker-logger 1", "txn list --hanging"])
def test_a_request_that_a_controller_does_not_serve(node: Node, line: str) -> None:
    code, stderr = invoke(line, "-b", node.controller)
    assert (code, f"{node.controller} {IS_CONTROLLER}" in stderr) == (3, True), stderr


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("cluster remove-voter 7", "node 7 is no voter: voters are 1"),
        ("acl list", "SECURITY_DISABLED"),
    ],
)
def test_a_request_that_a_controller_serves(node: Node, line: str, answer: str) -> None:
    code, stderr = invoke(line, "-b", node.controller)
    assert (code, answer in stderr) == (1, True), stderr


def test_the_first_of_several_addresses(node: Node) -> None:
    code, stderr = invoke("topic list", "-b", f"127.0.0.1:1,{node.controller},{node.broker}")
    assert (code, f"error: {node.controller} {IS_CONTROLLER}" in stderr) == (3, True), stderr
    assert invoke("topic list", "-b", f"127.0.0.1:1,{node.broker}") == (0, "")


@pytest.mark.parametrize("line", ["schema list", "produce t --value-format avro"])
def test_a_broker_is_no_registry(node: Node, line: str) -> None:
    words = [] if line == "schema list" else ["-b", node.broker]
    code, stderr = invoke(line, "--registry", f"http://{node.broker}", *words)
    complaint = f"http://{node.broker} is a Kafka listener, not a schema registry. `penstock registry start`"
    assert (code, complaint in stderr) == (3, True), stderr


def test_a_broker_is_no_sql_server(node: Node) -> None:
    code, stderr = invoke("sql", "--server", f"http://{node.broker}", "-e", "SHOW TOPICS;")
    complaint = f"no SQL server answers at http://{node.broker} (a Kafka listener is there)"
    assert (code, complaint in stderr) == (3, True), stderr


def test_a_server_that_expects_tls(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Authority(tmp_path / "authority").server.store)

    def shake_hands(connection: socket.socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    with server(shake_hands) as address:
        code, stderr = invoke("topic list", "-b", str(address))
    assert (code, stderr) == (3, f"error: {address} {EXPECTS_TLS}\n")


@pytest.mark.parametrize(
    "settings",
    [
        {"security.protocol": "SASL_PLAINTEXT"},
        {"security.protocol": "ssl"},
        {"kafka.security.protocol": "SSL"},
        {"kafkastore.security.protocol": "SASL_SSL"},
    ],
)
def test_only_a_plaintext_listener_is_asked(settings: dict[str, str]) -> None:
    def be_http(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with server(be_http) as address:
        require_broker(str(address), settings)
        with pytest.raises(typer.Exit):
            require_broker(str(address), {"security.protocol": "plaintext"})


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Kind.HTTP),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Kind.UNKNOWN),
        (b"", Kind.UNKNOWN),
        (b"\0\0\0\x0a\r\n\r\n\0\x23\0\0\0\0", Kind.UNKNOWN),  # Kafka's error UNSUPPORTED_VERSION
        (b"\0\0\0\x10\r\n\r\n\0\0\0\0\0\x01\0\x03\0\0\0\x0d", Kind.BROKER),
        (b"\0\0\0\x10\r\n\r\n\0\0\0\0\0\x01\0\x35\0\0\0\x01", Kind.CONTROLLER),
        (b"\0\0\0\x10\r\n\r\n\0\0\0\0\0\x01\0\x35", Kind.UNKNOWN),  # an incomplete response
    ],
)
def test_the_kind_of_a_server_by_its_answer(answer: bytes, kind: Kind) -> None:
    def reply(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(answer)

    with server(reply) as address:
        assert kind_at(address) is kind


def test_a_server_that_does_not_answer_may_be_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_server, "TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = Address(*listening.getsockname())
        assert kind_at(address) is Kind.UNKNOWN
        require_broker(str(address), {})
