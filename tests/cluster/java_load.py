"""LoadClients.java running on a cluster; the operations that it reports are added to a history."""

import subprocess
import sys
import threading
from pathlib import Path

from kafka_node import java_command

sys.path.append(str(Path(__file__).parents[1] / "model"))

from client_histories import History
from history import Operation, Outcome, Poll, Send

SOURCE = Path(__file__).with_name("LoadClients.java")
FINISH_TIMEOUT_S = 100


class JavaClients:
    """A writer, a reader, and the transformer of one partition, in one process of Java."""

    def __init__(
        self, libs: Path, bootstrap_servers: str, history: History, seed: int, partition: int
    ) -> None:
        self._history = history
        self.processes = [history.new_process() for _ in range(3)]
        words = [bootstrap_servers, *(str(number) for number in (seed, *self.processes, partition))]
        self._process = subprocess.Popen(
            [*java_command(libs, str(SOURCE)), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._written = threading.Event()
        self._failure: BaseException | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def finish_writing(self) -> None:
        """Stop the writer and return once it has reported the results of all its sends."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        assert self._written.wait(FINISH_TIMEOUT_S), "the Java writer hangs, or has ended"

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(FINISH_TIMEOUT_S)
        self._reader.join()
        assert code == 0, "a Java client failed: see what it printed"
        assert self._failure is None, self._failure

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                words = line.decode().rstrip("\n").split("\t")
                if words == ["written"]:
                    self._written.set()
                else:
                    self._history.add(operation(words))
        except BaseException as error:
            self._failure = error
            raise


def operation(words: list[str]) -> Operation:
    """Parse a line in the format that LoadClients.java describes."""
    process, outcome, transactional, *rest = words
    steps: list[Send | Poll] = []
    for kind, topic, number, detail, found in zip(*(rest[at::5] for at in range(5)), strict=True):
        partition = (topic, int(number))
        if kind == "S":
            steps.append(Send(partition, found, None if detail == "-1" else int(detail)))
        else:
            assert kind == "P", words
            pairs = (record.split("=") for record in found.split(" "))
            records = tuple((int(offset), value) for offset, value in pairs)
            steps.append(Poll(partition, records, sought=detail == "true"))
    return Operation(int(process), tuple(steps), Outcome(outcome), transactional == "true")
