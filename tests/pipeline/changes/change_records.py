"""A table that changes at random, and the records that Debezium would write of its changes."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

UNAVAILABLE: Final = "__debezium_unavailable_value"
EPOCH: Final = datetime(1970, 1, 1)
Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A type of a column: its schema in Connect's JSON, random values, and how Debezium writes them."""

    schema: dict[str, Any]
    make: Callable[[random.Random], Any]
    encode: Callable[[Any], Any] = lambda value: value


def _micros(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)


def _unscaled(value: Decimal) -> str:
    number = int(value.scaleb(2))
    length = (number.bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


_WORDS: Final = ("", "a", "tea", "Grüße", 'quote " and \\', "line\nbreak", "null", "😀")

KINDS: Final = {
    "int": Kind({"type": "int32"}, lambda r: r.randint(-(2**31), 2**31 - 1)),
    "long": Kind({"type": "int64"}, lambda r: r.randint(-(2**63), 2**63 - 1)),
    "text": Kind({"type": "string"}, lambda r: r.choice(_WORDS)),
    "flag": Kind({"type": "boolean"}, lambda r: r.random() < 0.5),
    "double": Kind({"type": "double"}, lambda r: r.choice((0.1, -2.5, 1e300, 0.30000000000000004))),
    "bytes": Kind(
        {"type": "bytes"}, lambda r: r.randbytes(r.randrange(4)), lambda v: base64.b64encode(v).decode()
    ),
    "price": Kind(
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "20"},
        },
        lambda r: Decimal(r.randint(-(10**19), 10**19)).scaleb(-2),
        _unscaled,
    ),
    "day": Kind(
        {"type": "int32", "name": "io.debezium.time.Date"},
        lambda r: date(1900, 1, 1) + timedelta(days=r.randrange(80_000)),
        lambda v: (v - EPOCH.date()).days,
    ),
    "moment": Kind(
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        lambda r: EPOCH + timedelta(microseconds=r.randint(-(10**15), 10**16)),
        _micros,
    ),
    "instant": Kind(
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        lambda r: (
            datetime.fromtimestamp(r.randrange(2**31), UTC) + timedelta(microseconds=r.randrange(10**6))
        ),
        lambda v: v.isoformat().replace("+00:00", "Z"),
    ),
    "list": Kind(
        {"type": "array", "items": {"type": "string", "optional": True}},
        lambda r: [r.choice(_WORDS) for _ in range(r.randrange(3))],
    ),
}


@dataclass
class Change:
    """One record of a topic; ``at_us`` is the source's time, ``key`` and ``row`` what the change leaves."""

    record_key: bytes | None
    value: bytes | None
    key: tuple[Any, ...] | None = None
    row: Row | None = None
    at_us: int = 0
    is_truncate: bool = False


