"""Measure the time from the start of a node's process to its first acknowledgement."""

import socket
import subprocess
import tempfile
import time
from pathlib import Path

from penstock.bench.loadgen import RUN_TIMEOUT_S, Loadgen, parse
from penstock.testing import Cluster


def first_acknowledgement_s(loadgen: Loadgen) -> float:
    """Seconds from launching a node on an empty directory to the first acknowledged record.

    The producer is started first and tries to connect every 5 ms, so the figure includes everything that a
    user waits for: interpreter, imports, an empty data directory, topic creation, the first append.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        port = _free_port()
        command = loadgen.command(
            "produce",
            f"127.0.0.1:{port}",
            "first",
            100,
            1,
            "reconnect.backoff.ms=5",
            "reconnect.backoff.max.ms=5",
        )
        producer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cluster = Cluster(data_dir=Path(scratch) / "data", port=port, fork=False)
        try:
            launched_s = time.monotonic()
            with cluster:
                stdout, stderr = producer.communicate(timeout=RUN_TIMEOUT_S)
        finally:
            producer.kill()
        return parse(producer.returncode, stdout, stderr)["first_s"] - launched_s


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
