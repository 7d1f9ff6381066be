"""Workers of ours and Apache Kafka's own WorkerGroupMember in one group, led by either."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from connect_worker import CONFIGURED, TASKS, Clock, Worker

from kafka_node import java_command
from penstock.connect.group.assignment import ConnectProtocol
from penstock.testing import Cluster
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300)]

EVERYTHING = {"orders", *map(str, TASKS)}
JAVAS_URL = "http://java:8083/"
OUR_URL = "http://python:8083/"


class JavaWorker:
    """Apache Kafka's worker in a process of its own: see KafkaConnectWorker.java."""

    def __init__(self, libs: Path, servers: str, group_id: str, protocol: str) -> None:
        source = Path(__file__).with_name("KafkaConnectWorker.java")
        words = [servers, group_id, JAVAS_URL, protocol, str(CONFIGURED.offset), "orders", str(len(TASKS))]
        self._process = subprocess.Popen(
            [*java_command(libs, str(source)), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.leader_url = ""
        self.config_offset = self.delay_ms = -1
        self.running: set[str] = set()
        threading.Thread(target=self._read, daemon=True).start()

    def end(self, command: str) -> None:
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.close()
        self._process.wait(30)
        self.running = set()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.leader_url, offset, delay, *items = line.split()
            self.config_offset, self.delay_ms = int(offset), int(delay)
            self.running = set(items)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
def start_java(kafka_libs: Path, cluster: Cluster) -> Iterator[Callable[[str, str], JavaWorker]]:
    workers: list[JavaWorker] = []

    def start(group_id: str, protocol: str) -> JavaWorker:
        workers.append(JavaWorker(kafka_libs, cluster.bootstrap_servers, group_id, protocol))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end("halt")


def is_shared(*workers: Worker | JavaWorker) -> bool:
    running = [worker.running for worker in workers]
    sizes = [len(items) for items in running]
    return set().union(*running) == EVERYTHING and sum(sizes) == len(EVERYTHING) and min(sizes) >= 5


@pytest.mark.parametrize("protocol", ConnectProtocol)
@pytest.mark.parametrize("leads", ["java", "python"])
def test_both_share_a_group(
    cluster: Cluster, start_java: Callable[[str, str], JavaWorker], protocol: ConnectProtocol, leads: str
) -> None:
    group_id, name, clock = f"{leads}-{protocol.name}", protocol.name.lower(), Clock()
    if leads == "java":
        javas = start_java(group_id, name)
        wait_until(lambda: javas.running == EVERYTHING)
    ours = Worker(cluster.bootstrap_servers, OUR_URL, clock, group_id=group_id, protocol=protocol)
    if leads == "python":
        wait_until(lambda: ours.running == EVERYTHING)
        javas = start_java(group_id, name)
    wait_until(lambda: is_shared(javas, ours))
    leader_url = JAVAS_URL if leads == "java" else OUR_URL
    assert ours.group.leader_url == javas.leader_url == leader_url
    assert ours.group.is_leader is (leads == "python")
    assert ours.group.protocol is protocol
    assert javas.config_offset == CONFIGURED.offset

    if leads == "python":
        javas.end("leave")
        if protocol is not ConnectProtocol.EAGER:
            wait_until(lambda: ours.delay_ms > 0)
            assert len(ours.running) <= 6
            clock.now_ms += ours.delay_ms
            ours.group.wake()
        wait_until(lambda: ours.running == EVERYTHING)
        ours.close()
    else:
        ours.close()
        wait_until(lambda: javas.running == EVERYTHING)
    assert ours.violations == []
