"""A whole worker answers as Apache's worker was recorded to do, with connectors that move lines of files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_conversation import converse

from penstock.connect.worker import Worker, start
from penstock.testing import Cluster

BESIDE = Path(__file__).parent


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Cluster() as cluster:
        properties = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "offset.flush.interval.ms": "200",
            "scheduled.rebalance.max.delay.ms": "0",
            "heartbeat.interval.ms": "200",
            "listeners": "http://127.0.0.1:0",
        }
        with start(properties) as worker:
            worker.wait_until_ready()
            yield worker


@pytest.mark.parametrize("name", ["worker_conversation.txt", "rest_conversation.txt"])
def test_a_worker_says_what_kafkas_says(worker: Worker, name: str, tmp_path: Path) -> None:
    script = (BESIDE / name).read_text()
    assert converse(script, worker.advertised_url, tmp_path).splitlines() == script.splitlines()
