"""Registries while brokers die and leaders hang: acknowledged schemas stay, each with its own id.

PENSTOCK_CLUSTER_FAULTS enables it and is the number of killed brokers; PENSTOCK_SEED repeats random choices.
"""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.testing import Cluster
from registry_node import RegistryProcess, ask, avro, started

FAULTS = int(os.environ.get("PENSTOCK_CLUSTER_FAULTS", "0"))
SEED = int(os.environ.get("PENSTOCK_SEED", time.time_ns() % 2**32))
WRITERS = 6
WITHIN_S = 90
TUNED = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}

pytestmark = [
    pytest.mark.skipif(not FAULTS, reason="takes a minute: PENSTOCK_CLUSTER_FAULTS=4, or make test-cluster"),
    pytest.mark.timeout(120 + 60 * FAULTS),
]


def test_acknowledged_schemas_outlive_brokers() -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    more = {"kafkagroup.session.timeout.ms": "2000", "kafkastore.topic.replication.factor": "3"}
    with Cluster(TUNED, nodes=3) as cluster:
        instances = [started(cluster.bootstrap_servers, "faults", **more) for _ in range(2)]
        urls = [each.url for each in instances]
        is_over = threading.Event()
        acknowledged: dict[str, int] = {}

        def write(writer: int) -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                subject = f"w{writer}-{number}"
                body = avro(f"R{writer}x{number}", "a")
                deadline = time.monotonic() + WITHIN_S
                while (
                    answer := ask(urls[writer % 2], "POST", f"/subjects/{subject}/versions", body)
                ).status >= 500:
                    assert time.monotonic() < deadline, answer
                    time.sleep(0.1)
                assert answer.status == 200, answer
                acknowledged[subject] = answer.body["id"]

        try:
            with ThreadPoolExecutor(WRITERS) as threads:
                running = [threads.submit(write, writer) for writer in range(WRITERS)]
                try:
                    for _ in range(FAULTS):
                        time.sleep(dice.uniform(0.5, 2))
                        node = cluster.node(dice.randint(1, 3))
                        known = len(acknowledged)
                        node.kill()
                        deadline = time.monotonic() + WITHIN_S
                        while len(acknowledged) < known + WRITERS + 1 and not any(r.done() for r in running):
                            assert time.monotonic() < deadline, "nothing was written after a broker had died"
                            time.sleep(0.1)
                        node.restart()
                finally:
                    is_over.set()
                for each in running:
                    each.result()
            assert len(set(acknowledged.values())) == len(acknowledged)
            fresh = started(cluster.bootstrap_servers, "faults", **more)
            instances.append(fresh)
            for subject, number in acknowledged.items():
                found = ask(fresh.url, "GET", f"/subjects/{subject}/versions/1").body
                assert found["id"] == number
        finally:
            for each in reversed(instances):
                each.close()


def test_a_leader_that_was_stopped_for_long_does_not_write_when_it_goes_on() -> None:
    with Cluster({"group.min.session.timeout.ms": "500"}) as cluster:
        _stopped_for_long(cluster.bootstrap_servers, "stopped", {"kafkagroup.session.timeout.ms": "1000"})


def _stopped_for_long(servers: str, name: str, more: dict[str, str]) -> None:
    former = RegistryProcess(servers, name, **more)
    other = started(servers, name, **more)
    try:
        before = other.store.election.wait_for_leader(WITHIN_S)
        assert not before.is_own
        assert ask(former.url, "POST", "/subjects/s/versions", avro("R", "a")).body["id"] == 1
        former.pause()
        # The leader hangs and rejects no connection, so its successor is elected once its session expires.
        assert other.store.election.wait_for_another(before, WITHIN_S).is_own
        assert ask(other.url, "POST", "/subjects/s/versions", avro("R", "a", "b?")).body["id"] == 2
        former.resume()
        answer = ask(former.url, "POST", "/subjects/s/versions", avro("R", "a", "b?", "c?"))
        assert (answer.status, answer.body["id"]) == (200, 3)
        assert ask(other.url, "GET", "/subjects/s/versions").body == [1, 2, 3]
        code, told = former.stop()
        assert code == 0, told
        assert "has stopped" in told
    finally:
        former.kill()
        other.close()
