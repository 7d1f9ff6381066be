"""Stages as DataFrames, DataFrames as sources, and streams compared with Spark's answer on the same log."""

from __future__ import annotations

import json as jsons
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from streams_cases import Row
from streams_node import Node
from streams_without_spark import MemoryPages, plan_of

from penstock.spark.streams.blocks.packing import Block
from penstock.spark.streams.planning.grouping import partition_of
from penstock.spark.streams.stages.frames import NeedsRunningApp
from penstock.spark.streams.stages.typed_columns import column_of
from penstock.spark.streams.tasks.map_side import MapSide
from penstock.spark.streams.tasks.runner import TaskRunner
from penstock.streams import (
    App,
    SerdeError,
    TopologyError,
    TopologyTest,
    Window,
    Windowed,
    double,
    hopping,
    integer,
    json,
    long,
    raw,
    session_windowed,
    string,
    time_windowed,
    tumbling,
)
from penstock.testing import Cluster
from penstock.topology.records import Output

TIMEOUT_S = 60
GUIDE = Path(__file__).parents[3] / "docs" / "streams-dataframes.md"

pytestmark = [pytest.mark.timeout(120)]


@pytest.fixture
def node() -> Iterator[Node]:
    with Cluster() as cluster:
        yield Node(cluster.bootstrap_servers)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


# Columns


def read(serde: Any, values: list[Any], schema: Any = None) -> list[Any]:
    column = column_of(serde, "the value", schema)
    data = pa.array([None if value is None else serde.serialize(value) for value in values], pa.binary())
    found: list[Any] = column.read(data).to_pylist()
    return found


def test_serdes_decide_the_types_of_columns() -> None:
    for serde, values in (
        (string, ["a", None, "ä"]),
        (long, [1, None, -(2**60)]),
        (integer, [None, 7]),
        (double, [0.5, None]),
        (raw, [b"\xff", None]),
    ):
        assert read(serde, values) == values
    assert read(json, [{"a": 1}, None, [1]]) == ['{"a":1}', None, "[1]"]
    windowed = [Windowed("a", Window(1000, 2000)), None]
    for serde in (time_windowed(string, 1000), session_windowed(string)):
        assert read(serde, windowed) == [{"key": "a", "start": at(1000), "end": at(2000)}, None]


def test_json_has_the_types_of_its_schema() -> None:
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    schema = StructType([StructField("user", StringType()), StructField("sum", DoubleType())])
    values = [{"user": "ann", "sum": 1, "more": True}, {"sum": 2.5}, None]
    assert read(json, values, schema) == [{"user": "ann", "sum": 1.0}, {"user": None, "sum": 2.5}, None]
    with pytest.raises(
        SerdeError, match="the value does not fit its schema struct<user: string, sum: double>"
    ):
        read(json, [{"user": 3}], schema)
    with pytest.raises(SerdeError, match="only the serde json takes a schema; the value has string"):
        column_of(string, "the value", schema)


def test_bytes_that_do_not_fit_are_named() -> None:
    with pytest.raises(SerdeError, match=r"the value has 8 bytes, found \[3\]"):
        column_of(long, "the value").read(pa.array([b"abc", bytes(8)], pa.binary()))
    with pytest.raises(SerdeError, match="the key is not UTF-8"):
        column_of(string, "the key").read(pa.array([b"\xff"], pa.binary()))


# Stages


def sales(app: App) -> tuple[Any, Any, Any]:
    orders = app.stream("orders", key=string, value=json)
    large = orders.filter(lambda user, order: order["sum"] > 10)
    by_city = large.group_by(lambda user, order: order["city"])
    per_minute = by_city.windowed_by(tumbling("1 minute")).count(store="per-minute")
    app.stream("clicks", key=string, value=string).group_by_key().count(store="unrelated").to_stream().to(
        "out"
    )
    return large, per_minute, by_city.sum(lambda order: order["sum"], value=double, store="sums")


