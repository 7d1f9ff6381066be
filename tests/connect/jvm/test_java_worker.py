"""`penstock connect jvm`: Apache Kafka Connect's worker with its own plugins, on a Penstock node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from apache_connect_worker import connect_libs
from kafka_node import free_port
from penstock.cli.main import build_app
from penstock.connect.errors import ConfigInvalid
from penstock.connect.jvm import worker_jars, worker_properties
from penstock.processes.children import read_until, start_command
from penstock.testing import Cluster
from waiting import wait_until


def test_clients_of_tasks_log_in_as_the_worker_does(tmp_path: Path) -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "a", "consumer.sasl.jaas.config": "b"}
    found = worker_properties({"bootstrap.servers": "h:1", **login}, [tmp_path / "plugins"])
    assert found["group.id"] == "connect-jvm"
    assert found["config.storage.topic"] == "connect-jvm-configs"
    assert found["plugin.path"] == str(tmp_path / "plugins")
    assert found["producer.sasl.jaas.config"] == "a"
    assert found["consumer.sasl.jaas.config"] == "b"
    assert found["admin.security.protocol"] == "SASL_SSL"
    assert "producer.bootstrap.servers" not in found


def test_jars_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"found no connect-runtime-….jar in .*expected Kafka Connect's"):
        worker_jars([tmp_path])
    done = CliRunner().invoke(build_app("connect"), ["connect", "jvm", "--jars", str(tmp_path / "nothing")])
    assert done.exit_code == 2
    assert f"{tmp_path / 'nothing'} is no directory" in done.output.replace("\n", "")


@pytest.fixture(scope="module")
def libs() -> Path:
    return connect_libs()


class Started:
    """The command, which is ready."""

    def __init__(self, servers: str, libs: Path) -> None:
        group = f"jvm-{uuid.uuid4().hex[:8]}"
        words = ["connect", "jvm", "--jars", str(libs), "--bootstrap", servers, "--heap", "600m"]
        words += ["--listen", f"127.0.0.1:{free_port()}", "--set", f"group.id={group}"]
        words += ["--set=offset.storage.partitions=1", "--set=status.storage.partitions=1"]
        self.process = start_command(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        self.address = read_until(self.process.stdout, ready, 110).split()[-1]

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=100) as answer:
            return json.load(answer)

    def java(self) -> int:
        """The process id of the JVM."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        [found] = [each for each in map(int, children) if b"ConnectDistributed" in command_line(each)]
        return found


def ready(output: str) -> str | None:
    return output if output.endswith("\n") else None


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_java_plugin_moves_records(penstock_cluster: Cluster, libs: Path, tmp_path: Path) -> None:
    servers = penstock_cluster.bootstrap_servers
    file, topic = tmp_path / "lines", f"lines-{uuid.uuid4().hex[:8]}"
    file.write_text("tea\nmilk\n")
    started = Started(servers, libs)
    try:
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(file),
            "topic": topic,
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }
        started.ask("/connectors", {"name": "lines", "config": config})
        assert values_of(servers, topic, 2) == [b"tea", b"milk"]
        started.process.terminate()
        errors = started.process.communicate(timeout=100)[1].decode()
    finally:
        started.process.kill()
        started.process.wait()
    assert started.process.returncode == 0
    assert "the Java worker has stopped" in errors


def values_of(servers: str, topic: str, count: int) -> list[bytes | None]:
    """The first values of a topic; the test's timeout is the limit."""
    settings = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "topic.metadata.refresh.interval.ms": 200})
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    while len(values) < count:
        record = consumer.poll(1.0)
        if record is not None and record.error() is None:
            values.append(record.value())
    consumer.close()
    return values


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_jvm_ends_with_the_command(penstock_cluster: Cluster, libs: Path) -> None:
    started = Started(penstock_cluster.bootstrap_servers, libs)
    java = started.java()
    os.kill(started.process.pid, signal.SIGKILL)
    started.process.wait()
    wait_until(lambda: not Path(f"/proc/{java}").exists(), 100)
