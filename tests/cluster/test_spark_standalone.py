"""A streams application stays exact on a Spark standalone cluster that loses a worker and an executor.

The executors have Penstock only from the files that the command ships. The test starts Java processes and
takes more than a minute: PENSTOCK_CLUSTERS=1 runs it (`make soak-streams`).
"""

from __future__ import annotations

import itertools
import os
import signal
import site
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from committed_records import committed_records, make_topics
from confluent_kafka import Producer
from spark_cluster import WORKER_HOSTS, SparkCluster

from penstock.testing import Cluster

KEYS = 12
PARTITIONS = 2
BATCH_TIMEOUT_S = 120
DRAIN_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(400),
    pytest.mark.skipif("PENSTOCK_CLUSTERS" not in os.environ, reason="PENSTOCK_CLUSTERS is not set"),
]

APP = """\
import penstock
from numbers_beside import text_of
from penstock.streams import App, string

app = App("clustered", key=string, value=string)
words = app.stream("words")
words.map_values(lambda _: penstock.__file__).to("places")
words.group_by_key().count(store="counts").to_stream().map_values(text_of, value=string).to("totals")
"""
BESIDE = "def text_of(number):\n    return str(number)\n"


class Feeder(threading.Thread):
    """A thread that writes words until stopped."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.sent: Counter[str] = Counter()
        self._over = threading.Event()
        self._producer = Producer({"bootstrap.servers": servers})

    def run(self) -> None:
        for number in itertools.count():
            if self._over.is_set():
                break
            key = f"key-{number % KEYS}"
            self._producer.produce("words", b"word", key, partition=number % PARTITIONS)
            self.sent[key] += 1
            if number % 10 == 9:
                self._producer.poll(0)
                self._over.wait(0.05)
        assert self._producer.flush(30) == 0

    def finish(self) -> None:
        self._over.set()
        self.join(60)


class Command:
    """A process of `penstock streams run`, and its output."""

    def __init__(self, master: str, servers: str, directory: Path) -> None:
        self.said: list[str] = []
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "2",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "penstock", "streams", "run", str(directory / "app.py")),
                *("--master", master, "--checkpoint", str(directory / "checkpoint")),
                *("--bootstrap", servers, "--shuffle-partitions", "2", "--profile", "low-latency", *conf),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "PYSPARK_PYTHON": str(foreign_python(directory / "python")),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.said += (line.rstrip() for line in self.process.stdout)

    def wait_for_batches(self, more: int) -> None:
        wanted = self._batches() + more
        deadline = time.monotonic() + BATCH_TIMEOUT_S
        while self._batches() < wanted:
            assert self.process.poll() is None, "\n".join(self.said)
            assert time.monotonic() < deadline, "\n".join(self.said)
            time.sleep(0.05)

    def _batches(self) -> int:
        return sum(line.startswith("batch ") for line in list(self.said))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_TIMEOUT_S) == 0, "\n".join(self.said)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def foreign_python(directory: Path) -> Path:
    """An environment with all packages of this one except Penstock.

    Only lines of the environment's own .pth file count, so an editable installation has no effect.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", directory], check=True)
    [packages] = (directory / "lib").glob("python*/site-packages")
    (packages / "beside.pth").write_text("".join(f"{path}\n" for path in site.getsitepackages()))
    return directory / "bin" / "python"


def test_an_application_survives_a_worker_and_an_executor(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "numbers_beside.py").write_text(BESIDE)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with Cluster() as node, SparkCluster(tmp_path / "spark", environment) as spark:
        servers = node.bootstrap_servers
        make_topics(servers, PARTITIONS, "words", "places", "totals")
        feeder = Feeder(servers)
        feeder.start()
        command = Command(spark.master, servers, tmp_path)
        try:
            command.wait_for_batches(3)
            first, second = WORKER_HOSTS
            spark.kill_worker(first)
            command.wait_for_batches(2)
            assert spark.kill_executors(second) == 1
            spark.add_worker("127.0.0.4")
            command.wait_for_batches(3)
            feeder.finish()
            deadline = time.monotonic() + DRAIN_TIMEOUT_S
            while len(totals := committed_records(servers, "totals")) < feeder.sent.total():
                assert time.monotonic() < deadline, "\n".join(command.said)
                time.sleep(0.2)
            places = {Path(value) for _, value in committed_records(servers, "places")}
            command.stop()
        finally:
            command.kill()
    counts: dict[str, list[int]] = defaultdict(list)
    for key, value in totals:
        counts[key].append(int(value))
    assert counts == {key: list(range(1, count + 1)) for key, count in feeder.sent.items()}
    # Each executor has unpacked and imported the shipped files.
    executors = {place.parents[2] for place in places}
    assert len(executors) >= 2
    assert {place.relative_to(place.parents[2]) for place in places} == {
        Path("penstock-library", "penstock", "__init__.py")
    }
    assert all(executor.is_relative_to(tmp_path / "spark") for executor in executors)
