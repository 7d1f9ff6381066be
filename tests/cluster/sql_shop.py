"""A shop with continuous SQL queries: the records of its topics and the expected outputs.

`Uninterrupted` runs each query separately over all records at once, for comparison with the server's outputs.
Some outputs depend on how records of several topics and partitions interleave; their other properties are
compared.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.sql import parse_script
from penstock.sql.analysis import analyze
from penstock.sql.analysis.plan import Sink
from penstock.sql.catalog import Catalog
from penstock.sql.planning import build_app
from penstock.streams import App, TopologyTest, raw
from penstock.topology.graph import Topology

PARTITIONS: Final = 2
CUSTOMERS: Final = 40
_ITEMS: Final = ("anchor", "bolt", "cable", "drill", "eyelet")
_TAGS: Final = ("blue", "heavy", "new", "small")
_STEP_MS: Final = 25
"""The event time between one record and the next."""
_LATE_MS_MAX: Final = 4_000
"""The maximum lateness of a record."""
_BEGIN_MS: Final = 1_700_000_000_000

INPUTS: Final = ("orders", "payments", "customers", "accounts", "addresses")
SOURCES: Final = """
CREATE STREAM orders (customer INT KEY, seq INT, item STRING, price INT, tags ARRAY<STRING>)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM payments (customer INT KEY, payment INT) WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON');
CREATE TABLE customers (customer INT PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');
CREATE TABLE accounts (customer INT PRIMARY KEY, credit INT)
  WITH (KAFKA_TOPIC='accounts', VALUE_FORMAT='JSON');
CREATE TABLE addresses (customer INT PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC='addresses', VALUE_FORMAT='JSON');
CREATE STREAM notes (customer INT KEY, seq INT, note STRING)
  WITH (KAFKA_TOPIC='NOTES', VALUE_FORMAT='JSON', PARTITIONS=2);
"""
QUERIES: Final = """
CREATE STREAM dear AS SELECT * FROM orders WHERE price > 50;
CREATE STREAM labels AS
  SELECT customer, seq, UCASE(item) AS item, price * 119 AS gross,
    CASE WHEN price > 50 THEN 'dear' ELSE 'cheap' END AS kind
  FROM orders;
CREATE STREAM tags AS SELECT customer, seq, EXPLODE(tags) AS tag FROM orders;
INSERT INTO notes SELECT customer, seq, CONCAT('dear ', item) AS note FROM orders WHERE price > 90;
CREATE STREAM named AS
  SELECT o.customer AS customer, o.seq, c.name FROM orders o JOIN customers c ON o.customer = c.customer;
CREATE STREAM by_item AS SELECT * FROM orders PARTITION BY item;
CREATE STREAM paid AS
  SELECT o.customer AS customer, o.seq, p.payment
  FROM orders o JOIN payments p WITHIN 5 SECONDS GRACE PERIOD 1 DAY ON o.customer = p.customer;
CREATE TABLE totals AS
  SELECT customer, COUNT(*) AS n, SUM(seq) AS seqs, MAX(seq) AS latest FROM orders GROUP BY customer;
CREATE TABLE items AS SELECT item, COUNT(*) AS n, SUM(price) AS price FROM by_item GROUP BY item;
CREATE TABLE item_minutes AS
  SELECT item, COUNT(*) AS n, SUM(price) AS price
  FROM orders WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 DAY) GROUP BY item;
CREATE TABLE visits AS
  SELECT customer, COUNT(*) AS n, MAX(seq) AS latest
  FROM orders WINDOW SESSION (2 SECONDS, GRACE PERIOD 1 DAY) GROUP BY customer;
CREATE TABLE closed AS
  SELECT customer, COUNT(*) AS n, SUM(price) AS price
  FROM orders WINDOW TUMBLING (SIZE 5 SECONDS, GRACE PERIOD 2 SECONDS) GROUP BY customer EMIT FINAL;
CREATE TABLE standing AS
  SELECT a.customer AS customer, a.credit, d.city FROM accounts a JOIN addresses d ON a.customer = d.customer;
