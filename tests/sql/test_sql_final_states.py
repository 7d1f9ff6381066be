"""Random joins of tables, groups of them, and outer joins of streams, compared with DuckDB.

The final rows equal those that DuckDB computes from the final rows of the inputs. DuckDB replaces the oracle,
which supports no foreign keys and no outer joins of streams.

PENSTOCK_SQL_CASES=1000 runs a thousand of each kind; PENSTOCK_SEED repeats a run.
"""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pytest
from record_cases import CaseRecord, value_columns, values_of
from record_runner import Bytes, Queries, analyzed, by_topic

CASES = int(os.environ.get("PENSTOCK_SQL_CASES") or 8)
SOURCES = """
CREATE TABLE t (id INT PRIMARY KEY, fk INT, g STRING, v INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON');
CREATE TABLE u (uid INT PRIMARY KEY, label STRING) WITH (KAFKA_TOPIC='u', FORMAT='JSON');
CREATE TABLE w (wid INT PRIMARY KEY, z INT) WITH (KAFKA_TOPIC='w', FORMAT='JSON');
CREATE STREAM s (id INT KEY, a INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
CREATE STREAM r (rid INT KEY, b INT) WITH (KAFKA_TOPIC='r', FORMAT='JSON');
"""
COLUMNS = {"t": "id, fk, g, v", "u": "uid, label", "w": "wid, z", "s": "ts, id, a", "r": "ts, rid, b"}
TEXTS = ("g", "label")
# A time later than any record, when all windows are closed, and keys that join with no row.
LATE_MS, LATE_KEYS = 10**7, (98, 99)
# ksqlDB's aggregates, and DuckDB's.
AGGREGATES = {
    "SUM(v)": "coalesce(sum(v), 0)",
    "AVG(v)": "coalesce(avg(v), 0)",
    "COUNT(v)": "count(v)",
    "COLLECT_LIST(v)": "list(v)",
    "STDDEV_SAMPLE(v)": "coalesce(stddev_samp(v), 0)",
}


@dataclass(frozen=True)
class Comparison:
    """Input ``records``, and one query in ksqlDB's words (``query``) and in DuckDB's (``meaning``)."""

    query: str
    meaning: str
    topics: str
    partitions: int = 1


class Maker:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.now_ms = 0

    def record(self, topic: str) -> CaseRecord:
        choose = self.choose
        self.now_ms += choose.choice((0, 1, 500, 2000))
        values = [self._value(name) for name in COLUMNS[topic].removeprefix("ts, ").split(", ")[1:]]
        gone = choose.randrange(5) == 0
        time_ms = max(0, self.now_ms - choose.choice((0, 0, 0, 3000)))
        return CaseRecord(topic, str(choose.randrange(1, 6)), "-" if gone else ", ".join(values), time_ms)

    def _value(self, name: str) -> str:
        if self.choose.randrange(5) == 0:
            return "null"
        return f'"{self.choose.choice("pqr")}"' if name in TEXTS else str(self.choose.randrange(1, 6))

    def foreign_key(self) -> Comparison:
        kind, on = self.choose.choice(("", "LEFT ")), self.choose.choice(("t.fk", "t.fk + 1"))
        where = self.choose.choice(("", " WHERE t.v > 2", " WHERE u.label IS NOT NULL"))
        query = f"SELECT t.id AS id, t.v AS v, u.label AS label FROM t {kind}JOIN u ON {on} = u.uid{where}"
        return Comparison(f"CREATE TABLE o AS {query};", query, "tu", self.choose.randrange(1, 4))

    def chain(self) -> Comparison:
        first, second = (self.choose.choice(("", "LEFT ")) for _ in range(2))
        by = self.choose.choice(("t.id", "u.uid"))
        columns = "t.id AS id, t.v AS v, u.label AS label, w.z AS z FROM t"
        head = f"SELECT {columns} {first}JOIN u ON t.id = u.uid {second}JOIN w ON"
        query = f"CREATE TABLE o AS {head} {by} = w.wid;"
        return Comparison(query, f"{head} t.id = w.wid", "tuw", self.choose.randrange(1, 4))

    def groups(self) -> Comparison:
        chosen = self.choose.sample(sorted(AGGREGATES), 3)
        on, kind = self.choose.choice(("t.id", "t.fk")), self.choose.choice(("", "LEFT "))
        by = self.choose.choice(("g", "label"))
        rows = f"FROM t {kind}JOIN u ON {on} = u.uid"
        query = (
            f"SELECT {by}, COUNT(*) AS n, {', '.join(f'{c} AS r{at}' for at, c in enumerate(chosen))} {rows}"
        )
        meaning = f"SELECT {by}, count(*), {', '.join(AGGREGATES[each] for each in chosen)} {rows}"
        return Comparison(
            f"CREATE TABLE o AS {query} GROUP BY {by};",
            f"{meaning} WHERE {by} IS NOT NULL GROUP BY {by}",
            "tu",
        )

    def streams(self) -> Comparison:
        kind = self.choose.choice(("", "LEFT ", "RIGHT ", "FULL OUTER "))
        before, after = self.choose.choice(((3, 3), (0, 4), (5, 1)))
        columns = f"AS id, s.a AS a, r.b AS b FROM s {kind}JOIN r"
        key = {"RIGHT ": "r.rid", "FULL OUTER ": "ROWKEY"}.get(kind, "s.id")
        within = f"WITHIN ({before} SECONDS, {after} SECONDS) GRACE PERIOD 10 SECONDS"
        near = f"r.ts BETWEEN s.ts - {before * 1000} AND s.ts + {after * 1000}"
        return Comparison(
            f"CREATE STREAM o AS SELECT {key} {columns} {within} ON s.id = r.rid;",
            f"SELECT coalesce(s.id, r.rid) {columns} ON s.id = r.rid AND {near}",
            "sr",
        )


