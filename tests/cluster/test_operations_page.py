"""Run every command of docs/operations.md unchanged, in one shell, from top to bottom.

The page names ports, so the test runs in its own network if the machine allows it; otherwise those ports must
be free.
"""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_network import IN_OWN_NETWORK, is_possible

from penstock.processes.memory import bound_memory

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
STEP_TIMEOUT_S = 120
END = "--- the step has ended: "
PORTS = (*range(9092, 9097), *range(9192, 9197))

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_OPERATIONS_PAGE"),
        reason="five nodes and a minute: PENSTOCK_OPERATIONS_PAGE=1, or make test-cluster",
    ),
]


class Shell:
    """A bash process, with its output up to the end of each step."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        bin_directory = directory / "bin"
        bin_directory.mkdir()
        script = bin_directory / "penstock"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
        script.chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_BOOTSTRAP"}
        self._process = subprocess.Popen(
            [*own_network(), "bash", "--norc"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment, "PATH": f"{bin_directory}:{os.environ['PATH']}"},
            start_new_session=True,
        )
        bound_memory(self._process.pid)

    def run(self, line: str) -> str:
        """Run a command and return its output. It must succeed; a background command only has to start."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\necho '{END}'$?\n".encode())
        self._process.stdin.flush()
        printed = ""
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while (found := re.search(rf"^{END}(\d+)$", printed, re.MULTILINE)) is None:
            assert time.monotonic() < deadline, f"{line}\n{printed}"
            if select.select([self._process.stdout], [], [], 1)[0]:
                printed += os.read(self._process.stdout.fileno(), 65536).decode()
        assert found[1] == "0", f"{line}\nended with {found[1]}:\n{printed}"
        return printed[: found.start()]

    def close(self) -> None:
        """End every process of the session."""
        jobs = subprocess.run(
            ["pgrep", "--session", str(self._process.pid)], capture_output=True, text=True, check=False
        )
        for pid in jobs.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        self._process.kill()
        self._process.wait()


def own_network() -> list[str]:
    if is_possible():
        return list(IN_OWN_NETWORK)
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port} is taken, and this machine gives a test no network of its own")
    return []


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    try:
        yield made
    finally:
        made.close()


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def test_every_step_as_written(shell: Shell) -> None:
    lines = commands()
    assert len(lines) > 30
    printed = [(line, shell.run(line)) for line in lines]

    def shown(beginning: str, nth: int = 0) -> str:
        return [text for line, text in printed if line.startswith(beginning)][nth]

    first = shown("penstock cluster status --wait 1m")
    assert "6 partitions" not in first
    assert first.count("active") == 3
    assert "2000" in shown("penstock consume orders").split()
    lost = shown("penstock cluster status", 1)
    assert "0 offline" in lost
    assert shown("penstock cluster status --wait 1m", 2).count("active") == 5
    assert "replicas to copy" in shown("penstock cluster rebalance --dry-run")
    assert "moved" in shown("penstock cluster rebalance --throttle")
    assert "broker 5 is unregistered" in shown("penstock cluster unregister 5")
    assert "broker 4 is unregistered" in shown("penstock cluster unregister 4")
    last = shown("penstock cluster status --wait 2m", 2)
    assert last.count("active") == 3
    assert "0 under-replicated, 0 under min.insync.replicas, 0 offline, 0 moving" in last