"""


class Row(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class Shop:
    """The generator of the records of a seed; each partition always gets the same order."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now_ms = _BEGIN_MS
        self._orders: Counter[int] = Counter()
        self._payments = 0
        self.rows: list[Row] = []
        """All records so far."""

    def open(self) -> list[Row]:
        """Write the records from before the statements, which are older: no order precedes its customer."""
        return self._kept(
            [self._row("customers", n, 2 * _LATE_MS_MAX, NAME=f"customer {n}") for n in range(CUSTOMERS)]
        )

    def more(self, count: int) -> list[Row]:
        return self._kept([self._next() for _ in range(count)])

    def close(self) -> list[Row]:
        """Write the records that close the open windows."""
        self._now_ms += 600_000
        return self._kept([self._order(n) for n in range(CUSTOMERS)])

    def _kept(self, rows: list[Row]) -> list[Row]:
        self.rows += rows
        return rows

    def _next(self) -> Row:
        rng, customer = self._rng, self._rng.randrange(CUSTOMERS)
        self._now_ms += _STEP_MS
        match rng.choices(("order", "payment", "account", "address"), (80, 10, 5, 5))[0]:
            case "order":
                return self._order(customer)
            case "payment":
                self._payments += 1
                return self._row("payments", customer, PAYMENT=self._payments)
            case "account":
                return self._row("accounts", customer, CREDIT=rng.randrange(1000))
            case _ if rng.random() < 0.3:
                return Row("addresses", customer.to_bytes(4, "big"), None, self._now_ms)
            case _:
                return self._row("addresses", customer, CITY=f"city {rng.randrange(100)}")

    def _order(self, customer: int) -> Row:
        """An order; each customer's orders are numbered from 1."""
        rng = self._rng
        self._orders[customer] += 1
        late_ms = rng.randrange(_LATE_MS_MAX) if rng.random() < 0.2 else 0
        return self._row(
            "orders",
            customer,
            late_ms,
            SEQ=self._orders[customer],
            ITEM=rng.choice(_ITEMS),
            PRICE=rng.randrange(100),
            TAGS=rng.sample(_TAGS, rng.randrange(len(_TAGS))),
        )

    def _row(self, topic: str, customer: int, late_ms: int = 0, **value: object) -> Row:
        at_ms = self._now_ms - late_ms
        return Row(topic, customer.to_bytes(4, "big"), json.dumps(value).encode(), at_ms)


# Expected outputs


@dataclass(frozen=True)
class Output:
    """An output topic, and the way its records are compared."""

    topic: str
    compare: Callable[[Iterable[Row]], Mapping[Any, Any]]


def in_order(rows: Iterable[Row]) -> Mapping[Any, Any]:
    """The records of each key in order, for outputs from one partition."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.key].append((row.value, row.timestamp_ms))
    return found


def in_order_by_customer(rows: Iterable[Row]) -> Mapping[Any, Any]:
    """The records of each customer in order, for outputs from several partitions."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        assert row.value is not None
        found[row.key, json.loads(row.value)["CUSTOMER"]].append((row.value, row.timestamp_ms))
    return found


def each_once(rows: Iterable[Row]) -> Mapping[Any, Any]:
    """The records in any order, for stream joins whose order depends on which side arrives first."""
    return Counter((row.key, row.value, row.timestamp_ms) for row in rows)


def final_rows(rows: Iterable[Row]) -> Mapping[Any, Any]:
    """The final rows of a table; the number of intermediate updates depends on its batches."""
    return {key: value for key, value in {row.key: row.value for row in rows}.items() if value is not None}


OUTPUTS: Final = (
    *(Output(topic, in_order) for topic in ("DEAR", "LABELS", "TAGS", "NOTES", "NAMED", "CLOSED")),
    Output("BY_ITEM", in_order_by_customer),
    Output("PAID", each_once),
    *(Output(topic, final_rows) for topic in ("TOTALS", "ITEMS", "ITEM_MINUTES", "VISITS", "STANDING")),
)


class Uninterrupted:
    """All queries run over all records, without a broker and without Spark."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._of_topic: dict[str, list[Row]] = defaultdict(list)
        written = list(rows)
        for app in _apps():
            topology = app.topology()
            read = _topics_read(topology)
            derived = [row for topic in read - set(INPUTS) for row in self._of_topic[topic]]
            self._run(app, derived or [row for row in written if row.topic in read])

    def of(self, topic: str) -> list[Row]:
        return self._of_topic[topic]

    def _run(self, app: App, rows: Iterable[Row]) -> None:
        test = TopologyTest(app, partitions=PARTITIONS)
        for row in rows:
            test.input(row.topic).pipe_bytes(row.key, row.value, timestamp=row.timestamp_ms)
        for sink in {each.topic for part in app.topology().sub_topologies for each in part.sinks}:
            for record in test.output(sink, key=raw, value=raw).read_all():
                self._of_topic[sink].append(Row(sink, record.key, record.value, record.timestamp_ms))


def _apps() -> Iterable[App]:
    catalog, script = Catalog(), SOURCES + QUERIES
    for number, read in enumerate(parse_script(script)):
        found = analyze(read.statement, catalog, script, read.place.offset)
        catalog = found.catalog
        if found.plan is not None and isinstance(found.plan.root, Sink):
            yield build_app(found.plan, query_id=f"Q_{number}", catalog=catalog).app


def _topics_read(topology: Topology) -> set[str]:
    read = {topic for part in topology.sub_topologies for topic in part.source_topics}
    return read - set(topology.repartitions)