ORDERS = [("ann", "Rome", 12.5, 1_000), ("bob", "Oslo", 3.0, 2_000), ("ann", "Oslo", 20.0, 61_000),
          ("bob", "Rome", 30.0, 62_000)]  # fmt: skip


def order_rows() -> list[Row]:
    return [
        ("orders", user.encode(), jsons.dumps({"city": city, "sum": paid}).encode(), at_ms)
        for user, city, paid, at_ms in ORDERS
    ]


def collected(spark: Any, frame: Any, checkpoint: Path) -> list[Any]:
    """The rows that a query of the frame gives until all is read."""
    held: list[Any] = []

    def keep(batch: Any, number: int) -> None:
        held.extend(batch.collect())

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    return held


@pytest.mark.spark
@pytest.mark.long
def test_stages_are_dataframes(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(2, "orders", "clicks")
    node.write(order_rows())
    app = App("sales", key=string, value=string)
    large, per_minute, sums = sales(app)
    nodes_before = list(app.topology().nodes)
    common: dict[str, Any] = {"bootstrap_servers": node.servers, "spark": spark}
    frame = large.df(**common, schema="city STRING, sum DOUBLE")
    assert frame.schema.simpleString() == (
        "struct<key:string,value:struct<city:string,sum:double>,timestamp:timestamp>"
    )
    cities = collected(spark, frame.where("value.sum > 15").select("key", "value.city"), tmp_path / "a")
    assert sorted(map(tuple, cities)) == [("ann", "Oslo"), ("bob", "Rome")]
    windows = per_minute.df(**common)
    assert windows.schema["key"].dataType.simpleString() == "struct<key:string,start:timestamp,end:timestamp>"
    flat = windows.selectExpr("key.key", "cast(key.start AS LONG)", "cast(key.end AS LONG)", "value")
    assert sorted(map(tuple, collected(spark, flat, tmp_path / "b"))) == [
        ("Oslo", 60, 120, 1),
        ("Rome", 0, 60, 1),
        ("Rome", 60, 120, 1),
    ]
    # The application is unchanged, and none of its topics exist.
    assert list(app.topology().nodes) == nodes_before
    assert {name for name in node.admin.list_topics().topics if not name.startswith("__")} == {
        "orders",
        "clicks",
    }
    again = sums.group_by(lambda city, total: ("all", total), value=double).count()
    with pytest.raises(
        NeedsRunningApp, match=r"come through sales-\S+-repartition, which only the running app"
    ):
        again.df(**common)


# DataFrames that enter


def entering(frame: Any) -> App:
    app = App("entering", key=string, value=json)
    visits = app.from_dataframe(frame, "visits", key_column="user", value_column=None, timestamp_column="at")
    cities = app.table("cities", value=string)
    named = visits.join(cities, lambda visit, city: {"page": visit["page"], "city": city})
    named.to("visits-by-city")
    visits.group_by(lambda user, visit: visit["page"]).count(store="pages").to_stream().to("pages")
    visits.map_values(lambda visit: visit["page"], value=string).to("plain")
    return app


@pytest.mark.spark
@pytest.mark.long
def test_a_dataframe_is_a_source_of_the_one_query(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(3, "cities")
    # Equal keys meet only if all writers partition by Kafka's hash, which is not this client's default.
    producer = Producer({"bootstrap.servers": node.servers, "partitioner": "murmur2_random"})
    for user, city in (("ann", "Rome"), ("bob", "Oslo")):
        producer.produce("cities", city, user, timestamp=1)
    assert producer.flush(30) == 0
    files = tmp_path / "files"
    files.mkdir()

    def visit(name: str, rows: list[tuple[str | None, str, int]]) -> None:
        lines = [
            jsons.dumps({"user": user, "page": page, "at": at(at_ms).isoformat()})
            for user, page, at_ms in rows
        ]
        (files / name).write_text("\n".join(lines))

    visit("1.json", [("ann", "/b", 3_000), ("ann", "/a", 2_000), ("bob", "/a", 4_000), (None, "/a", 5_000)])
    frame = spark.readStream.schema("user STRING, page STRING, at TIMESTAMP").json(str(files))
    for _ in range(2):
        running = entering(frame).start(
            bootstrap_servers=node.servers, checkpoint=tmp_path / "c", spark=spark, until="drained"
        )
        assert running.wait(TIMEOUT_S)
        visit("2.json", [("bob", "/b", 1_000)])
    pages = {key: int.from_bytes(value or b"") for key, value, _ in node.read("pages")}
    assert pages == {b"/a": 3, b"/b": 2}
    cities = [(key, jsons.loads(value or b""), at_ms) for key, value, at_ms in node.read("visits-by-city")]
    assert sorted(cities, key=lambda row: row[2]) == [
        (b"bob", {"page": "/b", "city": "Oslo"}, 1_000),
        (b"ann", {"page": "/a", "city": "Rome"}, 2_000),
        (b"ann", {"page": "/b", "city": "Rome"}, 3_000),
        (b"bob", {"page": "/a", "city": "Oslo"}, 4_000),
    ]
    assert [row for row in node.read("plain") if row[0] == b"ann"] == [
        (b"ann", b"/a", 2_000),
        (b"ann", b"/b", 3_000),
    ]
    assert sorted(value for _, value, _ in node.read("plain")) == [b"/a", b"/a", b"/a", b"/b", b"/b"]


@pytest.mark.spark
@pytest.mark.long
def test_rows_of_a_dataframe_meet_a_global_table(node: Node, spark: Any, tmp_path: Path) -> None:
    """Before the shuffle and behind it, rows meet the table as it is when their batch runs."""
    node.create(2, "titles")
    visits = tmp_path / "visits"
    visits.mkdir()
    frame = spark.readStream.schema("user STRING, page STRING, at TIMESTAMP").json(str(visits))

    def run(title: bytes) -> None:
        app = App("titled", key=string, value=json)
        titles = app.global_table("titles", value=string)
        read = app.from_dataframe(
            frame, "visits", key_column="user", value_column=None, timestamp_column="at"
        )
        pages = read.map_values(lambda visit: visit["page"], value=string)
        pages.join(
            titles, lambda page, title: f"{page} {title}", on=lambda user, page: page, value=string
        ).to("read")
        counts = pages.group_by(lambda user, page: page).count(store="counts").to_stream()
        counts.join(
            titles, lambda count, title: f"{count} {title}", on=lambda page, count: page, value=string
        ).to("counted")
        node.write([("titles", b"/a", title, 1), ("titles", b"/b", b"B", 1)])
        lines = [
            jsons.dumps({"user": user, "page": page, "at": at(2_000).isoformat()})
            for user, page in (("ann", "/a"), ("bob", "/b"))
        ]
        (visits / f"{title.decode()}.json").write_text("\n".join(lines))
        running = app.start(
            bootstrap_servers=node.servers, checkpoint=tmp_path / "c", spark=spark, until="drained"
        )
        assert running.wait(TIMEOUT_S)

    run(b"A")
    run(b"Z")
    read = [(key, value) for key, value, _ in node.read("read")]
    assert sorted(row for row in read if row[0] == b"ann") == [(b"ann", b"/a A"), (b"ann", b"/a Z")]
    assert [row for row in read if row[0] == b"bob"] == [(b"bob", b"/b B")] * 2
    counted = [(key, value) for key, value, _ in node.read("counted")]
    assert [row for row in counted if row[0] == b"/a"] == [(b"/a", b"1 A"), (b"/a", b"2 Z")]
    assert [row for row in counted if row[0] == b"/b"] == [(b"/b", b"1 B"), (b"/b", b"2 B")]


def test_rows_from_all_places_meet_in_their_tasks_by_time() -> None:
    app = App("placed", key=string, value=string)
    visits = app.from_dataframe(None, "visits", partitions=3)
    visits.group_by_key().reduce(lambda kept, new: kept + new, store="all").to_stream().to("all")
    app.from_dataframe(None, "plain", partitions=3).map_values(str.upper).to("loud")
    plan = plan_of(app, {})
    map_side = MapSide(plan)
    groups: dict[int, list[bytes]] = defaultdict(list)
    for place, times in ((7, (1, 4, 5)), (0, (2, 3, 6))):
        for name in ("visits", "plain"):
            rows: list[Output] = [
                (name, None, key, b"%d" % ms, ms, ()) for ms in times for key in (b"a", b"b", b"c")
            ]
            for group, data in map_side.frame_rows(name, place, rows, clock_ms=1_000):
                groups[group].append(data)
    sent: dict[str, list[Any]] = defaultdict(list)
    for group, packed in groups.items():
        for _, data in TaskRunner(plan).run(partition_of(group), packed, MemoryPages()):
            block = Block.unpack(data)
            for topic, _, _, ms, key, value, _ in block.inputs():
                sent[topic].append((key, value, ms))
    last = {key: value for key, value, _ in sent["all"]}
    assert last == dict.fromkeys((b"a", b"b", b"c"), b"123456")
    assert sorted(sent["loud"]) == sorted(
        (key, b"%d" % ms, ms) for ms in range(1, 7) for key in (b"a", b"b", b"c")
    )


def test_a_dataframe_is_an_input_of_the_test_driver() -> None:
    test = TopologyTest(entering(None))
    test.input("cities").pipe("ann", "Rome")
    test.input("visits").pipe("ann", {"page": "/a"}, timestamp=7)
    assert test.output("visits-by-city").read_values() == [("ann", {"page": "/a", "city": "Rome"})]


@pytest.mark.spark
def test_what_a_dataframe_lacks_is_named(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(1, "cities")
    schema = "user STRING, page STRING"
    frame = spark.readStream.schema(schema).json(str(tmp_path))
    where = {"bootstrap_servers": node.servers, "spark": spark}
    with pytest.raises(TopologyError, match="the DataFrame visits has no column at; it has user, page"):
        entering(frame).start(**where, checkpoint=tmp_path / "a")
    batch = spark.createDataFrame([], schema + ", at TIMESTAMP")
    with pytest.raises(TopologyError, match=r"the DataFrame visits is a batch: .* readStream"):
        entering(batch).start(**where, checkpoint=tmp_path / "b")
    text = spark.readStream.schema(schema + ", at STRING").json(str(tmp_path))
    with pytest.raises(TopologyError, match="at of the DataFrame visits has the type string, expected"):
        entering(text).start(**where, checkpoint=tmp_path / "d")
    with pytest.raises(TopologyError, match="has at least one partition, not 0"):
        App("app", key=string, value=string).from_dataframe(frame, "visits", partitions=0)


@pytest.mark.spark
def test_the_guides_example(node: Node, spark: Any, tmp_path: Path) -> None:
    [example] = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    example = example.replace("127.0.0.1:9092", node.servers).replace("/var/lib", str(tmp_path))
    node.create(1, "orders")
    node.write([("orders", b"ann", b'{"city": "Rome", "sum": 120}', 1_000)])
    (tmp_path / "visits").mkdir()
    line = {"user": "ann", "page": "/a", "at": at(2_000).isoformat()}
    (tmp_path / "visits" / "1.json").write_text(jsons.dumps(line))
    names: dict[str, Any] = {"spark": spark}
    exec(compile(example, str(GUIDE), "exec"), names)
    [large] = collected(spark, names["large"], tmp_path / "large")
    assert (large.user, large.city, large.timestamp.timestamp()) == ("ann", "Rome", 1.0)
    running = names["app"].start(
        bootstrap_servers=node.servers, checkpoint=tmp_path / "c", spark=spark, until="drained"
    )
    assert running.wait(TIMEOUT_S)
    [(key, value, _)] = node.read("visits-by-customers")
    assert (key, jsons.loads(value or b"")) == (b"ann", {"page": "/a", "spent": 120.0})


# Compared with Spark's own answer


def several_operators() -> App:
    """Operators that neither depend on the order of records nor drop late ones."""
    app = App("several", key=string, value=long)
    left, right = app.stream("left"), app.stream("right")
    grouped = left.group_by_key()
    grouped.count(store="counts").to_stream().to("counts")
    grouped.min(store="least").to_stream().to("least")
    left.group_by(lambda key, value: value % 5, key=long).sum(store="sums").to_stream().to("sums")
    windows = grouped.windowed_by(hopping("20 ms", advance="10 ms", grace="1 day"))
    windows.sum(store="windows").to_stream(lambda at, n: f"{at.key}@{at.window.start_ms}").to("windows")
    pairs = left.join(right, lambda one, other: one * 1000 + other, within="7 ms", grace="1 day")
    pairs.to("pairs")
    left.merge(right).filter(lambda key, value: value % 3 == 0).map_values(lambda value: -value).to("thirds")
    return app


BATCH_ANSWERS = {
    "counts": "SELECT key, count(*) FROM left GROUP BY key",
    "least": "SELECT key, min(value) FROM left GROUP BY key",
    "sums": "SELECT value % 5, sum(value) FROM left GROUP BY value % 5",
    "windows": """SELECT concat(key, '@', cast(start AS STRING)), sum(value)
                  FROM (SELECT key, value, explode(sequence(greatest(0, (ms div 10 - 1) * 10),
                        ms div 10 * 10, 10)) AS start FROM left) GROUP BY key, start""",
    "pairs": """SELECT left.key, left.value * 1000 + right.value
                FROM left JOIN right ON left.key = right.key AND abs(left.ms - right.ms) <= 7""",
    "thirds": """SELECT key, -value FROM (SELECT * FROM left UNION ALL SELECT * FROM right)
                 WHERE value % 3 = 0""",
}
TABLES = ("counts", "least", "sums", "windows")


@pytest.mark.spark
def test_a_stream_gives_what_a_batch_over_the_same_log_gives(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(2, "left", "right")
    rng, now_ms, rows = random.Random(7), 1000, []
    for number in range(400):
        now_ms += rng.choice([0, 0, 1, 3, 9])
        at_ms = max(0, now_ms - rng.choice([0, 0, 0, 5, 40]))  # out of order
        rows.append((rng.choice(["left", "right"]), rng.choice("abcd").encode(), number.to_bytes(8), at_ms))
    node.write(rows)
    app = several_operators()
    running = app.start(
        bootstrap_servers=node.servers,
        checkpoint=tmp_path / "c",
        spark=spark,
        until="drained",
        options={"maxOffsetsPerTrigger": "170"},  # three batches
    )
    assert running.wait(TIMEOUT_S)
    source = spark.read.format("penstock").option("kafka.bootstrap.servers", node.servers)
    for topic in ("left", "right"):
        frame = source.option("subscribe", topic).load()
        frame.selectExpr(
            "cast(key AS STRING) AS key",
            "cast(conv(hex(value), 16, 10) AS BIGINT) AS value",
            "unix_millis(timestamp) AS ms",
        ).createOrReplaceTempView(topic)
    test = TopologyTest(app)
    for topic, query in BATCH_ANSWERS.items():
        expected = sorted(map(tuple, spark.sql(query).collect()))
        output = test.output(topic)
        output._records.extend((topic, None, *row, ()) for row in node.read(topic))
        found: Any = output.read_table().items() if topic in TABLES else output.read_values()
        assert sorted(found) == expected, topic
        assert expected, topic
