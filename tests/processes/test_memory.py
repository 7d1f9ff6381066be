"""The memory bound of nodes that tests start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.processes.memory import MEMORY_MAX, bound_memory
from penstock.testing import Cluster, ClusterError
from several_nodes import penstock_nodes

TAKES_64_MIB = "input(); taken = bytearray(64 << 20); print(len(taken))"


def data_limit(pid: int) -> str:
    """The soft limit that the kernel shows for a process: bytes, or `unlimited`."""
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[3] for line in limits if line.startswith("Max data size"))


def test_the_nodes_of_this_run_are_bound(penstock_cluster: Cluster, tmp_path: Path) -> None:
    bound = os.environ[MEMORY_MAX]
    assert data_limit(penstock_cluster.pid) == bound
    cluster = penstock_nodes(tmp_path, nodes=1)
    try:
        cluster.nodes[1].launch()
        assert data_limit(cluster.nodes[1].pid) == bound
    finally:
        cluster.stop()


@pytest.mark.parametrize(("bound", "ends"), [("50000000", b"MemoryError"), ("200000000", b"67108864")])
def test_a_process_beyond_the_bound_gets_no_memory(
    bound: str, ends: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MEMORY_MAX, bound)
    command = [sys.executable, "-c", TAKES_64_MIB]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        bound_memory(process.pid)
        printed, _ = process.communicate(b"\n", timeout=60)
    assert printed.rstrip().endswith(ends)


def test_a_node_beyond_the_bound_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, or if a thread of the interpreter gets no memory for its first step, waits for that thread."""
    monkeypatch.setenv(MEMORY_MAX, "16000000")
    with pytest.raises(ClusterError, match=r"before it was ready|was not ready within"):
        Cluster().start()


def test_without_the_variable_there_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MEMORY_MAX)
    with Cluster() as cluster:
        assert data_limit(cluster.pid) == data_limit(os.getpid())
