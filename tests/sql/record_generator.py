"""Random queries over random records: out of order, late, null and deleted. A seed gives the same case."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from record_cases import CaseRecord, RecordCase

WORDS = ("ash", "birch", "elm", "fir", "oak")
STREAM = """CREATE STREAM {name} (id INT KEY, a INT, b BIGINT, word STRING, flag BOOLEAN)
  WITH (KAFKA_TOPIC='{name}', FORMAT='JSON', PARTITIONS=1);
"""
TABLE = """CREATE TABLE {name} (id INT PRIMARY KEY, weight BIGINT, colour STRING)
  WITH (KAFKA_TOPIC='{name}', FORMAT='JSON', PARTITIONS=1);
"""
NESTED = """CREATE STREAM s (id INT KEY, items ARRAY<INT>, pair STRUCT<x INT, y STRING>,
  counts MAP<STRING, INT>)
  WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1);
"""


class Maker:
    def __init__(self, seed: int, records: int) -> None:
        self.choose = random.Random(seed)
        self.count = records
        self.now = 0

    # records

    def time(self) -> int:
        """The time of the next record: mostly a little later, at times long before."""
        self.now += self.choose.choice((0, 1, 1000, 2500, 7000, 15000))
        back = self.choose.choice((0, 0, 0, 800, 4000, 20000))
        return max(0, self.now - back)

    def maybe(self, text: str, one_in: int = 6) -> str:
        return "null" if self.choose.randrange(one_in) == 0 else text

    def stream_record(self, topic: str = "s") -> CaseRecord:
        choose = self.choose
        key = "-" if choose.randrange(12) == 0 else str(choose.randrange(1, 4))
        cells = (
            self.maybe(str(choose.randrange(-3, 10))),
            self.maybe(str(choose.randrange(-5, 50))),
            self.maybe(f'"{choose.choice(WORDS)}"'),
            self.maybe(choose.choice(("true", "false"))),
        )
        value = "-" if choose.randrange(12) == 0 else ", ".join(cells)
        return CaseRecord(topic, key, value, self.time())

    def table_record(self, topic: str = "t") -> CaseRecord:
        choose = self.choose
        cells = (
            self.maybe(str(choose.randrange(1, 5))),
            self.maybe(f'"{choose.choice(("red", "green", "blue"))}"'),
        )
        value = "-" if choose.randrange(5) == 0 else ", ".join(cells)
        return CaseRecord(topic, str(choose.randrange(1, 4)), value, self.time())

    def nested_record(self) -> CaseRecord:
        choose = self.choose
        items = [self.maybe(str(choose.randrange(9))) for _ in range(choose.randrange(4))]
        x, y = self.maybe(str(choose.randrange(5))), self.maybe('"oak"')
        counts = ", ".join(f'"{word}": {choose.randrange(9)}' for word in choose.sample(WORDS, 2))
        cells = ("[" + ", ".join(items) + "]", f'{{"X": {x}, "Y": {y}}}', f"{{{counts}}}")
        value = ", ".join(map(self.maybe, cells))
        return CaseRecord("s", str(choose.randrange(1, 4)), value, self.time())

    # expressions over the columns of STREAM

    def number(self, depth: int = 2) -> str:
        choose = self.choose
        leaves = ("a", "b", str(choose.randrange(1, 20)), "LEN(word)")
        if depth == 0 or choose.randrange(3) == 0:
            return choose.choice(leaves)
        left, right = self.number(depth - 1), self.number(depth - 1)
        return choose.choice(
            (
                f"({left} {choose.choice('+-*')} {right})",
                f"({left} / {choose.randrange(1, 5)})",
                f"({left} % {choose.randrange(2, 5)})",
                f"ABS({left})",
                f"CASE WHEN {self.condition(0)} THEN {left} ELSE {right} END",
                f"COALESCE({left}, {right})",
            )
        )

    def text(self) -> str:
        return self.choose.choice(
            ("word", "UCASE(word)", "word + '!'", "CAST(a AS STRING)", "IFNULL(word, 'none')")
        )

    def condition(self, depth: int = 1) -> str:
        choose = self.choose
        leaves = (
            f"{choose.choice('ab')} {choose.choice(('=', '<>', '<', '<=', '>', '>='))} {choose.randrange(9)}",
            f"a BETWEEN {choose.randrange(3)} AND {choose.randrange(3, 9)}",
            f"word LIKE '{choose.choice(('%a%', '_ir', 'b%', 'o_k'))}'",
            f"word IN ('{choose.choice(WORDS)}', '{choose.choice(WORDS)}')",
            f"{choose.choice(('a', 'b', 'word'))} IS {choose.choice(('', 'NOT '))}NULL",
            "flag",
            "a > b",
            f"word <> '{choose.choice(WORDS)}'",
        )
        if depth == 0 or choose.randrange(2):
            return choose.choice(leaves)
        return f"({self.condition(depth - 1)} {choose.choice(('AND', 'OR'))} {self.condition(depth - 1)})"

    def where(self) -> str:
        return f" WHERE {self.condition()}" if self.choose.randrange(2) else ""

    def aggregates(self) -> str:
        calls = ("COUNT(*)", "COUNT(a)", "SUM(b)", "MIN(a)", "MAX(b)", "COLLECT_LIST(a)", "SUM(a) + 1")
        calls += ("EARLIEST_BY_OFFSET(a)", "LATEST_BY_OFFSET(b)", "COLLECT_SET(word)")
        chosen = self.choose.sample(calls, self.choose.randrange(1, 4))
        return ", ".join(f"{call} AS r{number}" for number, call in enumerate(chosen))

    def grace(self) -> str:
        return self.choose.choice(
            ("", ", GRACE PERIOD 0 SECONDS", ", GRACE PERIOD 3 SECONDS", ", GRACE PERIOD 10 SECONDS")
        )

    def window(self) -> str:
        choose, grace = self.choose, self.grace()
        return choose.choice(
            (
                f"TUMBLING (SIZE {choose.choice((5, 10))} SECONDS{grace})",
                f"HOPPING (SIZE 10 SECONDS, ADVANCE BY {choose.choice((3, 5))} SECONDS{grace})",
                f"SESSION ({choose.choice((2, 5))} SECONDS{grace})",
            )
        )

    # queries

    def stream_records(self) -> list[CaseRecord]:
        return [self.stream_record() for _ in range(self.count)]

    def mixed(self, *makers: Callable[[], CaseRecord]) -> list[CaseRecord]:
        return [self.choose.choice(makers)() for _ in range(self.count * 2)]

    def projection(self) -> tuple[str, list[CaseRecord]]:
        select = f"id, {self.number()} AS x, {self.text()} AS y, {self.condition()} AS z"
        query = f"CREATE STREAM o AS SELECT {select} FROM s{self.where()};"
        return STREAM.format(name="s") + query, self.stream_records()

    def partition(self) -> tuple[str, list[CaseRecord]]:
        by = self.choose.choice(("a", "word", "b"))
        query = f"CREATE STREAM o AS SELECT * FROM s{self.where()} PARTITION BY {by};"
        return STREAM.format(name="s") + query, self.stream_records()

    def group(self) -> tuple[str, list[CaseRecord]]:
        by = self.choose.choice(("id", "word", "a"))
        having = self.choose.choice(("", " HAVING COUNT(*) > 1", " HAVING COUNT(*) < 3"))
        query = (
            f"CREATE TABLE o AS SELECT {by}, {self.aggregates()} FROM s{self.where()} GROUP BY {by}{having};"
        )
        return STREAM.format(name="s") + query, self.stream_records()

    def windowed(self) -> tuple[str, list[CaseRecord]]:
        by = self.choose.choice(("id", "word"))
        having = self.choose.choice(("", "", " HAVING COUNT(*) > 1", " HAVING COUNT(*) < 2"))
        query = (
            f"CREATE TABLE o AS SELECT {by}, {self.aggregates()}\n  FROM s WINDOW {self.window()}"
            f"{self.where()} GROUP BY {by}{having};"
        )
        return STREAM.format(name="s") + query, self.stream_records()

    def final(self) -> tuple[str, list[CaseRecord]]:
        having = self.choose.choice(("", "", " HAVING COUNT(*) > 1"))
        grace = self.choose.choice((", GRACE PERIOD 0 SECONDS", ", GRACE PERIOD 3 SECONDS"))
        window = self.choose.choice(
            (
                f"TUMBLING (SIZE 5 SECONDS{grace})",
                f"HOPPING (SIZE 6 SECONDS, ADVANCE BY 3 SECONDS{grace})",
                f"SESSION (2 SECONDS{grace})",
            )
        )
        query = (
            f"CREATE TABLE o AS SELECT id, {self.aggregates()}, WINDOWSTART AS ws\n"
            f"  FROM s WINDOW {window} GROUP BY id{having} EMIT FINAL;"
        )
        return STREAM.format(name="s") + query, self.stream_records()

    def lookup(self) -> tuple[str, list[CaseRecord]]:
        kind, on = self.choose.choice(("", "LEFT ")), self.choose.choice(("s.id", "s.a"))
        select = f"SELECT {on} AS k, s.b, t.weight, t.colour"
        query = f"CREATE STREAM o AS {select} FROM s {kind}JOIN t ON {on} = t.id;"
        sql = STREAM.format(name="s") + TABLE.format(name="t") + query
        return sql, self.mixed(self.stream_record, self.table_record)

    def tables(self) -> tuple[str, list[CaseRecord]]:
        kind = self.choose.choice(("", "LEFT ", "FULL OUTER "))
        query = (
            "CREATE TABLE o AS SELECT ROWKEY, t.weight, u.colour FROM t FULL OUTER JOIN u ON t.id = u.id;"
            if kind.startswith("FULL")
            else f"CREATE TABLE o AS SELECT t.id, t.weight, u.colour FROM t {kind}JOIN u ON t.id = u.id;"
        )
        sql = TABLE.format(name="t") + TABLE.format(name="u") + query
        return sql, self.mixed(self.table_record, lambda: self.table_record("u"))

    def table_group(self) -> tuple[str, list[CaseRecord]]:
        by = self.choose.choice(("colour", "weight"))
        calls = self.choose.choice(
            ("COUNT(*) AS n", "SUM(weight) AS total", "COUNT(*) AS n, SUM(weight) AS total")
        )
        where = self.choose.choice(("", " WHERE weight > 1"))
        query = f"CREATE TABLE o AS SELECT {by}, {calls} FROM t{where} GROUP BY {by};"
        return TABLE.format(name="t") + query, [self.table_record() for _ in range(self.count)]

    def table(self) -> tuple[str, list[CaseRecord]]:
        where = self.choose.choice(
            ("", " WHERE weight > 2", " WHERE colour = 'red'", " WHERE colour IS NULL")
        )
        query = f"CREATE TABLE o AS SELECT id, weight * 2 AS twice, UCASE(colour) AS colour FROM t{where};"
        return TABLE.format(name="t") + query, [self.table_record() for _ in range(self.count)]

    def streams(self) -> tuple[str, list[CaseRecord]]:
        within = self.choose.choice(("5 SECONDS", "(1 SECOND, 4 SECONDS)", "20 SECONDS"))
        query = f"CREATE STREAM o AS SELECT s.id, s.a, r.word FROM s JOIN r WITHIN {within} ON s.id = r.id;"
        sql = STREAM.format(name="s") + STREAM.format(name="r") + query
        return sql, self.mixed(self.stream_record, lambda: self.stream_record("r"))

    def nested(self) -> tuple[str, list[CaseRecord]]:
        choice = self.choose.choice
        column = choice(("EXPLODE(items) AS x", "items[1] AS x", "items[-1] AS x", "pair->x + 1 AS x"))
        other = choice(("pair->y AS y", f"counts['{choice(WORDS)}'] AS y", "counts AS y", "pair AS y"))
        query = f"CREATE STREAM o AS SELECT id, {column}, {other} FROM s;"
        return NESTED + query, [self.nested_record() for _ in range(self.count)]


KINDS = {
    "projection": (Maker.projection, "SELECT expressions"),
    "partition": (Maker.partition, "PARTITION BY"),
    "group": (Maker.group, "GROUP BY of a stream"),
    "windowed": (Maker.windowed, "WINDOW with GRACE PERIOD"),
    "final": (Maker.final, "EMIT FINAL"),
    "lookup": (Maker.lookup, "stream-table JOIN"),
    "tables": (Maker.tables, "table-table JOIN"),
    "table_group": (Maker.table_group, "GROUP BY of a table"),
    "table": (Maker.table, "CREATE TABLE … AS SELECT of a table"),
    "streams": (Maker.streams, "stream-stream JOIN … WITHIN"),
    "nested": (Maker.nested, "structs, arrays and maps"),
}


def generated(kind: str, seed: int, records: int = 12) -> RecordCase:
    """Generate a case without its outputs."""
    make, row = KINDS[kind]
    sql, inputs = make(Maker(seed, records))
    return RecordCase(f"generated: {kind} {seed}", row, sql, tuple(inputs), source=f"the oracle, seed {seed}")


def with_outputs(case: RecordCase, outputs: list[CaseRecord]) -> RecordCase:
    return replace(case, outputs=tuple(outputs))