@dataclass
class SourceTable:
    """A table with the key ``id``, and a text ``note`` that updates may leave out of the log."""

    random: random.Random
    with_schemas: bool = True
    with_truncates: bool = False
    columns: dict[str, str] = field(
        default_factory=lambda: {name: name for name in KINDS if name != "list"} | {"note": "text"}
    )
    rows: dict[int, Row] = field(default_factory=dict)
    lsn: int = 1000
    at_us: int = 1_700_000_000_000_000
    ids: int = 12

    def step(self) -> list[Change]:
        """Change the table once, and return the records of it."""
        self.lsn += self.random.randint(1, 9)
        self.at_us += self.random.choice((0, 0, 1000, 2000))
        kind = self.random.random()
        identity = self.random.randint(1, self.ids)
        if kind < 0.02 and self.with_truncates:
            self.rows.clear()
            return [self._record("t", None, None, None)]
        if kind < 0.04 and len(self.columns) < 16:
            self.columns[f"added_{len(self.columns)}"] = self.random.choice(list(KINDS))
        row = self.rows.get(identity)
        if row is None:
            row = self.rows[identity] = {"id": identity} | self._cells()
            return [self._record("c", identity, None, row)]
        if kind < 0.2:
            del self.rows[identity]
            return [self._record("d", identity, {"id": identity}, None), self._tombstone(identity)]
        free = sorted(set(range(1, self.ids + 1)) - self.rows.keys())
        if kind < 0.35 and free:
            return self._rekey(identity, self.random.choice(free))
        return [self._update(identity, row)]

    def _update(self, identity: int, row: Row) -> Change:
        changed = self._cells()
        names = self.random.sample(sorted(changed), self.random.randint(0, len(changed)))
        row = self.rows[identity] = {"id": identity} | {
            name: changed[name] if name in names else row.get(name) for name in self.columns
        }
        logged = dict(row)
        if "note" not in names:
            logged["note"] = UNAVAILABLE
        return self._record("u", identity, None, row, logged)

    def _rekey(self, old: int, new: int) -> list[Change]:
        row = self.rows[new] = {**self.rows.pop(old), "id": new}
        deleted = self._record("d", old, {"id": old}, None)
        return [deleted, self._tombstone(old), self._record("c", new, None, row)]

    def _cells(self) -> Row:
        return {
            name: None if self.random.random() < 0.15 else KINDS[kind].make(self.random)
            for name, kind in self.columns.items()
        }

    def _tombstone(self, identity: int) -> Change:
        return Change(self._record_key(identity), None)

    def _record_key(self, identity: int) -> bytes:
        return json.dumps({"id": identity}).encode()

    def _record(
        self, op: str, identity: int | None, before: Row | None, row: Row | None, logged: Row | None = None
    ) -> Change:
        envelope = {
            "before": self._encoded(before),
            "after": self._encoded(row if logged is None else logged),
            "source": {
                "connector": "postgresql",
                "lsn": self.lsn,
                "ts_ms": self.at_us // 1000,
                "ts_us": self.at_us,
                "table": "orders",
            },
            "op": op,
            "ts_ms": self.at_us // 1000 + 5,
        }
        if self.with_schemas:
            envelope = {"schema": self._schema(), "payload": envelope}
        return Change(
            None if identity is None else self._record_key(identity),
            json.dumps(envelope).encode(),
            None if identity is None else (identity,),
            None if row is None else dict(row),
            self.at_us,
            op == "t",
        )

    def _encoded(self, row: Row | None) -> Row | None:
        if row is None:
            return None
        return {
            name: value if value in (None, UNAVAILABLE) or name == "id" else self._kind(name).encode(value)
            for name, value in row.items()
        }

    def _kind(self, name: str) -> Kind:
        return KINDS[self.columns[name]]

    def _schema(self) -> dict[str, Any]:
        fields = [{"field": "id", "type": "int32", "optional": False}]
        fields += [
            {**KINDS[kind].schema, "field": name, "optional": True} for name, kind in self.columns.items()
        ]
        row = {"type": "struct", "fields": fields, "optional": True}
        return {
            "type": "struct",
            "name": "inv.public.orders.Envelope",
            "fields": [
                {**row, "field": "before"},
                {**row, "field": "after"},
                {"field": "op", "type": "string"},
            ],
        }


def without_nulls(row: Row) -> Row:
    """Return a row as it is in tables with and without a column that is null in it."""
    return {name: value for name, value in row.items() if value is not None}


def versions(changes: list[Change]) -> dict[int, list[tuple[int, int | None, Row]]]:
    """Return the versions that changes leave, by key: (start, end, row), times in µs."""
    moments: dict[int, dict[int, Row | None]] = {}
    for change in changes:
        if change.is_truncate:
            for states in moments.values():
                states[change.at_us] = None
        elif change.key is not None:
            moments.setdefault(change.key[0], {})[change.at_us] = change.row
    return {key: made for key, states in moments.items() if (made := _versions(states))}


def _versions(states: dict[int, Row | None]) -> list[tuple[int, int | None, Row]]:
    made: list[tuple[int, int | None, Row]] = []
    last: Row | None = None
    for at, row in sorted(states.items()):
        if last is None or row is None or without_nulls(last) != without_nulls(row):
            if last is not None:
                start, _, ended = made[-1]
                made[-1] = (start, at, ended)
            if row is not None:
                made.append((at, None, row))
        last = row
    return made
