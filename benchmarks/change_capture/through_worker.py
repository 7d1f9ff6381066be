"""Changes through a worker into a topic: changes per second, and per CPU second of the worker.

PYTHONPATH=benchmarks python -m change_capture.through_worker [--changes 300000] [--exactly-once]

The database, the broker and the worker share the machine's cores.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from change_capture.__main__ import CASES, connector_properties, prepare
from change_capture.test_parts import restartable_server
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.worker import calm_garbage_collector, start
from penstock.testing import Cluster

WAIT_S: Final = 0.05


def main() -> None:
    """Run each case once, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=300_000)
    parser.add_argument("--exactly-once", action="store_true")
    parser.add_argument("--case", choices=CASES, action="append")
    arguments = parser.parse_args()
    print("| changes | per second | per CPU second of the worker |\n| --- | --- | --- |")
    with restartable_server() as server, Cluster() as cluster:
        for case in arguments.case or CASES:
            slot = f"slot_{CASES[case] + 1}"
            database = f"changes_{abs(CASES[case])}_{CASES[case] < 0:d}"
            prepare(server, database, CASES[case], arguments.changes, [slot])
            properties = connector_properties(server.port, database, slot, not CASES[case])
            rates = _captured(cluster.bootstrap_servers, properties, arguments)
            print(f"| {case} | {rates[0]:,.0f} | {rates[1]:,.0f} |", flush=True)


def _captured(
    bootstrap: str, properties: dict[str, Any], arguments: argparse.Namespace
) -> tuple[float, float]:
    group = f"bench-{uuid.uuid4().hex[:8]}"
    worker_properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "exactly.once.source.support": "enabled" if arguments.exactly_once else "disabled",
        "listeners": "http://127.0.0.1:0",
    }
    config = {
        **properties,
        "name": group,
        "topic.prefix": group,
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    if arguments.exactly_once:
        config["transaction.boundary"] = "connector"
    with start(worker_properties) as worker:
        worker.wait_until_ready()
        calm_garbage_collector()
        body = json.dumps({"name": group, "config": config}).encode()
        created = WorkerClient().ask("POST", f"{worker.url}/connectors", body)
        assert created.status == 201, created.message
        end = _End(bootstrap, f"{group}.public.orders")
        while not end.offset():
            time.sleep(WAIT_S)
        began, cpu, first = time.monotonic(), time.process_time(), end.offset()
        while end.offset() < arguments.changes:
            time.sleep(WAIT_S)
        done = arguments.changes - first
        return done / (time.monotonic() - began), done / (time.process_time() - cpu)


class _End:
    """The end of a topic with one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
        self._partition = TopicPartition(topic, 0)

    def offset(self) -> int:
        try:
            found: int = self._consumer.get_watermark_offsets(self._partition, timeout=5)[1]
        except Exception:  # the topic is not there yet
            return 0
        return found


if __name__ == "__main__":
    main()
