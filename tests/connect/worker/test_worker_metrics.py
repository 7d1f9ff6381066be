"""The metrics of a worker, as Prometheus reads them from its REST API."""

import json
import urllib.request
import uuid
from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.connect import ConnectError
from penstock.connect.herding.distributed.membership import MembershipState
from penstock.connect.stores import State
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.worker import Worker, start
from penstock.connect.worker.metrics import RunningConnector, Startups, WorkerCollector
from penstock.monitoring.process import registry_of
from penstock.testing import Cluster
from waiting import wait_until

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    """The values by the names of metrics and their labels."""
    return {
        (sample.name.removeprefix("penstock_connect_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_starts_are_counted_by_their_first_state() -> None:
    startups, task = Startups(), ConnectorTaskId("a", 0)
    with startups.starting("a"):
        startups.ended("a", State.RUNNING)
    startups.ended("a", State.FAILED)
    with startups.starting(task):
        pass
    startups.ended(task, State.UNASSIGNED)
    startups.ended(task, State.FAILED)
    with pytest.raises(ConnectError), startups.starting(task):
        raise ConnectError("no such class")
    connectors = {"a": RunningConnector(State.FAILED, "sink", "Lines", "1.0")}
    membership = MembershipState(generation=7, is_leader=True, rebalances=2, joined_s=10.0)
    collector = WorkerCollector(startups, lambda: connectors, lambda: 3, lambda: membership, lambda: 12.5)
    found = samples(generate_latest(registry_of(collector)).decode())
    described = (("connector", "a"), ("connector_class", "Lines"), ("connector_type", "sink"))
    assert {
        name: value for name, value in found.items() if name[0].startswith(("worker_", "connector_"))
    } == {
        ("worker_connector_count", ()): 1,
        ("worker_connector_startup_attempts_total", ()): 1,
        ("worker_connector_startup_success_total", ()): 1,
        ("worker_connector_startup_failure_total", ()): 0,
        ("worker_task_count", ()): 3,
        ("worker_task_startup_attempts_total", ()): 2,
        ("worker_task_startup_success_total", ()): 0,
        ("worker_task_startup_failure_total", ()): 2,
        ("worker_rebalance_completed_rebalances_total", ()): 2,
        ("worker_rebalance_epoch", ()): 7,
        ("worker_rebalance_leader", ()): 1,
        ("worker_rebalance_time_since_last_rebalance_seconds", ()): 2.5,
        ("connector_status", (("connector", "a"), ("state", "failed"))): 1,
        ("connector_info", (*described, ("connector_version", "1.0"))): 1,
    }


@pytest.fixture
def worker(penstock_cluster: Cluster) -> Iterator[Worker]:
    group = f"metrics-{uuid.uuid4().hex[:8]}"
    properties = {
        "bootstrap.servers": penstock_cluster.bootstrap_servers,
        "group.id": group,
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "listeners": "http://127.0.0.1:0",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    with start(properties) as worker:
        worker.wait_until_ready()
        yield worker


def test_a_worker_serves_its_metrics(worker: Worker) -> None:
    topic = f"numbers-{uuid.uuid4().hex[:8]}"
    config = {"connector.class": "small_connectors:NumberSource", "topic": topic, "limit": "20"}
    request = urllib.request.Request(
        f"{worker.url}/connectors/numbers/config",
        json.dumps(config).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=60).close()
    task = (("connector", "numbers"), ("task", "0"))

    def served() -> Samples:
        with urllib.request.urlopen(f"{worker.url}/metrics", timeout=60) as answer:
            return samples(answer.read().decode())

    wait_until(lambda: served().get(("task_source_record_write_total", task)) == 20)
    found = served()
    assert found["worker_connector_count", ()] == 1
    assert found["worker_task_startup_success_total", ()] == 1
    assert found["worker_rebalance_leader", ()] == 1
    assert found["worker_rebalance_epoch", ()] >= 1
    assert found["connector_status", (("connector", "numbers"), ("state", "running"))] == 1
    assert ("task_status", (*task[:1], ("state", "running"), *task[1:])) in found
    assert any(name == "penstock_build_info" for name, _ in found)
