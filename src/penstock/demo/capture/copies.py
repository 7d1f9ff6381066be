"""The copies of the shop's tables: the topics, a live SQL view, Delta tables; and the database itself.

Each is read as rows by key, so that they can be compared.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from penstock.demo.capture.idle_host import IdleHost

if TYPE_CHECKING:
    from penstock.sql.engine import Engine

Key = tuple[Any, ...]
Row = dict[str, Any]
Rows = dict[Key, Row]

KEYS: Final = {
    "products": ("id",),
    "orders": ("day", "number"),
    "baskets": ("id",),
    "returns": ("id",),
}
_COLUMNS: Final = {
    "products": "id, version, name, stock, price, tags, made, manual, shelf",
    "orders": "day, number, version, product, quantity, note::text as note",
    "baskets": "id::text as id, version, items, weight",
    "returns": "id, version, reason",
}
VIEWED: Final = ("id", "version", "name", "stock", "price")
"""The columns of the SQL view, which has the products."""
_VIEW: Final = """
CREATE SOURCE TABLE products (
    k STRUCT<id INT> PRIMARY KEY,
    payload STRUCT<after STRUCT<id INT, version INT, name STRING, stock INT, price DECIMAL(10, 2)>>
) WITH (KAFKA_TOPIC='{prefix}.inv.products', FORMAT='JSON');
"""
_SELECT: Final = """
SELECT payload->after->id, payload->after->version, payload->after->name, payload->after->stock,
    payload->after->price FROM products;
"""
_UNAVAILABLE: Final = "__debezium_unavailable_value"
_WAIT_S: Final = 30.0
_POLL_S: Final = 0.3
_FETCH_MAX: Final = 10_000
_QUIET: Final = 2


def rows_of_database(url: str) -> dict[str, Rows]:
    """Read the database's tables in one snapshot."""
    import psycopg
    from psycopg.rows import dict_row

    found = {}
    with psycopg.connect(url, row_factory=dict_row) as session:
        session.execute("set transaction isolation level repeatable read")
        for table, columns in _COLUMNS.items():
            rows = session.execute(f"select {columns} from inv.{table}".encode())
            found[table] = by_key(rows, KEYS[table])
    return found


def by_key(rows: Iterable[Row], keys: Sequence[str]) -> Rows:
    """Return rows by key. Raises ValueError if two have the same."""
    found: Rows = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        if key in found:
            raise ValueError(f"two rows have the key {key}")
        found[key] = dict(row)
    return found


def rows_of_delta(path: Path) -> dict[str, Rows]:
    """Read the Delta tables."""
    from deltalake import DeltaTable

    found = {}
    for table, keys in KEYS.items():
        rows = DeltaTable(str(path / "inv" / table)).to_pyarrow_table().to_pylist()
        found[table] = by_key(rows, keys)
    return found


@dataclass
class TopicContents:
    """The rows that the changes in topics add up to, and what is wrong with the order of changes.

    ``lost`` and ``repeated`` count changes whose row's version does not follow the one before.
    """

    rows: dict[str, Rows] = field(default_factory=dict)
    records: int = 0
    lost: int = 0
    repeated: int = 0


def read_topics(bootstrap: str, prefix: str) -> TopicContents:
    """Read the topics at read_committed from the first record to the last. Raises KafkaException."""
    found = TopicContents()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"demo-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": _QUIET,
        }
    )
    try:
        for table, keys in KEYS.items():
            reader = TopicReader(found)
            consumer.assign([TopicPartition(f"{prefix}.inv.{table}", 0, OFFSET_BEGINNING)])
            for key, value in _records(consumer):
                reader.take(key, json.loads(value)["payload"])
            found.rows[table] = by_key([decoded(row) for row in reader.rows.values()], keys)
    finally:
        consumer.close()
    return found


def _records(consumer: Consumer) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield the records of the assigned partition, tombstones left out, to its end."""
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        messages = consumer.consume(_FETCH_MAX, _POLL_S)
        if messages:
            deadline_s = time.monotonic() + _WAIT_S
        elif time.monotonic() > deadline_s:
            raise TimeoutError(f"a topic gave no records within {_WAIT_S:g} s")
        for message in messages:
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                raise KafkaException(error)
            value = message.value()
            if value is not None:
                yield message.key(), value


class TopicReader:
    """The rows of one topic, by their keys as the records have them."""

    def __init__(self, contents: TopicContents) -> None:
        self._contents = contents
        self._removed: Row = {}
        self.rows: dict[bytes, Row] = {}

    def take(self, key: bytes | None, change: Mapping[str, Any]) -> None:
        """Apply one change."""
        self._contents.records += 1
        if change["op"] == "t":
            self.rows.clear()
            return
        assert key is not None, "only a truncate has no key"
        before = self.rows.get(key)
        if change["op"] == "d":
            self._contents.lost += before is None
            self._removed = self.rows.pop(key, {})
            return
        row: Row = change["after"]
        if change["op"] == "u":
            step = row["version"] - (before or {"version": 0})["version"]
            self._contents.lost += step > 1
            self._contents.repeated += step < 1
        for name, cell in row.items():
            if cell == _UNAVAILABLE:
                # A changed key is a delete and a create, whose large values were not logged either.
                row[name] = (self._removed if before is None else before).get(name)
        self.rows[key] = row


def decoded(row: Row) -> Row:
    """Return a row with Python's values for Debezium's dates, times and numbers."""
    return {
        name: cell if cell is None or name not in _DECODE else _DECODE[name](cell)
        for name, cell in row.items()
    }


_DECODE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "day": lambda days: date(1970, 1, 1) + timedelta(days=days),
    "made": datetime.fromisoformat,
    "price": lambda number: Decimal(str(number)),
}


class SqlView:
    """A table of ksqlDB's SQL that follows the topic of the products, in an engine of this process."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        from penstock.sql.engine import Engine, EngineConfig

        self._engine: Engine = Engine(EngineConfig(bootstrap, f"{prefix}_"), IdleHost())
        self._engine.start()
        self._engine.execute(_VIEW.format(prefix=prefix))

    def rows(self) -> Rows:
        """Select all rows. Raises EngineError."""
        result = self._engine.query(_SELECT)
        found = []
        while not result.is_finished:
            found += [dict(zip(VIEWED, row, strict=True)) for row in result.rows(_WAIT_S)]
        return by_key([row for row in found if row["id"] is not None], KEYS["products"])

    def count(self) -> int | None:
        """Return the number of rows; None while the view cannot answer."""
        from penstock.sql.engine import EngineError

        try:
            return len(self.rows())
        except EngineError:
            return None

    def close(self) -> None:
        self._engine.close()


@contextmanager
def sql_view(bootstrap: str, prefix: str) -> Iterator[SqlView]:
    """The view for the duration of the block."""
    view = SqlView(bootstrap, prefix)
    try:
        yield view
    finally:
        view.close()


def differences(found: Rows, expected: Rows, columns: Sequence[str] | None = None) -> list[str]:
    """Compare rows, in some columns or all that are expected, and describe each difference."""
    lines = [f"{key} is missing" for key in expected.keys() - found.keys()]
    lines += [f"{key} should not be there" for key in found.keys() - expected.keys()]
    for key in expected.keys() & found.keys():
        for name in columns or expected[key]:
            wanted, cell = expected[key][name], found[key].get(name)
            if cell != wanted:
                lines.append(f"{key}: {name} is {cell!r:.80}, not {wanted!r:.80}")
    return sorted(lines)
