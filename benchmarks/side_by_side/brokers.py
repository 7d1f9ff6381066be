"""The two brokers under test: one node each, on one core, with the same server.properties."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from side_by_side.cores import pinned

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 120
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

# The settings of both. Everything else is Kafka's default for both: above all, neither waits for the disk.
PROPERTIES: Mapping[str, str] = {
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",  # a row needn't wait 15 s for the cleaner's next check
    "log.segment.delete.delay.ms": "1000",  # deletes a row's data before the next one begins
}

# From bin/kafka-server-start.sh and bin/kafka-run-class.sh of the release: a fixed heap of 1 GiB, G1.
JVM_HEAP = ("-Xmx1G", "-Xms1G")
JVM_PERFORMANCE = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
JVM_LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)


class BrokerError(RuntimeError):
    """A broker did not start, stop or answer; the message ends with the tail of its log."""


class Stalls(NamedTuple):
    """The long turns of the event loop since the start, from the broker's own metric."""

    max_ms: float
    over_10_ms: int
    queued: int
    """The number of those that were long only because the node waited for a processor."""


class Place(NamedTuple):
    """A node's number, and the addresses of all controllers in the order of their numbers; none if alone."""

    node_id: int = 1
    controllers: tuple[str, ...] = ()


ALONE = Place()

# Further settings of a node among several: internal topics are replicated as well.
CLUSTER_PROPERTIES: Mapping[str, str] = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
}


class Broker(ABC):
    """One node on an empty directory. A context manager; `launched_s` is its launch on CLOCK_MONOTONIC.

    Args:
        key_store: the PEM file of a further listener, which speaks TLS at `tls_port`; None for no such one.
    """

    name: str

    def __init__(
        self,
        directory: Path,
        core: int,
        port: int = 0,
        place: Place = ALONE,
        key_store: Path | None = None,
    ) -> None:
        self.place = place
        self._key_store = key_store
        self.directory = directory
        self.data_dir = directory / "data"
        self.properties = directory / "server.properties"
        self.port = port or free_port()
        self.tls_port = free_port() if key_store else 0
        self.launched_s = 0.0
        self._core = core
        self._log_file = directory / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def version(self) -> str:
        """Return release and runtime, for the report."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the node in the foreground."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare an empty directory before the launch."""

    def stalls(self) -> Stalls | None:
        """Return the stalls, or None if the broker has no event loop that reports them."""
        return None

    def start(self) -> Self:
        """Launch the node and return once it accepts connections."""
        self.lay_out()
        self.launch()
        return self.await_port()

    def lay_out(self) -> None:
        """Empty the node's directory and prepare it."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.prepare()

    def launch(self) -> None:
        """Start the process on the existing data."""
        with pinned(self._core), self._log_file.open("ab") as log:
            self.launched_s = time.monotonic()
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill the process with SIGKILL; its data stays."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def await_port(self) -> Self:
        """Return once the node accepts connections. Raises BrokerError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.running():
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise BrokerError(f"{self.name} did not start:\n{self.log_tail()}")

    def stop(self) -> None:
        """End the process and delete its data."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def write_properties(self, **extra: str) -> None:
        """Write the node's `server.properties`: its `settings`, and *extra*."""
        lines = [f"{name}={value}\n" for name, value in {**self.settings(), **extra}.items()]
        self.properties.write_text("".join(lines))

    def settings(self) -> dict[str, str]:
        """Return what every KRaft node needs, `PROPERTIES`, and those for several nodes and for TLS."""
        controllers = self.place.controllers or (f"127.0.0.1:{free_port()}",)
        controller = controllers[self.place.node_id - 1]
        voters = [f"{node_id}@{address}" for node_id, address in enumerate(controllers, 1)]
        node = {
            "process.roles": "broker,controller",
            "node.id": str(self.place.node_id),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data_dir),
        }
        several = CLUSTER_PROPERTIES if len(controllers) > 1 else {}
        if self._key_store is not None:
            node["listeners"] += f",SSL://127.0.0.1:{self.tls_port}"
            node["listener.security.protocol.map"] += ",SSL:SSL"
            node |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._key_store)}
        return {**node, **PROPERTIES, **several}

    def log_tail(self) -> str:
        return self._log_file.read_text(errors="replace")[-4000:] if self._log_file.exists() else ""


class Penstock(Broker):
    """A Penstock node, run by the interpreter of this process."""

    name = "penstock"

    def version(self) -> str:
        words = [sys.executable, "-m", "penstock", "--version"]
        release = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        return f"{release}, Python {sys.version.split()[0]}"

    def prepare(self) -> None:
        self._metrics_port = free_port()
        self.write_properties(**{"penstock.metrics.port": str(self._metrics_port)})
        if self.place.controllers:
            words = ["storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties)]
            subprocess.run([sys.executable, "-m", "penstock", *words], capture_output=True, check=True)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "penstock", "start", "--config", str(self.properties)]

    def stalls(self) -> Stalls:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=10) as page:
            text = page.read().decode()
        return Stalls(
            _metric(text, "penstock_loop_lag_max_seconds") * 1000,
            int(_metric(text, "penstock_loop_slow_turns_total")),
            int(_metric(text, "penstock_loop_queued_turns_total")),
        )


class Kafka(Broker):
    """Apache Kafka: a KRaft node that is broker and controller, with the scripts' JVM settings."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        core: int,
        jars: Path,
        release: str,
        place: Place = ALONE,
        key_store: Path | None = None,
    ) -> None:
        super().__init__(directory, core, place=place, key_store=key_store)
        self._jars = jars
        self._release = release

    def version(self) -> str:
        words = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
        found = re.search(r'"([^"]+)"', words)
        return f"Apache Kafka {self._release}, Java {found[1] if found else '?'}, {' '.join(JVM_HEAP)}, G1"

    def prepare(self) -> None:
        self.write_properties()
        words = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties))
        subprocess.run(words, capture_output=True, check=True, timeout=START_TIMEOUT_S)

    def command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self.properties))

    def _java(self, *words: str) -> list[str]:
        return ["java", *JVM_HEAP, *JVM_PERFORMANCE, *JVM_LOGGING, "-cp", f"{self._jars}/*", *words]


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def drop_from_page_cache(directory: Path) -> None:
    """Drop every file under *directory* from the page cache, so that the next read comes from the disk."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _metric(page: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    if found is None:
        raise BrokerError(f"no metric {name}")
    return float(found[1])
