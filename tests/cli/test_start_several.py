"""`penstock start --brokers N`: one command, several nodes."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from broker_wire import Wire
from certificates import Authority
from penstock.broker.setup.local_cluster import NodePlan, properties_of
from penstock.processes.memory import bound_memory
from penstock.protocol.messages import MetadataRequest, MetadataResponse
from penstock.storage.directories import meta_properties
from registry_node import ask
from waiting import wait_until


def start(data_dir: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock", "start", "--data-dir", str(data_dir), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    bound_memory(process.pid)
    return process


@contextmanager
def started(data_dir: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """The supervisor and the nodes' addresses; at the end it is stopped, and must exit in time."""
    process = start(data_dir, *arguments)
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 60)[0], "nothing within a minute"
        line = process.stdout.readline().decode()
        found = re.fullmatch(r"ready on (\S+)\n", line)
        assert found, line + (process.stderr.read().decode() if process.stderr else "")
        yield process, found[1].split(",")
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()


def brokers(address: str) -> dict[int, str]:
    with Wire(address) as wire:
        response = wire.ask(MetadataRequest(topics=[]), MetadataResponse)
    return {broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers}


def know_each_other(addresses: list[str]) -> None:
    """Wait until each node knows all: some may learn a moment after the last one that it is ready."""
    expected = dict(enumerate(addresses, 1))
    for address in addresses:
        wait_until(lambda address=address: brokers(address) == expected)


def test_three_nodes_from_one_command_and_a_fourth_later(tmp_path: Path) -> None:
    with started(tmp_path, "--listen", "127.0.0.1:0", "--brokers", "3") as (process, addresses):
        know_each_other(addresses)
    assert process.returncode == 0
    cluster_ids = {
        found.cluster_id
        for node in (1, 2, 3)
        if (found := meta_properties.read(tmp_path / f"node-{node}")) is not None
    }
    assert len(cluster_ids) == 1
    assert "process.roles=broker,controller" in (tmp_path / "node-3.properties").read_text()
    with started(tmp_path, "--listen", "127.0.0.1:0", "--brokers", "4") as (process, addresses):
        know_each_other(addresses)
    assert process.returncode == 0
    assert "process.roles=broker\n" in (tmp_path / "node-4.properties").read_text()


def test_a_registry_stands_beside_the_nodes(tmp_path: Path) -> None:
    words = ["--listen", "127.0.0.1:0", "--brokers", "3", "--registry", "--registry-listen", "127.0.0.1:0"]
    with started(tmp_path, *words) as (process, addresses):
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        url = line.removeprefix("schema registry ready at ").strip()
        assert url != line.strip(), line + (process.stderr.read().decode() if process.stderr else "")
        schema = {"schema": '"long"'}
        assert ask(url, "POST", "/subjects/a-value/versions", schema).body["id"] == 1
        with Wire(addresses[1]) as wire:
            response = wire.ask(
                MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="_schemas")]),
                MetadataResponse,
            )
        assert len(response.topics[0].partitions[0].replica_nodes) == 3
        for node in (1, 2, 3):
            text = (tmp_path / f"node-{node}.properties").read_text().replace("\\:", ":")
            assert f"confluent.schema.registry.url={url}\n" in text
        killed = next(pid for pid in children(process.pid) if "node-1.properties" in command_line(pid))
        os.kill(killed, signal.SIGKILL)
        assert ask(url, "POST", "/subjects/b-value/versions", {"schema": '"int"'}).body["id"] == 2
    assert process.stderr is not None
    assert b"node 1 ended with exit code -9" in process.stderr.read()


