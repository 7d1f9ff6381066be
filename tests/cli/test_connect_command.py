"""`penstock connect start` on a real node."""

import json
import subprocess
import sys
import urllib.request
import uuid

from penstock.processes.memory import bound_memory
from penstock.testing import Cluster

READY = "ready on "


def test_a_worker_serves_its_rest_api_until_it_is_terminated(penstock_cluster: Cluster) -> None:
    group = f"worker-{uuid.uuid4().hex[:8]}"
    settings = {"group.id": group, "offset.storage.partitions": "1", "status.storage.partitions": "1"}
    words = ["connect", "start", "--listen", "127.0.0.1:0", "--bootstrap", penstock_cluster.bootstrap_servers]
    words += [f"--set={name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        bound_memory(process.pid)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), line
        address = line.removeprefix(READY).strip()
        with urllib.request.urlopen(f"http://{address}/connectors", timeout=60) as answer:
            assert json.load(answer) == []
        process.terminate()
        rest = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert "the Connect worker has stopped" in rest
    assert process.returncode == 0


def test_an_invalid_property_is_one_line(penstock_cluster: Cluster) -> None:
    words = [
        "connect",
        "start",
        "--bootstrap",
        penstock_cluster.bootstrap_servers,
        "--set=connect.protocol=x",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "connect.protocol" in done.stderr
    assert done.stderr.count("\n") == 1
