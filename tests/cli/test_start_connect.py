"""`penstock start --connect`: a Connect worker beside one node and beside several."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from broker_wire import Wire
from penstock.cli.main import build_app
from penstock.processes.children import read_until, start_command
from penstock.protocol.messages import MetadataRequest, MetadataResponse

SMALL = "offset.storage.partitions=1\nstatus.storage.partitions=1\nlisteners=http://127.0.0.1:0\n"


def started(directory: Path, *words: str) -> tuple[subprocess.Popen[bytes], list[str], str]:
    """The process, the nodes' addresses, and the address of the worker."""
    config = directory / "connect.properties"
    config.write_text(SMALL)
    data = ["--data-dir", str(directory / "data"), "--listen", "127.0.0.1:0"]
    connect = ["--connect", "--connect-config", str(config)]
    process = start_command(
        ["start", *data, *connect, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    lines = read_until(process.stdout, two_lines, 100)
    assert lines[0].startswith("ready on ")
    assert lines[1].startswith("Connect worker ready at ")
    return process, lines[0].split()[-1].split(","), lines[1].split()[-1]


def two_lines(output: str) -> list[str] | None:
    lines = output.splitlines(keepends=True)
    return lines if len(lines) == 2 and lines[1].endswith("\n") else None


def answer(worker: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{worker}{path}", data, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def worker_of(parent: int) -> int:
    """The process id of the worker that a node started."""
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            is_child = int(each.read_text().rpartition(")")[2].split()[1]) == parent
            words = (each.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:  # a process that has ended meanwhile
            continue
        if is_child and b"connect" in words:
            return int(each.parent.name)
    raise AssertionError(f"process {parent} has no worker")


@pytest.mark.long
@pytest.mark.parametrize("brokers", [[], ["--brokers", "2"]])
def test_a_node_outlives_the_worker_beside_it(tmp_path: Path, brokers: list[str]) -> None:
    process, addresses, worker = started(tmp_path, *brokers)
    assert len(addresses) == (2 if brokers else 1)
    try:
        connector = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines"), "topic": "lines"}
        made = answer(worker, "/connectors", {"name": "lines", "config": connector})
        assert made["config"]["topic"] == "lines"
        os.kill(worker_of(process.pid), signal.SIGKILL)
        with Wire(addresses[0]) as wire:
            assert wire.ask(MetadataRequest(topics=[]), MetadataResponse).brokers
        process.terminate()
        errors = process.communicate(timeout=60)[1].decode()
    finally:
        process.kill()
        process.wait()
    assert "the Connect worker ended with exit code -9" in errors
    assert process.returncode == (1 if brokers else 0)


def test_the_worker_stops_with_the_node(tmp_path: Path) -> None:
    process, _, worker = started(tmp_path)
    try:
        assert answer(worker, "/connectors") == []
        process.terminate()
        errors = process.communicate(timeout=60)[1].decode()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "the Connect worker has stopped" in errors
    assert "ended with exit code" not in errors


def test_a_worker_that_cannot_start_ends_the_node(tmp_path: Path) -> None:
    config = tmp_path / "connect.properties"
    config.write_text("connect.protocol=x\n")
    words = ["start", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    words += ["--connect", "--connect-config", str(config)]
    process = start_command(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read().decode()  # to the end of the process, which `communicate` would end itself
    assert process.wait(60) == 1
    assert "connect.protocol" in errors
    assert "--connect: the Connect worker ended with exit code 1 before it was ready" in errors


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--connect-config", "f"], "--connect-config f: expected --connect with it"),
        (["--connect-listen", "127.0.0.1:0"], "--connect-listen 127.0.0.1:0: expected --connect with it"),
        (["--connect", "--connect-config", "/nowhere"], "--connect-config /nowhere: expected a file"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path: Path, words: list[str], told: str) -> None:
    done = CliRunner().invoke(build_app("start"), ["start", "--data-dir", str(tmp_path / "data"), *words])
    assert done.exit_code == 2
    assert told in done.output
