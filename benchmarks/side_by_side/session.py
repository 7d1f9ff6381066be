"""One run of one broker: topics, clients on their own core, and the measurements around each command."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.bench.loadgen import Loadgen
from penstock.bench.process import process_cost
from side_by_side.brokers import Broker
from side_by_side.cores import Cores, busy_s
from side_by_side.data import Data

RUN_TIMEOUT_S = 600
TOPIC_TIMEOUT_S = 60

Configs = tuple[tuple[str, str], ...]
"""Names and values; hashable, because rows are."""


class RunFailed(RuntimeError):
    """A client or the broker failed within a row; the message describes the failure."""


@dataclass(frozen=True)
class Measurement:
    """The results of one run of one row; None means not applicable.

    `mb` counts the bytes of values before compression. `broker_busy` and `broker_cpu_s` are those of the
    broker's process; `core_busy` is that of its core, including the kernel's work on it. `worst_stall_ms` is
    the loop's worst since the node's start, `stalls_over_10_ms` counts those of this row, and `queued_stalls`
    those of them in which the node waited for a processor and did not take 10 ms otherwise.
    """

    seconds: float
    records: int | None = None
    mb: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    broker_cpu_s: float | None = None
    broker_busy: float | None = None
    core_busy: float | None = None
    resident_mb: float | None = None
    worst_stall_ms: float | None = None
    stalls_over_10_ms: int | None = None
    queued_stalls: int | None = None
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The results that a client reports about its run."""

    seconds: float
    records: int
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    facts: Mapping[str, float] = field(default_factory=dict)


class Session:
    """A running broker and the clients with which rows load it.

    Args:
        scale: multiplies the amounts that rows send and read.
        jars: Apache Kafka's, for its tools. cache: the directory of prepared batches.
    """

    def __init__(
        self,
        broker: Broker,
        cores: Cores,
        *,
        loadgen: Loadgen,
        jars: Path,
        cache: Path,
        scale: float = 1.0,
    ) -> None:
        self.broker = broker
        self.cores = cores
        self.loadgen = loadgen
        self.jars = jars
        self._cache = cache
        self._scale = scale
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        self._topics = 0

    def scaled(self, count: float, least: int = 1) -> int:
        return max(least, int(count * self._scale))

    # --- topics ---

    def create_topic(self, partitions: int = 1, config: Configs = ()) -> str:
        """Create a topic and return its name."""
        self._topics += 1
        name = f"row-{self._topics}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config))
        self._admin.create_topics([topic])[name].result(TOPIC_TIMEOUT_S)
        self._await(lambda: len(self._directories(name)) == partitions, f"the partitions of {name}")
        return name

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(TOPIC_TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and return when its files are gone, together with their unwritten pages."""
        self._admin.delete_topics([topic])[topic].result(TOPIC_TIMEOUT_S)
        self._await(lambda: not self._directories(topic), f"{topic} to leave the disk")

    def settle(self) -> None:
        """Let the disk finish the writes of earlier rows."""
        os.sync()
        time.sleep(0.2)

    def log_bytes(self, topic: str) -> int:
        """Return the current size of the topic's segments."""
        total = 0
        for directory in self._directories(topic):
            for segment in directory.glob("*.log"):
                try:
                    total += segment.stat().st_size
                except FileNotFoundError:
                    continue  # the cleaner has just replaced it
        return total

    def _directories(self, topic: str) -> list[Path]:
        return list(self.broker.data_dir.glob(f"{topic}-*")) + list(
            self.broker.data_dir.glob(f"{topic}.*-delete")
        )

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TOPIC_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline or not self.broker.running():
                raise RunFailed(f"timed out waiting for {what}\n{self.broker.log_tail()}")
            time.sleep(0.02)

    # --- clients ---

    def batches(self, data: Data) -> Path:
        return data.file(self._cache)

    def raw_client(self, mode: str, topic: str, *, over_tls: bool = False, **options: object) -> list[str]:
        """Return the raw client's command line."""
        port = self.broker.tls_port if over_tls else self.broker.port
        return self.loadgen.raw_command(mode, f"127.0.0.1:{port}", topic, tls=int(over_tls), **options)

    def java(self, tool: str, *words: object) -> list[str]:
        """Return the command line of one of Kafka's tools."""
        options = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Xmx512M", "-cp", f"{self.jars}/*")
        return ["java", *options, f"org.apache.kafka.tools.{tool}", *map(str, words)]

    def fill(self, topic: str, data: Data, payload_bytes: float, partitions: int = 1) -> int:
        """Produce at least that many bytes of values, unmeasured, and return the bytes of the batches."""
        per_request = min(partitions, 16)
        requests = int(payload_bytes / (data.per_batch * data.size_bytes * per_request)) + 1
        command = self.raw_client(
            "produce",
            topic,
            batches=self.batches(data),
            requests=requests,
            partitions=partitions,
            per_request=per_request,
            connections=2,
        )
        return int(json.loads(self.run(command))["bytes"])

    def run(self, command: Sequence[str]) -> str:
        """Run a command to its end and return its output."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        if done.returncode != 0 or not done.stdout.strip():
            output = f"{done.stdout[-500:].strip()} {done.stderr[-1500:].strip()}"
            raise RunFailed(f"{Path(command[0]).name} ended with code {done.returncode}: {output}")
        return done.stdout

    # --- measuring ---

    def measured(self, action: Callable[[], Outcome], value_bytes: int | None) -> Measurement:
        """Measure the broker's cost while *action* runs.

        Args:
            value_bytes: the size of each record's value; None if megabytes have no meaning.
        """
        stalls_before = self.broker.stalls()
        cost_before, busy_before, began_s = (
            process_cost(self.broker.pid),
            busy_s(self.cores.broker),
            time.monotonic(),
        )
        outcome = action()
        elapsed_s = time.monotonic() - began_s
        cost, busy = process_cost(self.broker.pid), busy_s(self.cores.broker) - busy_before
        cpu_s = cost.cpu_seconds - cost_before.cpu_seconds
        stalls = self.broker.stalls()
        return Measurement(
            seconds=outcome.seconds,
            records=outcome.records,
            mb=None if value_bytes is None else outcome.records * value_bytes / 1e6,
            p50_ms=outcome.p50_ms,
            p99_ms=outcome.p99_ms,
            p999_ms=outcome.p999_ms,
            broker_cpu_s=cpu_s,
            broker_busy=cpu_s / elapsed_s,
            core_busy=min(1.0, busy / elapsed_s),
            resident_mb=cost.resident_bytes / 1e6,
            worst_stall_ms=stalls.max_ms if stalls else None,
            stalls_over_10_ms=stalls.over_10_ms - stalls_before.over_10_ms
            if stalls and stalls_before
            else None,
            queued_stalls=stalls.queued - stalls_before.queued if stalls and stalls_before else None,
            facts=outcome.facts,
        )

    def outcome(self, command: Sequence[str]) -> Outcome:
        """Run one of the C clients, which print JSON."""
        printed = json.loads(self.run(command))
        return Outcome(
            seconds=printed["seconds"],
            records=printed["records"],
            p50_ms=printed.get("p50_ms"),
            p99_ms=printed.get("p99_ms"),
            p999_ms=printed.get("p999_ms"),
        )
