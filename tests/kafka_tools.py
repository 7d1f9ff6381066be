"""Apache Kafka's command line tools, unchanged, all in one process: see cluster/KafkaTools.java.

with KafkaTools(libs) as tools:
    print(tools.topics("--bootstrap-server", address, "--list"))
"""

import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_node import java_command

SOURCE = Path(__file__).parent / "cluster" / "KafkaTools.java"
TIMEOUT_S = 90

CLASSES = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "configs": "kafka.admin.ConfigCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
# These print from other threads and at the end of their process, so each runs in a process of its own.
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


class ToolFailed(AssertionError):
    """A tool ended with another exit code than 0, or printed an error."""


class KafkaTools:
    """A process that runs one tool at a time; a context manager."""

    def __init__(self, libs: Path) -> None:
        self._libs = libs
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, tool: str, *words: str) -> str:
        """Run a tool and return what it prints. Raises ToolFailed if it fails."""
        code, text = self.attempt(tool, *words)
        if code:
            raise ToolFailed(f"{tool} {' '.join(words)} ended with {code}:\n{text[-4000:]}")
        return text

    def attempt(self, tool: str, *words: str) -> tuple[int, str]:
        """Run a tool and return its exit code and what it prints on both outputs."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\x01".join([CLASSES[tool], *words]).encode() + b"\n")
        self._process.stdin.flush()
        overdue = threading.Timer(TIMEOUT_S, self._process.kill)
        overdue.start()
        lines = []
        try:
            for line in self._process.stdout:
                if line.startswith(b"\x04"):
                    return int(line[1:]), b"".join(lines).decode().rstrip("\n")
                lines.append(line)
        finally:
            overdue.cancel()
        raise ToolFailed(f"{tool} {' '.join(words)} did not end:\n{b''.join(lines)[-4000:].decode()}")

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command(self._libs, str(SOURCE)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
