"""The time from an inserted row to its line at a client that follows `SELECT … EMIT CHANGES`.

It is also measured with many such clients that start at once.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from continuous_sql.server import Server, wait_until
from views.lookups import percentiles

_TOPIC: Final = "pushed"
_SOURCE: Final = (
    "CREATE STREAM pushed (id INT KEY, sent BIGINT) WITH (KAFKA_TOPIC='pushed', VALUE_FORMAT='JSON');"
)
RATE_PER_S: Final = 100
_TIMEOUT_S: Final = 30.0
_CLIENTS: Final = (20, 100)
_SHARED_ROWS: Final = 50
_SHARED_RATE_PER_S: Final = 5


def measure(server: Server, rows: int) -> dict[str, Any]:
    """Measure push queries.

    ``latency_ms`` is that of rows that a client produces to the topic, and of those that `INSERT INTO`
    writes. ``starts`` has the figures of each number of clients.
    """
    admin = AdminClient({"bootstrap.servers": server.servers})
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(30)
    server.run(_SOURCE)
    producer = Producer({"bootstrap.servers": server.servers, "linger.ms": 0})

    def produce(number: int) -> None:
        value = b'{"SENT":%d}' % time.monotonic_ns()
        producer.produce(_TOPIC, value, number.to_bytes(4, "big"))
        producer.poll(0)

    def insert(number: int) -> None:
        server.run(f"INSERT INTO pushed VALUES ({number}, {time.monotonic_ns()});")

    found = {}
    for name, send in (("produced", produce), ("INSERT INTO … VALUES", insert)):
        with _following(server) as latencies_ms:
            _send(send, rows)
            wait_until(lambda: len(latencies_ms) >= rows, _TIMEOUT_S, f"found {len(latencies_ms)} rows")
        found[name] = percentiles(latencies_ms)
    return {"latency_ms": found, "starts": {number: _starts(server, number, produce) for number in _CLIENTS}}


def _starts(server: Server, number: int, produce: Callable[[int], None]) -> dict[str, Any]:
    """Start clients at the same moment.

    ``first_ms`` and ``last_ms`` are the times to the first and the last head, ``latency_ms`` is that of rows
    that all clients follow.
    """
    heads_ms: list[float] = []
    latencies_ms: list[float] = []
    begun_s = time.monotonic()

    def follow() -> None:
        with _following(server) as own_ms:
            heads_ms.append((time.monotonic() - begun_s) * 1e3)
            wait_until(lambda: len(own_ms) >= _SHARED_ROWS, _TIMEOUT_S, f"found {len(own_ms)} rows")
            latencies_ms.extend(own_ms)

    threads = [threading.Thread(target=follow) for _ in range(number)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(heads_ms) == number, _TIMEOUT_S, f"found {len(heads_ms)} heads of {number}")
    for row in range(_SHARED_ROWS):
        produce(row)
        time.sleep(1 / _SHARED_RATE_PER_S)
    for thread in threads:
        thread.join()
    return {
        "first_ms": min(heads_ms),
        "last_ms": max(heads_ms),
        "latency_ms": percentiles(latencies_ms),
    }


def _send(send: Any, rows: int) -> None:
    began_s = time.monotonic()
    for number in range(rows):
        time.sleep(max(0.0, began_s + number / RATE_PER_S - time.monotonic()))
        send(number)


@contextmanager
def _following(server: Server) -> Iterator[list[float]]:
    """Collect the latency of each row of a push query as it arrives."""
    latencies_ms: list[float] = []
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/query-stream", json.dumps({"sql": "SELECT sent FROM pushed EMIT CHANGES;"}))
    answer = connection.getresponse()
    header = json.loads(answer.readline())

    def listen() -> None:
        while line := answer.readline():
            latencies_ms.append((time.monotonic_ns() - json.loads(line)[0]) / 1e6)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield latencies_ms
    finally:
        # Only one thread may use a connection, so this opens another.
        Server(server.servers, server.port, server.start_s).close_query(header["queryId"])
        thread.join()
        connection.close()