def _given(case: Comparison, maker: Maker) -> list[CaseRecord]:
    records = [maker.record(maker.choose.choice(case.topics)) for _ in range(50)]
    if case.topics == "sr":
        records += [
            CaseRecord(topic, str(key), "null", LATE_MS) for topic, key in zip("sr", LATE_KEYS, strict=True)
        ]
    return records


def _engine_rows(case: Comparison, records: Sequence[CaseRecord]) -> list[tuple[Any, ...]]:
    """All rows of a stream, the last of each key of a table."""
    catalog, plans = analyzed(SOURCES + case.query)
    sources = by_topic(catalog, [plan for plan, _, _ in plans])
    bytes_of = {topic: Bytes(source) for topic, source in sources.items()}
    queries = Queries(plans, dict.fromkeys(sources, case.partitions))
    for record in records:
        queries.pipe(record.topic, *bytes_of[record.topic].of(record), record)
    found: dict[Any, tuple[Any, ...] | None] = {}
    for number, (_, _, key, value, _, _) in enumerate(queries.written.get("O", ())):
        row = (
            None
            if value is None
            else (*bytes_of["O"].key.deserialize(key), *bytes_of["O"].value.deserialize(value))
        )
        found[number if case.topics == "sr" else key] = row
    return [row for row in found.values() if row is not None]


def _duckdb_rows(case: Comparison, records: Sequence[CaseRecord]) -> list[tuple[Any, ...]]:
    catalog, _ = analyzed(SOURCES)
    rows: dict[Any, tuple[str, list[Any] | None]] = {}
    for number, record in enumerate(records):
        source = catalog.source(record.topic.upper())
        key, values = values_of(record.key, source.keys), values_of(record.value, value_columns(source))
        is_stream = record.topic in "sr"
        row = None if values is None else [*([record.time_ms] if is_stream else []), *(key or ()), *values]
        rows[number if is_stream else (record.topic, key)] = (record.topic, row)
    connection = duckdb.connect()
    for topic, columns in COLUMNS.items():
        types = ", ".join(
            f"{name} {'VARCHAR' if name in TEXTS else 'BIGINT'}" for name in columns.split(", ")
        )
        connection.execute(f"CREATE TABLE {topic} ({types})")
    for topic, row in rows.values():
        if row is not None:
            connection.execute(f"INSERT INTO {topic} VALUES ({', '.join('?' * len(row))})", row)
    return connection.execute(case.meaning).fetchall()


def _plain(rows: Sequence[tuple[Any, ...]], *, are_groups: bool) -> list[str]:
    """Normalize rows for comparison: drop groups that have lost all rows, and sort lists."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return sorted(value, key=repr)
        return round(float(value), 6) if isinstance(value, (int, float)) else value

    there = (row for row in rows if row[0] not in LATE_KEYS and not (are_groups and row[1] == 0))
    return sorted(repr([of(value) for value in row]) for row in there)


@pytest.mark.parametrize("make", [Maker.foreign_key, Maker.chain, Maker.groups, Maker.streams])
def test_the_engine_and_duckdb_come_to_the_same(make: Callable[[Maker], Comparison]) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    choose = random.Random(seed)
    told = 0
    for _ in range(CASES):
        maker = Maker(choose.randrange(2**32))
        case = make(maker)
        records = _given(case, maker)
        expected = _plain(_duckdb_rows(case, records), are_groups=make is Maker.groups)
        assert _plain(_engine_rows(case, records), are_groups=make is Maker.groups) == expected, (
            case,
            records,
        )
        told += len(expected)
    assert told > 0
