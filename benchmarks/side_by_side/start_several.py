"""`penstock start --brokers N`: the gain from more nodes of one command on this machine's cores."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from penstock.bench.process import process_cost
from side_by_side.data import Data
from side_by_side.session import RunFailed
from side_by_side.three_node_rows import RUN_TIMEOUT_S, Bench, Figures

COUNTS = (1, 2, 4)
START_WITHIN_S = 60
CONNECTIONS = 4
PAYLOAD_BYTES = 3e9
PARTITIONS = 4
"""The number of partitions of each node."""


def name_of(count: int) -> str:
    """Return the row's name."""
    return f"--brokers {count}"


def run(count: int, directory: Path, bench: Bench) -> Figures:
    """Measure nodes that lead partitions without other replicas, each with its own client; none is pinned."""
    data = Data(1024)
    with _started(count, directory) as (pid, addresses):
        topics = _create_topics(addresses)
        _load(addresses, topics, data, bench, 0.1)  # a warm-up that is not counted
        before_s = _cpu_s(pid)
        began_s = time.monotonic()
        printed = _load(addresses, topics, data, bench, 1)
        seconds = time.monotonic() - began_s
        cpu_s = _cpu_s(pid) - before_s
    records = sum(one["records"] for one in printed)
    client_cpu_s = sum(one["client_cpu_s"] for one in printed)
    return {
        "records/s": records / seconds,
        "records per CPU s": records / cpu_s,
        "cores of the nodes": cpu_s / seconds,
        "cores of the clients": client_cpu_s / seconds,
    }


@contextmanager
def _started(count: int, directory: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the supervisor's process id and the nodes' addresses."""
    shutil.rmtree(directory, ignore_errors=True)
    words = ["start", "--brokers", str(count), "--data-dir", str(directory)]
    command = [sys.executable, "-m", "penstock", *words, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        is_ready = select.select([process.stdout], [], [], START_WITHIN_S)[0]
        line = process.stdout.readline() if is_ready else ""
        if not line.startswith("ready on "):
            raise RunFailed(f"penstock start --brokers {count}: expected 'ready on …', found {line!r}")
        yield process.pid, line.split()[-1].split(",")
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _create_topics(addresses: list[str]) -> list[str]:
    """Create one topic for each node, which leads it alone."""
    admin = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})
    ids = sorted(admin.list_topics(timeout=30).brokers)
    topics = [
        NewTopic(f"of-{node_id}", PARTITIONS, replica_assignment=[[node_id]] * PARTITIONS) for node_id in ids
    ]
    for created in admin.create_topics(topics).values():
        created.result(60)
    time.sleep(1)  # lets each leader learn of its topic
    return [topic.topic for topic in topics]


def _load(
    addresses: list[str], topics: list[str], data: Data, bench: Bench, share: float
) -> list[dict[str, float]]:
    """Run a raw client for each node, all at once."""
    per_request_bytes = data.per_batch * data.size_bytes * PARTITIONS
    requests = max(50, int(bench.scale * share * PAYLOAD_BYTES / len(addresses) / per_request_bytes))
    clients = []
    for address, topic in zip(addresses, topics, strict=True):
        options = {
            "batches": data.file(bench.cache),
            "requests": requests,
            "partitions": PARTITIONS,
            "per_request": PARTITIONS,
            "connections": CONNECTIONS,
        }
        words = bench.loadgen.raw_command("produce", address, topic, **options)
        clients.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    printed = []
    for client in clients:
        out, error = client.communicate(timeout=RUN_TIMEOUT_S)
        if client.returncode:
            raise RunFailed(f"the raw client ended with {client.returncode}: {error[-500:]}")
        printed.append(json.loads(out))
    return printed


def _cpu_s(pid: int) -> float:
    """The processor time of a process and all its running descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return process_cost(pid).cpu_seconds + sum(_cpu_s(int(child)) for child in children)
