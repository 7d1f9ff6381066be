"""The log of `penstock registry start`."""

import json
import subprocess
import sys
import uuid

from penstock.processes.memory import bound_memory
from penstock.testing import Cluster
from registry_node import properties


def test_a_registry_logs_json_from_the_given_level_on(penstock_cluster: Cluster) -> None:
    servers = penstock_cluster.bootstrap_servers
    settings = [f"--set={key}={value}" for key, value in properties(servers, uuid.uuid4().hex[:8]).items()]
    words = ["registry", "start", "--listen", "127.0.0.1:0", "--bootstrap", servers, *settings]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words, "--log-level", "info", "--log-format", "json"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        bound_memory(process.pid)
        assert process.stderr is not None
        lines: list[str] = []
        while not lines or "ready at" not in lines[-1]:
            line = process.stderr.readline()
            assert line, lines
            lines.append(line)
        process.terminate()
        lines += process.communicate(timeout=60)[1].splitlines()
    finally:
        process.kill()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    [leader] = [each for each in events if each["message"] == "the leader is known"]
    assert (leader["level"], leader["fields"]["is_this_instance"]) == ("INFO", True)
