"""Files through whole workers: a log that rotates goes to a topic and to files, each line once."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from long_run import repetitions
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.worker import start
from penstock.testing import Cluster
from waiting import wait_until

PROGRAM = Path(__file__).parents[2] / "worker" / "small_connectors.py"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


def worker_properties(cluster: Cluster, group: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "listeners": "http://127.0.0.1:0",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "100",
        "session.timeout.ms": "2000",
        "heartbeat.interval.ms": "200",
        "scheduled.rebalance.max.delay.ms": "0",
    }


def create(url: str, name: str, config: dict[str, str]) -> bool:
    body = json.dumps(config).encode()
    return WorkerClient().ask("PUT", f"{url.rstrip('/')}/connectors/{name}/config", body).status in (200, 201)


def connectors_of(tmp_path: Path, topic: str) -> dict[str, dict[str, str]]:
    source = {
        "connector.class": "FilesSource",
        "input.path": str(tmp_path / "app.log"),
        "mode": "tail",
        "input.format": "lines",
        "topic": topic,
        "tasks.max": "2",
        "empty.poll.wait.ms": "10",
        "rotation.wait.ms": "0",
    }
    sink = {
        "connector.class": "FilesSink",
        "topics": topic,
        "output.path": str(tmp_path / "out"),
        "output.format": "lines",
        "flush.size": "50",
        "rotate.schedule.interval.ms": "100",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.session.timeout.ms": "2000",
        "consumer.override.heartbeat.interval.ms": "300",
        "consumer.override.metadata.max.age.ms": "200",
    }
    return {f"{topic}-in": source, f"{topic}-out": sink}


def written(tmp_path: Path) -> list[str]:
    """The lines in complete files, in the order of their names."""
    found = []
    for path in sorted(tmp_path.glob("out/*/*/[!.]*")):
        try:
            found += path.read_text().splitlines()
        except FileNotFoundError:  # it was just replaced by another
            continue
    return found


def write_log(tmp_path: Path, numbers: range) -> None:
    with (tmp_path / "app.log").open("a") as log:
        log.writelines(f"line {number}\n" for number in numbers)


def rotate(tmp_path: Path, generation: int) -> None:
    (tmp_path / "app.log").rename(tmp_path / f"app.log-{generation:04}")
    os.utime(tmp_path / f"app.log-{generation:04}", (generation, generation))
    (tmp_path / "app.log").touch()


def test_a_log_goes_to_a_topic_and_to_files(cluster: Cluster, tmp_path: Path) -> None:
    expected = [f"line {number}" for number in range(300)]
    with start(worker_properties(cluster, "files")) as worker:
        worker.wait_until_ready()
        url = worker.advertised_url
        write_log(tmp_path, range(100))
        for name, config in connectors_of(tmp_path, "lines").items():
            wait_until(created(url, name, config))
        wait_until(lambda: written(tmp_path) == expected[:100])
        write_log(tmp_path, range(100, 150))
        rotate(tmp_path, 1)
        write_log(tmp_path, range(150, 300))
        wait_until(lambda: written(tmp_path) == expected)


def created(url: str, name: str, config: dict[str, str]) -> Callable[[], bool]:
    return lambda: create(url, name, config)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_workers_lose_and_repeat_no_line(cluster: Cluster, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    kills = repetitions("PENSTOCK_KILLS", gate=3, long=20)
    given = json.dumps(worker_properties(cluster, "killed-files"))
    with ExitStack() as stack:

        def run_worker() -> tuple[subprocess.Popen[str], str]:
            process = stack.enter_context(
                subprocess.Popen([sys.executable, str(PROGRAM), given], stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            return process, process.stdout.readline().strip()

        worker, url = run_worker()
        lines = 1
        write_log(tmp_path, range(lines))
        for name, config in connectors_of(tmp_path, "killed").items():
            wait_until(created(url, name, config))
        wait_until(lambda: written(tmp_path))
        for kill in range(kills):
            for _ in range(chance.randint(1, 8)):
                more = chance.randint(0, 400)
                write_log(tmp_path, range(lines, lines + more))
                lines += more
            if chance.random() < 0.5:
                rotate(tmp_path, kill + 1)
            reached = chance.randint(len(written(tmp_path)), lines)
            wait_until(lambda reached=reached: len(written(tmp_path)) >= reached)  # type: ignore[misc]
            worker.kill()
            worker.wait()
            worker, url = run_worker()
        write_log(tmp_path, range(lines, lines + 1))
        expected = [f"line {number}" for number in range(lines + 1)]
        wait_until(lambda: written(tmp_path) == expected)
