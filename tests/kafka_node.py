"""A real Apache Kafka node (KRaft, one process for both roles) on the jars of the target release."""

import hashlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from filelock import FileLock

from maven_jars import cache_root

START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
COMPLAINT = re.compile(r"^\[[^\]]*\] (WARN|ERROR|FATAL) ")

# A process that runs for seconds does not benefit from the second compiler and parallel collection.
JAVA = ("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
PROGRAM_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
)
QUIET_CLASS_DATA = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
LOGGING = {
    "defaultLogLevel": "info",
    "levelInBrackets": "false",
    "showDateTime": "true",
    "dateTimeFormat": "[HH:mm:ss.SSS]",
    "showThreadName": "false",
    "showShortLogName": "true",
}

PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def record_classes(libs: Path) -> None:
    """Let nodes map Kafka's classes from a file (JEP 350), which cuts a start to two thirds of its time.

    Java ignores a file that doesn't fit its own build or the jars.
    """
    archive = class_archive(libs)
    if archive.exists():
        return
    recording = archive.with_suffix(".recording")
    with tempfile.TemporaryDirectory() as scratch:
        node = KafkaNode(libs, Path(scratch))
        node.class_data = (f"-XX:ArchiveClassesAtExit={recording}", *QUIET_CLASS_DATA)
        with node:
            pass
    recording.rename(archive)


def class_data(libs: Path) -> tuple[str, ...]:
    """Java's options for the class archive of these jars; none before `record_classes` has written it."""
    archive = class_archive(libs)
    return (f"-XX:SharedArchiveFile={archive}", *QUIET_CLASS_DATA) if archive.exists() else ()


def class_archive(libs: Path) -> Path:
    """The path of the class archive for these jars and this Java."""
    java = Path(shutil.which(JAVA[0]) or JAVA[0]).resolve()
    return libs / f"{java.as_posix().strip('/').replace('/', '-')}.jsa"


def java_command(libs: Path, main: str, *options: str) -> list[str]:
    """The command that runs a class from a jar or a directory of jars, or a source file that uses them."""
    class_path = jars = f"{libs}/*" if libs.is_dir() else str(libs)
    if main.endswith(".java"):
        class_path += f":{compiled(jars, Path(main))}"
        package = re.search(r"^package (.+);", Path(main).read_text(), re.MULTILINE)
        main = f"{package[1]}.{Path(main).stem}" if package else Path(main).stem
    return [*JAVA, *class_data(libs), *PROGRAM_OPTIONS, *options, "-cp", class_path, main]


def compiled(jars: str, source: Path) -> Path:
    """The directory with a source file's classes, which the cache keeps between runs.

    A compiler takes longer than most of these programs.
    """
    compiler = shutil.which("javac") or pytest.skip("javac is not installed")
    inputs = f"{Path(compiler).resolve()}\n{jars}\n{source.read_text()}"
    classes = cache_root() / "classes" / f"{source.stem}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    classes.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(classes.with_suffix(".lock")):
        if not classes.exists():
            unfinished = classes.with_suffix(".unfinished")
            command = [compiler, "-J-Xmx512m", "-nowarn", "-cp", jars, "-d", unfinished, source]
            subprocess.run(command, check=True)
            unfinished.rename(classes)
    return classes


def allowed_urls(config: Mapping[str, str]) -> list[str]:
    """Java's option by which Kafka may use the URLs of issuers that are in a configuration."""
    urls = [value for name, value in config.items() if name.endswith(".endpoint.url")]
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"] if urls else []


def run_java(libs: Path, main: str, *words: str, text: str = "", timeout_s: float = 120) -> str:
    """Run `java_command` on a text and return what the program prints. The test fails if the program does."""
    done = subprocess.run(
        [*java_command(libs, main), *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{main} {words}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


class KafkaNode:
    """A node on free ports of 127.0.0.1 that keeps its address across restarts; a context manager.

    A data directory without `meta.properties` is formatted first: for a fixed set of voters
    (`controller.quorum.voters`), or with `dynamic_quorum` for one that is kept in the log (KIP-853), or as
    the `format_words` say. A directory that has it is opened unchanged. *config* overrides the settings of
    this class.
    """

    def __init__(
        self,
        libs: Path,
        directory: Path,
        *,
        data_dir: Path | None = None,
        port: int = 0,
        dynamic_quorum: bool = False,
        format_words: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir or directory / "data"
        self.log_file = directory / "kafka.log"
        self.class_data = class_data(libs)
        self._libs = libs
        self._port = port or free_port()
        self.format_words = ["--standalone"] if dynamic_quorum else list(format_words)
        self._properties_file = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        controller = f"127.0.0.1:{free_port()}"
        quorum = (
            {"controller.quorum.bootstrap.servers": controller}
            if dynamic_quorum
            else {"controller.quorum.voters": f"1@{controller}"}
        )
        self.config = {
            **PROPERTIES,
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://{controller}",
            "log.dirs": str(self.data_dir),
            **({} if config and any(name.startswith("controller.quorum") for name in config) else quorum),
            **(config or {}),
        }

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the node and return once it accepts connections."""
        assert self._process is None, "the node runs already"
        text = "".join(f"{name}={value}\n" for name, value in self.config.items())
        self._properties_file.write_text(text)
        if not (self.data_dir / "meta.properties").exists():
            self.format()
        self._process = self._java("kafka.Kafka", str(self._properties_file))
        self._await_port(self._process)
        return self

    def format(self) -> None:
        words = ["format", "-t", CLUSTER_ID, "-c", str(self._properties_file), *self.format_words]
        formatting = self._java("kafka.tools.StorageTool", *words)
        assert formatting.wait(STOP_TIMEOUT_S) == 0, self._log_tail()

    def stop(self) -> None:
        """Send SIGTERM and wait for the clean shutdown; do nothing if the node does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"Kafka did not stop:\n{self._log_tail()}") from None

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def kill_if_running(self) -> None:
        """Kill the node if it still runs."""
        if self._process is not None:
            self.kill()

    def complaints(self) -> list[str]:
        """The warnings and errors that the node has logged so far."""
        return [line for line in self.log_file.read_text().splitlines() if COMPLAINT.match(line)]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _java(self, *words: str) -> subprocess.Popen[bytes]:
        logging = [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in LOGGING.items()]
        with self.log_file.open("ab") as log:
            options = [*self.class_data, *logging, *allowed_urls(self.config)]
            command = [*JAVA, *options, "-cp", f"{self._libs}/*", *words]
            return subprocess.Popen(command, stdout=log, stderr=log)

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
        process.wait()
        raise AssertionError(f"Kafka did not start:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return self.log_file.read_text()[-8000:]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
