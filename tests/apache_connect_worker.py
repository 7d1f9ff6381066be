"""Apache Kafka Connect's distributed worker as a child process: the oracle of the REST API."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest
from filelock import FileLock

from kafka_node import java_command
from maven_jars import cache_root, jars_of

BESIDE = Path(__file__).parent / "connect" / "rest"
SETTINGS = {
    "group.id": "connect",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "connect-configs",
    "config.storage.replication.factor": "1",
    "offset.storage.topic": "connect-offsets",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.topic": "connect-status",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    "offset.flush.interval.ms": "200",
    "scheduled.rebalance.max.delay.ms": "0",
    "heartbeat.interval.ms": "200",
    "plugin.discovery": "service_load",
    "listeners": "http://127.0.0.1:0",
}
LOGGING = """\
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d{{HH:mm:ss.SSS}}] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.file.ref=file
"""


def connect_libs() -> Path:
    """The directory with Connect's jars; skips the test if they cannot be fetched."""
    with FileLock(cache_root() / "connect.lock"):
        return jars_of(BESIDE / "connect_pom.xml", "connect-4.3.1")


class ApacheWorker:
    """A worker on a free port of 127.0.0.1 with its log in *directory*; a context manager."""

    def __init__(
        self, libs: Path, bootstrap_servers: str, directory: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        properties = {**SETTINGS, "bootstrap.servers": bootstrap_servers, **(settings or {})}
        file = directory / "worker.properties"
        escaped = {name: value.replace("\\", "\\\\") for name, value in properties.items()}
        file.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
        self.log = directory / "worker.log"
        logging = directory / "log4j2.properties"
        logging.write_text(LOGGING.format(log=self.log))
        options = (f"-Dlog4j2.configurationFile={logging}",)
        command = [*java_command(libs, str(BESIDE / "KafkaConnectDistributed.java"), *options), str(file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = ""

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip().rstrip("/")
        if not self.url:
            pytest.fail(f"Apache's worker did not start:\n{self.log.read_text()[-4000:]}")
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
