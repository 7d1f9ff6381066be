"""The time that an application takes from the start of its process to its first result."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from side_by_side.session import Measurement, RunFailed
from spark_side_by_side.process_tree import ProcessTree
from spark_side_by_side.session import Session
from spark_side_by_side.spark_process import environment
from spark_side_by_side.workloads import CPU_S

PROGRAM = "spark_side_by_side.first_result"
RESULT_TIMEOUT_S = 120
STOP_TIMEOUT_S = ARCHIVE_TIMEOUT_S = 60


@dataclass(frozen=True)
class ColdStart:
    """The time to the first result: the input exists in advance, and a consumer's receipt stops the clock.

    Args:
        profile: a profile of `penstock.spark.launching.session`; ``quick`` compiles with C1 alone.
        shares_classes: the JVM maps classes from an archive that an earlier run has written (AppCDS).
    """

    profile: str
    shares_classes: bool = False

    def run(self, session: Session) -> Measurement:
        """Measure one start. Raises RunFailed."""
        options: list[str] = []
        if self.shares_classes:
            archive = session.archives.get(session.side.name)
            if archive is None:
                archive = session.directory / f"classes-{session.side.name}.jsa"
                archive.unlink(missing_ok=True)
                self._start(session, [f"-XX:ArchiveClassesAtExit={archive}"])
                _await_archive(archive)
                session.archives[session.side.name] = archive
            options = [f"-XX:SharedArchiveFile={archive}"]
        return self._start(session, options)

    def _start(self, session: Session, java_options: list[str]) -> Measurement:
        scratch = session.directory / f"first-{session.side.name}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        source = session.topics.create("input", partitions=1)
        _produce_one(session.servers, source)
        with session.topics.target(partitions=1) as target, (scratch / "spark.log").open("wb") as log:
            jars = ",".join(map(str, session.jars))
            words = [session.side.name, session.servers, jars, source, target, str(scratch / "checkpoint")]
            consumer = _consumer(session.servers, target)
            began_s = time.monotonic()
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "spark_side_by_side.first_result",
                    *words,
                    self.profile,
                    *java_options,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment(),
            )
            try:
                seconds = _first_result(consumer, process, began_s, scratch / "spark.log")
                cost = ProcessTree(process.pid).cost()
            finally:
                consumer.close()
                _end(process)
        session.topics.delete([source])
        shutil.rmtree(scratch, ignore_errors=True)
        return Measurement(seconds=seconds, resident_mb=cost.resident_bytes / 1e6, facts={CPU_S: cost.cpu_s})


def _first_result(consumer: Consumer, process: subprocess.Popen[bytes], began_s: float, log: Path) -> float:
    while (elapsed_s := time.monotonic() - began_s) < RESULT_TIMEOUT_S and process.poll() is None:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            return time.monotonic() - began_s
    raise RunFailed(f"no result after {elapsed_s:.0f} s: {log.read_text(errors='replace')[-1500:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process like a program, not by a signal, so that Java writes its archive."""
    try:
        process.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _await_archive(archive: Path) -> None:
    """Wait for the archive, which Java writes after the Python process has ended; its size is set last."""
    deadline = time.monotonic() + ARCHIVE_TIMEOUT_S
    size = -1
    while not archive.exists() or size != (size := archive.stat().st_size):
        if time.monotonic() > deadline:
            raise RunFailed(f"Java has written no archive of classes to {archive}")
        time.sleep(1)


def _produce_one(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"the first", b"key")
    if producer.flush(30):
        raise RunFailed("the node did not acknowledge a record within 30 s")


def _consumer(servers: str, topic: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench-spark", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(0.2)  # connects before the clock starts
    return consumer