def test_a_registry_beside_the_nodes_has_users_and_tls(tmp_path: Path) -> None:
    """The nodes ask it, too, with the login that their settings have."""
    authority = Authority(tmp_path / "authority")
    (tmp_path / "users").write_text("ann: secret, writer\nnode: n, reader\n")
    (tmp_path / "registry.properties").write_text(
        f"listeners=https://127.0.0.1:0\nhost.name=localhost\nssl.keystore.location={authority.server.store}\n"
        f"authentication.method=BASIC\npenstock.authentication.users={tmp_path / 'users'}\n"
    )
    of_nodes = {
        "confluent.basic.auth.user.info": "node:n",
        "confluent.ssl.truststore.location": str(authority.certificate),
    }
    words = ["--listen", "127.0.0.1:0", "--brokers", "2", "--registry"]
    words += ["--registry-config", str(tmp_path / "registry.properties")]
    words += [word for name, value in of_nodes.items() for word in ("--set", f"{name}={value}")]
    with started(tmp_path / "data", *words) as (process, addresses):
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        url = line.removeprefix("schema registry ready at ").strip()
        assert url.startswith("https://localhost:"), line
        trusted = {"url": url, "ssl.ca.location": str(authority.certificate)}
        client = SchemaRegistryClient({**trusted, "basic.auth.user.info": "ann:secret"})
        assert client.register_schema("orders-value", Schema('"string"', "AVRO")) == 1
        with pytest.raises(SchemaRegistryError):
            SchemaRegistryClient(trusted).get_subjects()
        servers = ",".join(addresses)
        assert produced(servers, b"\0\0\0\0\1" + b"\2a") is None
        refused = produced(servers, b"\0\0\0\0\2")
        assert refused is not None
        assert refused.code() == KafkaError.INVALID_RECORD


def produced(servers: str, value: bytes) -> KafkaError | None:
    """Produce a record to a topic that checks its values; return the broker's error."""
    checks = {"confluent.value.schema.validation": "true"}
    admin = AdminClient({"bootstrap.servers": servers})
    (made,) = admin.create_topics([NewTopic("orders", 1, 1, config=checks)]).values()
    with suppress(KafkaException):  # it exists already
        made.result(60)
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 30_000})
    producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors[0]


def test_a_registry_that_cannot_listen_ends_the_nodes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["--listen", "127.0.0.1:0", "--brokers", "1", "--registry", "--registry-listen", at]
        process = start(tmp_path, *words)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"cannot listen on {at}" in errors.decode()
    assert "Traceback" not in errors.decode()


@contextmanager
def free_pair() -> Iterator[int]:
    """The first of two consecutive free ports.

    Sockets that are bound, but do not listen, keep them from other processes. The nodes may still bind them.
    """
    while True:
        with socket.socket() as first, socket.socket() as second:
            for sock in (first, second):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):  # taken, or there is no such port: try another pair
                continue
            yield port
            return


def test_ports_are_counted_up_and_a_lost_node_is_told_of(tmp_path: Path) -> None:
    with (
        free_pair() as port,
        started(tmp_path, "--listen", f"127.0.0.1:{port}", "--brokers", "2") as (process, addresses),
    ):
        assert addresses == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
        killed = next(pid for pid in children(process.pid) if "node-2.properties" in command_line(pid))
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: 2 not in brokers(addresses[0]))  # the lost node is fenced
    assert process.stderr is not None
    assert b"node 2 ended with exit code -9" in process.stderr.read()
    assert process.returncode == 1


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--config", "x.properties"], "a file describes one node"),
        (["--node-id", "3"], "without --node-id"),
        (["--set", "log.segment.bytes=many"], "log.segment.bytes"),
        (["--listen", "nowhere"], "expected HOST:PORT"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_starts(
    tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    process = start(tmp_path / "data", "--brokers", "2", *arguments)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert complaint in errors.decode()
    assert not (tmp_path / "data").exists()


def test_fewer_nodes_than_there_are(tmp_path: Path) -> None:
    for node in (1, 2, 3):
        listeners = f"PLAINTEXT://127.0.0.1:1957{node}"
        content = f"process.roles=broker\nlisteners={listeners}\n"
        (tmp_path / f"node-{node}.properties").write_text(content)
    process = start(tmp_path, "--brokers", "2")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "has 3 nodes" in errors.decode()


def test_nodes_on_all_addresses_advertise_localhost(tmp_path: Path) -> None:
    with started(tmp_path, "--brokers", "2", "--listen", "0.0.0.0:0") as (_, addresses):
        ports = [int(each.rpartition(":")[2]) for each in addresses]
        expected = {number: f"localhost:{port}" for number, port in enumerate(ports, 1)}
        wait_until(lambda: brokers(f"127.0.0.1:{ports[0]}") == expected)


def test_each_node_has_a_port_for_metrics(tmp_path: Path) -> None:
    plans = [NodePlan(number, ("broker",), tmp_path / str(number), 9091 + number) for number in (1, 2, 3)]

    def port_of(plan: NodePlan, port: str) -> str:
        return properties_of(plan, plans, {"penstock.metrics.port": port})["penstock.metrics.port"]

    assert [port_of(plan, "9464") for plan in plans] == ["9464", "9465", "9466"]
    assert [port_of(plan, "0") for plan in plans] == ["0", "0", "0"]
