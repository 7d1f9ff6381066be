"""Records that several members read alike are decoded once, and each member gets its usual results."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from streams_without_spark import plan_of

from penstock.spark.streams.blocks.dropped import dropped_in
from penstock.spark.streams.blocks.packing import Binary, Block, Kind, tick
from penstock.spark.streams.tasks.map_side import MapSide
from penstock.sql import parse_script
from penstock.sql.analysis import analyze
from penstock.sql.catalog import Catalog
from penstock.sql.planning import build_app
from penstock.sql.planning.row_operators import ReadRows
from penstock.streams import App, string
from penstock.topology.context import Context
from penstock.topology.errors import RecordFailed

SOURCES = """
    CREATE STREAM orders (id INT KEY, price DOUBLE, tags ARRAY<STRING>, day STRING)
      WITH (KAFKA_TOPIC='orders', FORMAT='JSON', PARTITIONS=2);
    CREATE STREAM timed (id INT KEY, price DOUBLE, day STRING)
      WITH (KAFKA_TOPIC='orders', FORMAT='JSON', TIMESTAMP='day', TIMESTAMP_FORMAT='yyyy-MM-dd');
"""
QUERIES = (
    "CREATE STREAM a AS SELECT id, price FROM orders WHERE price > 3;",
    "CREATE STREAM b AS SELECT id, ARRAY_LENGTH(tags) AS n, ROWTIME AS t, ROWOFFSET AS o FROM orders;",
    "CREATE TABLE c AS SELECT price, COUNT(*) AS n FROM orders GROUP BY price;",
    "CREATE STREAM d AS SELECT id, price FROM timed;",
    "CREATE STREAM e AS SELECT id, price FROM timed WHERE price < 5;",
)


def map_side(query: str) -> MapSide:
    catalog, script = Catalog(), SOURCES + query
    for read in parse_script(script, {}):
        found = analyze(read.statement, catalog, script, read.place.offset)
        catalog = found.catalog
    assert found.plan is not None
    app = build_app(found.plan, query_id="Q", catalog=catalog).app
    return MapSide(plan_of(app, {"orders": 2, query.split()[2].upper(): 2}))


def block_of_orders(rng: random.Random, rows: int = 40) -> Block:
    keys = [rng.choice([b"7", b"8", None, b"x"]) for _ in range(rows)]
    values = [
        rng.choice(
            [
                b'{"PRICE": %d.5, "TAGS": ["a", "b"], "DAY": "2024-01-0%d"}' % (n % 8, n % 9 + 1),
                b'{"PRICE": 2, "DAY": "never"}',
                b"no json",
                None,
            ]
        )
        for n in range(rows)
    ]
    return tick(1, 5)._replace(
        kind=Kind.RECORDS,
        topic="orders",
        targets=("orders",),
        timestamps=np.arange(1000, 1000 + rows),
        offsets=np.arange(rows),
        keys=Binary.of(keys),
        values=Binary.of(values),
    )


def sent(rows: Iterator[tuple[int, bytes]]) -> list[Any]:
    found = []
    for group, packed in rows:
        block = Block.unpack(packed)
        content = dropped_in(block) if block.kind is Kind.DROPPED else block.inputs()
        found.append((group, block.kind, content))
    return found


def test_members_give_what_they_give_alone() -> None:
    seed = random.randrange(1 << 32)
    print(f"{seed=}")
    block = block_of_orders(random.Random(seed))
    inputs = block.inputs()
    common: dict[bytes, Any] = {}
    for query in QUERIES:
        together, alone = map_side(query), map_side(query)
        reading = together.reading("orders")
        assert reading is not None
        read = common.setdefault(reading.made_of, (inputs, reading.read(inputs)))
        assert sent(together.block_rows(block, None, read)) == sent(alone.block_rows(block))
    assert len(common) == 2, "the two sources over the topic are read differently, and each once"


def plain(app_name: str) -> App:
    app = App(app_name, key=string, value=string)
    app.stream("orders").map_values(str.upper).to("out")
    return app


def test_an_operator_that_does_not_say_so_reads_for_itself() -> None:
    assert MapSide(plan_of(plain("plain"), {"orders": 1, "out": 1})).reading("orders") is None


def test_a_part_behind_the_shuffle_reads_there() -> None:
    query = "CREATE TABLE c AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;"
    assert map_side(query).reading("orders") is None


def test_what_can_not_be_read_fails_with_the_member_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile(self: ReadRows, node: str, context: Context, forward: Any) -> Any:
        def process(key: Any, value: Any, timestamp_ms: int, headers: Any) -> None:
            context.failed(node, ValueError("not this one"))

        return process

    side = map_side(QUERIES[0])
    reading = side.reading("orders")
    assert reading is not None
    monkeypatch.setattr(ReadRows, "compile", compile)
    failing = map_side(QUERIES[0])
    read_by = failing.reading("orders")
    assert read_by is not None
    block = block_of_orders(random.Random(1))
    inputs = block.inputs()
    with pytest.raises(RecordFailed, match="not this one"):
        list(failing.block_rows(block, None, (inputs, read_by.read(inputs))))
