"""Nodes as forks behave for a test like nodes in processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.processes.forked_nodes import close_pipes, start_node
from penstock.testing import Cluster
from waiting import wait_until


def parent_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only its parent has not asked for its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_nodes_are_forks_of_one_process_with_sessions_of_their_own() -> None:
    with Cluster() as one, Cluster() as other:
        assert parent_of(one.pid) == parent_of(other.pid) != os.getpid()
        assert os.getsid(one.pid) == one.pid
        assert os.getsid(other.pid) == other.pid


def test_environment_and_directory_are_those_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster():  # starts the process that forks, so that it exists already
        pass
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    monkeypatch.chdir(tmp_path)
    with Cluster(data_dir="here") as cluster:
        assert Path(f"/proc/{cluster.pid}/cwd").readlink() == tmp_path
        assert (tmp_path / "here" / "meta.properties").exists()


def test_modules_are_imported_again_where_their_variables_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster() as before:
        monkeypatch.setenv("PENSTOCK_PURE_PYTHON", "1")
        with Cluster() as after:
            assert parent_of(before.pid) != parent_of(after.pid)
        assert before.nodes[0].is_running


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)], ids=["killed", "stopped"]
)
def test_the_exit_code_is_known(tmp_path: Path, number: signal.Signals, code: int) -> None:
    words = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with (tmp_path / "log").open("ab") as log:
        node = start_node(words, log)
    assert b"ready on" in node.stdout.readline()
    assert node.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        node.wait(0.01)
    node.send_signal(number)
    assert node.wait(60) == node.poll() == code
    node.terminate()  # must not signal a new process with the same pid
    close_pipes(node)


def test_what_is_wrong_with_the_arguments_is_in_the_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as log:
        node = start_node(["--listen", "nowhere"], log)
    assert node.wait(60) == 2
    assert "expected HOST:PORT" in (tmp_path / "log").read_text()
    close_pipes(node)


def test_another_process_forks_nodes_after_one_was_killed() -> None:
    with Cluster() as before:
        node, forker = before.pid, parent_of(before.pid)
        os.kill(forker, signal.SIGKILL)
        wait_until(lambda: parent_of(node) != forker)
        with Cluster() as after:
            assert parent_of(after.pid) not in (forker, os.getpid())
    wait_until(lambda: not Path(f"/proc/{node}").exists())


SCRIPT = """
import os, signal
from penstock.testing import Cluster
cluster = Cluster(fork={fork}).start()
if {is_paused}:
    cluster.pause()
print(cluster.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("fork", "is_paused"),
    [(True, False), (True, True), (False, True)],
    ids=["fork", "paused fork", "paused command"],
)
def test_nodes_end_with_a_killed_test(fork: bool, is_paused: bool) -> None:
    script = SCRIPT.format(fork=fork, is_paused=is_paused)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    node = int(done.stdout)
    wait_until(lambda: has_ended(node))


def test_a_fork_of_the_test_process_has_a_forker_of_its_own() -> None:
    with Cluster() as ours:
        pid = os.fork()
        if pid == 0:
            with Cluster() as theirs:
                os._exit(0 if parent_of(theirs.pid) != parent_of(ours.pid) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert ours.nodes[0].is_running
