"""`penstock start` as users start it: signals, addresses, and ports in use."""

from __future__ import annotations

import json
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import javaproperties
import pytest

from broker_wire import Wire
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.topics import internal_topic
from penstock.processes.memory import bound_memory
from penstock.protocol.kernels import IMPLEMENTATION
from penstock.protocol.messages import MetadataRequest, MetadataResponse
from penstock.protocol.software import VERSION


def start(
    data_dir: Path, *arguments: str, hangups: signal.Handlers = signal.SIG_DFL
) -> subprocess.Popen[str]:
    """Start a node; ``hangups`` is what its parent does with SIGHUP."""
    command = [sys.executable, "-m", "penstock", "start", "--data-dir", str(data_dir), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, hangups),
    )
    bound_memory(process.pid)
    return process


@contextmanager
def started(data_dir: Path, *arguments: str, hangups: signal.Handlers = signal.SIG_DFL) -> Iterator[Node]:
    """A node that is ready."""
    process = start(data_dir, *arguments, hangups=hangups)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert select.select([process.stdout], [], [], 60)[0], "nothing within a minute"
        found = re.fullmatch(r"ready on (\S+):(\d+)\n", process.stdout.readline())
        assert found is not None, process.stderr.read()
        yield Node(process, int(found[2]))
    finally:
        process.kill()
        process.communicate()


class Node:
    """A node's process, and its port."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def advertised(self) -> str:
        with Wire(f"127.0.0.1:{self.port}") as wire:
            [broker] = wire.ask(MetadataRequest(topics=[]), MetadataResponse).brokers
        return f"{broker.host}:{broker.port}"


def refusal(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the message of a node that does not start."""
    process = start(data_dir, *arguments)
    _, message = process.communicate(timeout=60)
    return process.returncode, message


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_signals_stop_a_node_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "--listen", "127.0.0.1:0") as node:
        node.process.send_signal(number)
        assert node.process.wait(60) == 0


def test_a_node_under_nohup_survives_its_terminal(tmp_path: Path) -> None:
    with started(tmp_path, "--listen", "127.0.0.1:0", hangups=signal.SIG_IGN) as node:
        node.process.send_signal(signal.SIGHUP)
        assert node.advertised() == f"127.0.0.1:{node.port}"
        assert node.process.poll() is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--listen", "0.0.0.0:0"], "localhost:PORT"),
        (["--listen", "0.0.0.0:0", "--advertised", "kafka.example:9092"], "kafka.example:9092"),
        (
            ["--listen", "0.0.0.0:0", "--set", "advertised.listeners=PLAINTEXT://here.example:1"],
            "here.example:1",
        ),
        (["--listen", "127.0.0.1:0", "--advertised", "localhost:19092"], "localhost:19092"),
    ],
)
def test_what_is_advertised(tmp_path: Path, arguments: list[str], expected: str) -> None:
    with started(tmp_path, *arguments) as node:
        assert node.advertised() == expected.replace("PORT", str(node.port))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--listen", "127.0.0.1:0", "--set", "listeners=PLAINTEXT://127.0.0.1:0"],
            "--listen 127.0.0.1:0: expected it without --set listeners=PLAINTEXT://127.0.0.1:0",
        ),
        (
            ["--advertised", "here:1", "--set", "advertised.listeners=PLAINTEXT://there:1"],
            "--advertised here:1: expected it without --set advertised.listeners=PLAINTEXT://there:1",
        ),
        (["--advertised", "here"], "--advertised here: expected HOST:PORT"),
        (["--brokers", "2", "--advertised", "here:1"], "--advertised here:1: expected one node"),
        (["--set", "listeners=PLAINTEXT://0.0.0.0:0"], "(penstock start --advertised HOST:PORT)"),
    ],
)
def test_addresses_that_are_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    code, printed = refusal(tmp_path, *arguments)
    assert (code, message in printed) == (2, True), printed


def test_a_port_for_metrics_that_is_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, printed = refusal(tmp_path, "--listen", "127.0.0.1:0", "--set", f"penstock.metrics.port={port}")
    assert code == 1
    assert f"cannot serve metrics at 127.0.0.1:{port}: Address already in use" in printed
    assert "penstock.metrics.port" in printed


def log_of(data_dir: Path, *arguments: str) -> list[str]:
    """Start a node, stop it, and return what it has logged."""
    process = start(data_dir, "--listen", "127.0.0.1:0", *arguments)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready on ")
        process.terminate()
        _, log = process.communicate(timeout=60)
        return log.splitlines()
    finally:
        process.kill()


def test_log_lines_as_json(tmp_path: Path) -> None:
    events = [json.loads(line) for line in log_of(tmp_path, "--log-format", "json")]
    [elected] = [each for each in events if each["message"] == "metadata quorum leader"]
    assert (elected["level"], elected["logger"]) == ("INFO", "penstock.broker.quorum.driver")
    assert elected["fields"] == {"epoch": 1}


def test_log_levels(tmp_path: Path) -> None:
    lines = log_of(tmp_path / "1", "--set", "penstock.log.level=info")
    assert lines[0].endswith(
        f" INFO penstock.cli.start starting node_id=1 version={VERSION} kernels={IMPLEMENTATION}"
    )
    assert any(re.search(r"Z INFO penstock\.\S+ metadata quorum leader epoch=1$", line) for line in lines)
    assert not [line for line in lines if " DEBUG " in line]
    assert log_of(tmp_path / "2", "--log-level", "error") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--set", "penstock.log.level=LOUD"], "Invalid value LOUD for configuration penstock.log.level"),
        (["--set", "penstock.log.format=xml"], "Invalid value xml for configuration penstock.log.format"),
        (
            ["--log-level", "WARN", "--set", "penstock.log.level=INFO"],
            "--log-level WARN: expected it without --set penstock.log.level=INFO",
        ),
    ],
)
def test_wrong_settings_of_the_log(tmp_path: Path, arguments: list[str], expected: str) -> None:
    code, message = refusal(tmp_path, *arguments)
    assert (code, expected in message) == (2, True), message


def test_the_file_for_one_node_in_the_docs_describes_a_whole_cluster() -> None:
    page = (Path(__file__).parents[2] / "docs" / "running.md").read_text()
    [text] = re.findall(r"^```properties\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    config = BrokerConfig.from_properties(javaproperties.loads(text))
    assert config.is_quorum_of_one
    for topic in ("__consumer_offsets", "__transaction_state"):
        asked = internal_topic(topic, config)
        minimum = {each.name: each.value for each in asked.configs}.get("min.insync.replicas", "1")
        assert (asked.replication_factor, minimum) == (1, "1")


def test_a_service_manager_learns_when_the_node_is_ready_and_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with started(tmp_path / "data", "--listen", "127.0.0.1:0") as node:
            assert manager.recv(100) == b"READY=1"
            node.process.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert node.process.wait(60) == 0
