"""Many statements at a steady rate: the time from a record's production to each of its results."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from continuous_sql.orders import ORDERS, Feed
from continuous_sql.server import GroupProgress, Server
from views.lookups import percentiles

_KINDS: Final = (
    "CREATE STREAM s{n} AS SELECT id, price, sent FROM orders WHERE price > {price};",
    """CREATE TABLE s{n} AS SELECT customer, COUNT(*) AS n, MAX(sent) AS sent FROM orders
       WHERE customer % 4 = {part} GROUP BY customer;""",
    """CREATE STREAM s{n} AS SELECT o.customer AS customer, o.id AS id, c.name AS name, o.sent AS sent
       FROM orders o JOIN customers c ON o.customer = c.id WHERE o.price > {price};""",
    """CREATE TABLE s{n} AS SELECT customer, COUNT(*) AS n, MAX(sent) AS sent FROM orders
       WINDOW TUMBLING (SIZE 10 SECONDS) WHERE customer % 4 = {part} GROUP BY customer;""",
)
_FIRST_ORDERS: Final = 10_000
_READ_TIMEOUT_S: Final = 300.0
_LAST_RESULTS_S: Final = 5.0


def measure(server: Server, feed: Feed, statements: int, rate_per_s: int, seconds: float) -> dict[str, Any]:
    """Measure latencies of the second half's results, once all statements have read something."""
    feed.write(_FIRST_ORDERS)
    script = "\n".join(
        _KINDS[n % len(_KINDS)].format(n=n, price=80 + n % 10, part=n % 4) for n in range(statements)
    )
    began_s = time.monotonic()
    server.run(script)
    accepted_s = time.monotonic() - began_s
    _wait_until_read(server, statements, feed.sent)
    started_s = time.monotonic() - began_s
    with _Listener(server.servers, [f"S{n}" for n in range(statements)]) as listener:
        half_s = time.time() + seconds / 2
        before = feed.sent
        feed.write_at(rate_per_s, seconds)
        time.sleep(_LAST_RESULTS_S)
    kinds = [f"S{n}" for n in range(statements)]
    for n, sink in enumerate(kinds):
        server.run(f"DROP {'STREAM' if n % 2 == 0 else 'TABLE'} {sink} DELETE TOPIC;")
    late = [latency for at_s, latency in listener.latencies_ms if at_s > half_s]
    return {
        "statements": statements,
        "sent": feed.sent - before,
        "results": len(listener.latencies_ms),
        "accepted_s": round(accepted_s, 2),
        "started_s": round(started_s, 2),
        "latency_ms": percentiles(late),
    }


def _wait_until_read(server: Server, statements: int, records: int) -> None:
    for n in range(statements):
        progress = GroupProgress(server.servers, server.query_of(f"S{n}"), ORDERS)
        progress.wait_for(records, _READ_TIMEOUT_S)
        progress.close()


class _Listener:
    """A reader of what is committed to some topics from now on."""

    def __init__(self, servers: str, topics: list[str]) -> None:
        self.latencies_ms: list[tuple[float, float]] = []
        """The wall-clock time at which each result arrived, and its latency."""
        settings = {"group.id": "listener", "isolation.level": "read_committed", "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": servers, **settings})
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in self._consumer.list_topics(topic, 30).topics[topic].partitions
        ]
        for each in partitions:
            each.offset = self._consumer.get_watermark_offsets(each, 30)[1]
        self._consumer.assign(partitions)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> _Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()

    def _listen(self) -> None:
        while not self._is_over.is_set():
            messages = self._consumer.consume(5000, 0.05)
            now_s = time.time()
            for message in messages:
                value = message.value()
                if message.error() is None and value is not None:
                    self.latencies_ms.append((now_s, now_s * 1000 - json.loads(value)["SENT"]))
