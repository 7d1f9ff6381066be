"""Temporary directories of clusters: who removes them, and when."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.storage.directories.log_directory import DirectoryLock
from penstock.testing.scratch import OWNER, PREFIX

HOLD = "from penstock.testing.scratch import Scratch; held = Scratch(); print(held.path, flush=True); input()"
SWEEP = "from penstock.testing.scratch import Scratch; Scratch().remove()"
FORK = """
import os
from penstock.testing.scratch import Scratch
held = Scratch()
if os.fork() == 0:
    raise SystemExit  # runs what is to be done at the end of a process
os.wait()
print(held.path.exists(), flush=True)
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(parent)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def run(script: str, parent: Path) -> str:
    environment = {**os.environ, "TMPDIR": str(parent)}
    return subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        env=environment,
        timeout=60,
        capture_output=True,
        text=True,
    ).stdout


def test_the_next_run_removes_directories_of_killed_runs_only(tmp_path: Path) -> None:
    killed, abandoned = holder(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert abandoned.exists()
    running, used = holder(tmp_path)
    foreign = tmp_path / f"{PREFIX}foreign"
    foreign.mkdir()
    run(SWEEP, tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([used, foreign])
    running.communicate("\n")
    assert not used.exists()


@pytest.mark.parametrize("runs", [True, False])
def test_a_directory_stays_while_a_node_of_a_killed_run_stops(tmp_path: Path, runs: bool) -> None:
    data = tmp_path / f"{PREFIX}killed" / "data"
    data.mkdir(parents=True)
    (data.parent / OWNER).touch()
    lock = DirectoryLock(data)
    if not runs:
        lock.release()
    run(SWEEP, tmp_path)
    assert data.exists() is runs
    lock.release()


def test_a_fork_leaves_the_directory(tmp_path: Path) -> None:
    assert run(FORK, tmp_path) == "True\n"
    assert not list(tmp_path.iterdir())
