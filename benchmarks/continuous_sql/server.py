"""`penstock sql server` as a process, and a client of it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

START_TIMEOUT_S: Final = 180.0
_LOOK_S: Final = 0.05


class Server:
    """A client of a SQL server; ``start_s`` is the time from the process's start to its first answer."""

    def __init__(self, servers: str, port: int, start_s: float) -> None:
        self.servers = servers
        self.port = port
        self.start_s = start_s
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def run(self, text: str) -> list[dict[str, Any]]:
        """Run statements that read from the beginning, and return their entities.

        Raises RuntimeError if the server rejects one.
        """
        answer = self._post("/ksql", {"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}})
        found: list[dict[str, Any]] = json.loads(answer)
        return found

    def query_of(self, sink: str) -> str:
        """Return the id of the query that writes to a stream or table."""
        [queries] = self.run("SHOW QUERIES;")
        return next(str(each["id"]) for each in queries["queries"] if sink in each["sinks"])

    def rows(self, text: str) -> list[list[Any]]:
        """Return the rows of a query that ends."""
        return [json.loads(line) for line in self._post("/query-stream", {"sql": text}).splitlines()[1:]]

    def close_query(self, query_id: str) -> None:
        self._post("/close-query", {"queryId": query_id})

    def _post(self, path: str, body: object) -> str:
        self._connection.request("POST", path, json.dumps(body))
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {text}")
        return text


@contextmanager
def serving(servers: str, directory: Path) -> Iterator[Server]:
    """Run a server during the block. ``directory`` gets its checkpoint and its log."""
    port_file, log = directory / "port", directory / "server.log"
    words = ["sql", "server", "--bootstrap", servers, "--listen", "127.0.0.1:0"]
    words += ["--checkpoint", str(directory / "checkpoint"), "--port-file", str(port_file)]
    began_s = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "penstock", *words], stdout=out, stderr=out)
    try:
        while not (port_file.exists() and port_file.read_text()):
            if process.poll() is not None or time.monotonic() - began_s > START_TIMEOUT_S:
                raise RuntimeError(f"the server did not start:\n{log.read_text()[-3000:]}")
            time.sleep(_LOOK_S)
        yield Server(servers, int(port_file.read_text()), time.monotonic() - began_s)
    finally:
        process.terminate()
        process.wait(60)


class GroupProgress:
    """A query's progress in a topic, as its consumer group shows it to any tool."""

    def __init__(self, servers: str, query_id: str, topic: str) -> None:
        group = f"_confluent-ksql-default_query_{query_id}"
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
        found = self._consumer.list_topics(topic, 30).topics[topic].partitions
        self._partitions = [TopicPartition(topic, number) for number in found]

    def read(self) -> int:
        """Return the number of records that the query has read."""
        return sum(max(each.offset, 0) for each in self._consumer.committed(self._partitions, 30))

    def wait_for(self, records: int, timeout_s: float) -> list[tuple[float, int]]:
        """Wait until so many records are read, and return the time and the number after each change."""
        seen = [(time.monotonic(), self.read())]
        wait_until(lambda: self._grown(seen) >= records, timeout_s, f"{records} records are not read")
        return seen

    def _grown(self, seen: list[tuple[float, int]]) -> int:
        now = self.read()
        if now != seen[-1][1]:
            seen.append((time.monotonic(), now))
        return now

    def close(self) -> None:
        self._consumer.close()


def wait_until(holds: Callable[[], bool], timeout_s: float, trouble: str) -> None:
    """Wait for a condition. Raises RuntimeError at the timeout."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{trouble} after {timeout_s:g} s")
        time.sleep(_LOOK_S)
