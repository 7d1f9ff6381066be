"""The topics that the statements read: orders, and the customers who placed them."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

ORDERS: Final = "orders"
CUSTOMERS: Final = 1000
SOURCES: Final = """
CREATE STREAM orders (id INT KEY, customer INT, price DOUBLE, sent BIGINT)
  WITH (KAFKA_TOPIC='orders', FORMAT='JSON');
CREATE TABLE customers (id INT PRIMARY KEY, name STRING) WITH (KAFKA_TOPIC='customers', FORMAT='JSON');
"""


class Feed:
    """A writer of orders, whose prices are the whole numbers below 100, plus one half, in turn."""

    def __init__(self, servers: str, partitions: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 2_000_000}
        )
        self.sent = 0
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics(
            [NewTopic(name, partitions, 1) for name in (ORDERS, "customers")]
        ).values():
            made.result(30)
        for number in range(CUSTOMERS):
            self._producer.produce("customers", b'{"NAME":"customer %d"}' % number, b"%d" % number)
        self._producer.flush()

    def write(self, count: int) -> None:
        """Write orders as fast as possible."""
        for _ in range(count):
            self._send()
        self._producer.flush()

    def write_at(self, rate_per_s: int, seconds: float) -> None:
        """Write orders at a rate; each record has the wall-clock time at which it was sent, in ms."""
        began_s, before = time.monotonic(), self.sent
        while (now_s := time.monotonic() - began_s) < seconds:
            while self.sent - before < now_s * rate_per_s:
                self._send()
            self._producer.poll(0)
            time.sleep(0.005)
        self._producer.flush()

    def _send(self) -> None:
        number = self.sent
        value = b'{"CUSTOMER":%d,"PRICE":%d.5,"SENT":%d}' % (
            number % CUSTOMERS,
            number * 7919 % 100,
            time.time_ns() // 1_000_000,
        )
        while True:
            try:
                self._producer.produce(ORDERS, value, b"%d" % number)
                break
            except BufferError:
                self._producer.poll(0.01)
        self.sent += 1
