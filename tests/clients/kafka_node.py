"""A real Apache Kafka node (KRaft, one process for both roles) on the jars of the target release."""

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_S = 60
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data_dir}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaNode:
    """Formats its data directory unless it is formatted, starts, and stops cleanly. A context manager."""

    def __init__(self, libs: Path, directory: Path) -> None:
        self._classpath = f"{libs}/*"
        self._directory = directory
        self.data_dir = directory / "data"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        properties = self._directory / "server.properties"
        text = PROPERTIES.format(port=self._port, controller_port=free_port(), data_dir=self.data_dir)
        properties.write_text(text)
        if not (self.data_dir / "meta.properties").exists():
            self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)).wait()
        self._process = self._java("kafka.Kafka", str(properties))
        self._await_port(self._process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)

    def _java(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._directory / "kafka.log").open("ab") as log:
            options = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", self._classpath]
            return subprocess.Popen(["java", *options, *words], stdout=log, stderr=log)

    def _await_port(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        process.kill()
        raise AssertionError(f"Kafka did not start:\n{(self._directory / 'kafka.log').read_text()[-4000:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
