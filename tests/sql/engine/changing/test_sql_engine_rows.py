"""Rows that are written: INSERT VALUES in every format, rows as JSON, and the registry's part in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from engine_server import Server

from penstock.sql.engine import EngineError, ErrorCode
from registry_node import started

COLUMNS = """
    b BOOLEAN, i INT, l BIGINT, d DOUBLE, s STRING, x BYTES, m DECIMAL(6, 2), da DATE, ti TIME, ts TIMESTAMP
"""
VALUES = """
    true, -7, 9000000000, 1.5, 'a, "text"', TO_BYTES('00ff', 'hex'), 12.5, '2024-02-29', '12:34:56',
    '2024-02-29T12:34:56.789'
"""
ROW = (
    *(True, -7, 9_000_000_000, 1.5, 'a, "text"', b"\x00\xff", Decimal("12.50"), 19_782, 45_296_000),
    1_709_210_096_789,
)
NESTED = "a ARRAY<INT>, mp MAP<STRING, DOUBLE>, st STRUCT<x INT, y ARRAY<STRING>>"
NESTED_VALUES = "ARRAY[1, NULL, 3], MAP('k' := 1.5), STRUCT(x := 1, y := ARRAY['a'])"
NESTED_ROW = ([1, None, 3], {"k": 1.5}, {"X": 1, "Y": ["a"]})


@pytest.fixture
def registry(servers: str) -> Iterator[str]:
    running = started(servers, uuid4().hex)
    try:
        yield running.url
    finally:
        running.close()


def consumed(server: Server, topic: str, count: int) -> list[tuple[bytes | None, bytes | None, int, int]]:
    """The key, value, time and partition of each record, read by a client that is not ours."""
    consumer = Consumer({"bootstrap.servers": server.servers, "group.id": "reader"})
    partitions = len(consumer.list_topics(topic, 10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found = []
    while len(found) < count:
        message = consumer.poll(10)
        assert message is not None, f"found {len(found)} records, expected {count}"
        found.append((message.key(), message.value(), message.timestamp()[1], message.partition()))
    consumer.close()
    return found


@pytest.mark.parametrize("format_", ["JSON", "DELIMITED", "PROTOBUF_NOSR"])
def test_values_of_all_types_without_a_registry(server: Server, format_: str) -> None:
    server.run(f"CREATE STREAM s ({COLUMNS}) WITH (kafka_topic='s', partitions=1, value_format='{format_}');")
    assert server.run(f"INSERT INTO s VALUES ({VALUES});") == []
    assert server.rows("SELECT * FROM s;") == [ROW]


@pytest.mark.parametrize("format_", ["JSON", "PROTOBUF_NOSR"])
def test_nested_values_without_a_registry(server: Server, format_: str) -> None:
    if format_ == "PROTOBUF_NOSR":  # repeated fields hold no null
        values, row = NESTED_VALUES.replace("NULL", "2"), ([1, 2, 3], *NESTED_ROW[1:])
    else:
        values, row = NESTED_VALUES, NESTED_ROW
    server.run(f"CREATE STREAM s ({NESTED}) WITH (kafka_topic='s', partitions=1, value_format='{format_}');")
    server.run(f"INSERT INTO s VALUES ({values});")
    assert server.rows("SELECT * FROM s;") == [row]


@pytest.mark.parametrize(
    ("type_", "value", "row", "data"),
    [
        ("INT", "-2", -2, b"\xff\xff\xff\xfe"),
        ("BIGINT", "1", 1, b"\0\0\0\0\0\0\0\1"),
        ("DOUBLE", "1.5", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("STRING", "'é'", "é", "é".encode()),
        ("BYTES", "TO_BYTES('0102', 'hex')", b"\1\2", b"\1\2"),
    ],
)
def test_single_values_in_kafkas_format(
    server: Server, type_: str, value: str, row: object, data: bytes
) -> None:
    server.run(
        f"CREATE STREAM s (k {type_} KEY, v {type_}) WITH (kafka_topic='s', partitions=1, format='KAFKA');"
    )
    server.run(f"INSERT INTO s VALUES ({value}, {value});")
    assert server.rows("SELECT * FROM s;") == [(row, row)]
    [(key, written, _, _)] = consumed(server, "s", 1)
    assert (key, written) == (data, data)


def test_a_value_format_of_nothing(server: Server) -> None:
    server.run(
        "CREATE STREAM s (k STRING KEY)"
        " WITH (kafka_topic='s', partitions=1, key_format='KAFKA', value_format='NONE');"
    )
    server.run("INSERT INTO s VALUES ('a');")
    [(key, written, _, _)] = consumed(server, "s", 1)
    assert (key, written) == (b"a", None)


@pytest.mark.parametrize("format_", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_values_of_all_types_with_a_registry(
    start: Callable[..., Server], registry: str, format_: str
) -> None:
    server = start(registry_url=registry)
    nested, row = NESTED_VALUES, (*ROW, *NESTED_ROW)
    if format_ == "PROTOBUF":
        nested, row = nested.replace("NULL", "2"), (*ROW, [1, 2, 3], *NESTED_ROW[1:])
    server.run(
        f"CREATE STREAM s (k INT KEY, {COLUMNS}, {NESTED})"
        f" WITH (kafka_topic='s', partitions=1, key_format='KAFKA', value_format='{format_}');"
    )
    server.run(f"INSERT INTO s VALUES (5, {VALUES}, {nested});")
    assert server.rows("SELECT * FROM s;") == [(5, *row)]
    # Without columns, the columns are those of the registry's schema.
    server.run(
        "CREATE STREAM inferred (k INT KEY)"
        f" WITH (kafka_topic='s', key_format='KAFKA', value_format='{format_}');"
    )
    assert server.rows("SELECT * FROM inferred;") == [(5, *row)]


def test_what_is_inserted_as_avro_is_read_by_confluents_client(
    start: Callable[..., Server], registry: str
) -> None:
    server = start(registry_url=registry)
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY, name STRING, n BIGINT)"
        " WITH (kafka_topic='t', partitions=1, format='AVRO');"
    )
    subjects = SchemaRegistryClient({"url": registry})
    assert sorted(subjects.get_subjects()) == ["t-key", "t-value"], "CREATE registers the schemas"
    server.run("INSERT INTO t (id, name) VALUES (1, 'Ada');")
    [(key, value, _, _)] = consumed(server, "t", 1)
    read = AvroDeserializer(subjects)
    assert read(key, None) == 1  # type: ignore[arg-type]
    assert read(value, None) == {"NAME": "Ada", "N": None}  # type: ignore[arg-type]


def test_inferred_columns_stay_when_the_schema_goes(start: Callable[..., Server], registry: str) -> None:
    server = start(registry_url=registry)
    server.run("CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=1, format='AVRO');")
    server.run("CREATE STREAM inferred WITH (kafka_topic='s', format='AVRO');")
    subjects = SchemaRegistryClient({"url": registry})
    columns = server.engine.state.catalog.sources["INFERRED"].columns
    assert [(each.name, str(each.type), each.role.value) for each in columns] == [
        ("ROWKEY", "INTEGER", "KEY"),
        ("V", "STRING", "VALUE"),
    ]
    for subject in subjects.get_subjects():
        subjects.delete_subject(subject)
    again = server.restarted()
    try:
        assert again.engine.state.catalog.sources["INFERRED"].columns == columns
    finally:
        again.close()


def test_a_result_registers_its_schemas_and_delete_topic_removes_them(
    start: Callable[..., Server], registry: str
) -> None:
    server = start(registry_url=registry)
    server.run("CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=1, format='JSON');")
    server.run("CREATE STREAM u WITH (format='AVRO') AS SELECT * FROM s;")
    subjects = SchemaRegistryClient({"url": registry})
    assert sorted(subjects.get_subjects()) == ["U-key", "U-value"]
    server.run("INSERT INTO s VALUES (1, 'a');")
    assert server.settled("SELECT * FROM u;", 1) == [(1, "a")]
    for _ in range(2):  # a stream that is created again registers its schemas again
        server.run("DROP STREAM u DELETE TOPIC;")
        assert subjects.get_subjects() == []
        server.run("CREATE STREAM u WITH (format='AVRO') AS SELECT * FROM s;")
        assert sorted(subjects.get_subjects()) == ["U-key", "U-value"]


def test_a_schema_that_the_registry_refuses_leaves_no_trace(
    start: Callable[..., Server], registry: str
) -> None:
    server = start(registry_url=registry)
    other = Schema('{"type": "record", "name": "other", "fields": [{"name": "x", "type": "int"}]}', "AVRO")
    SchemaRegistryClient({"url": registry}).register_schema("U-value", other)
    server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='JSON');")
    error = server.refused("CREATE STREAM u WITH (value_format='AVRO') AS SELECT * FROM s;", "incompatible")
    assert error.code is ErrorCode.BAD_STATEMENT
    assert "U" not in server.topics()
    assert [each["name"] for each in server.one("SHOW STREAMS")["streams"]] == ["S"]


def test_formats_of_a_registry_need_one(server: Server) -> None:
    made = "CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
    error = server.refused(made, "ksql.schema.registry.url")
    assert error.code is ErrorCode.SCHEMA_REGISTRY_UNCONFIGURED
    assert "s" not in server.topics()


# Rows


@pytest.fixture
def table(server: Server) -> Server:
    server.run(
        "CREATE STREAM s (id INT KEY, v STRING, n DECIMAL(4, 1))"
        " WITH (kafka_topic='s', partitions=4, format='json');"
        "CREATE TABLE t (id INT PRIMARY KEY, v STRING) WITH (kafka_topic='t', partitions=4, format='json');"
        "CREATE SOURCE STREAM r (id INT KEY, v STRING) WITH (kafka_topic='s', format='json');"
    )
    return server


def test_columns_times_and_nulls(table: Server) -> None:
    table.run("INSERT INTO s (v, id) VALUES ('a', 1); INSERT INTO s (id, rowtime) VALUES (2, 1234);")
    table.run("INSERT INTO s (id, v) VALUES (1 + 2, UCASE('c')); INSERT INTO s (v) VALUES ('no key');")
    rows = table.rows("SELECT id, v, n FROM s;")
    assert sorted(rows, key=repr) == [(1, "a", None), (2, None, None), (3, "C", None), (None, "no key", None)]
    assert table.rows("SELECT rowtime FROM s WHERE id = 2;") == [(1234,)]
    by_key = {key: partition for key, _, _, partition in consumed(table, "s", 4) if key is not None}
    table.run("INSERT INTO s (id, v) VALUES (1, 'again');")
    again = [partition for key, _, _, partition in consumed(table, "s", 5) if key == b"1"]
    assert again == [by_key[b"1"]] * 2, "a key is always in one partition, as Kafka's own partitioner has it"


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("INSERT INTO nothing VALUES (1);", "NOTHING"),
        ("INSERT INTO s VALUES (1);", "found 1 values, expected 3"),
        ("INSERT INTO s (id, x) VALUES (1, 2);", "no column X"),
        ("INSERT INTO s (id, v) VALUES ('a', 'b');", "ID"),
        ("INSERT INTO s (id, n) VALUES (1, 12345.6);", "N"),
        ("INSERT INTO t (v) VALUES ('a');", "PRIMARY KEY"),
        ("INSERT INTO r VALUES (1, 'a');", "read only"),
        ("INSERT INTO s (id, rowtime) VALUES (1, -5);", "ROWTIME"),
    ],
)
def test_wrong_rows_are_refused(table: Server, statement: str, told: str) -> None:
    assert table.refused(statement, told).code is ErrorCode.BAD_STATEMENT
    assert table.rows("SELECT * FROM s;") == []


def test_inserts_can_be_disabled(start: Callable[..., Server]) -> None:
    server = start(ksql_insert_into_values_enabled="false")
    server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');")
    server.refused("INSERT INTO s VALUES ('a');", "disabled INSERT INTO ... VALUES")


def test_rows_as_json(table: Server) -> None:
    insert = table.engine.insert
    insert("s", {"id": 1, "V": "a", "N": 12.5})
    insert("`S`", {"`ID`": "2", "v": None, "rowtime": 7})
    insert("s", {"v": {"any": [1, True]}})
    rows = sorted(table.rows("SELECT id, v, n FROM s;"), key=repr)
    assert rows == [(1, "a", Decimal("12.5")), (2, None, None), (None, '{"any":[1,true]}', None)]
    assert table.rows("SELECT rowtime FROM s WHERE id = 2;") == [(7,)]


@pytest.mark.parametrize(
    ("target", "row", "told"),
    [
        ("nothing", {}, "unknown stream/table"),
        ("r", {"ID": 1}, "read-only"),
        ("s", {"X": 1}, "no column X"),
        ("s", {"ID": "a"}, "ID"),
        ("s", {"ID": 2**40}, "ID"),
        ("s", {"ID": 1.5}, "ID"),
        ("s", {"N": 12345.5}, "N"),
        ("t", {"V": "a"}, "PRIMARY KEY"),
        ("s", {"ROWTIME": "soon"}, "ROWTIME"),
    ],
)
def test_wrong_rows_as_json_are_refused(
    table: Server, target: str, row: dict[str, object], told: str
) -> None:
    with pytest.raises(EngineError, match=told) as raised:
        table.engine.insert(target, row)
    assert raised.value.code is ErrorCode.BAD_STATEMENT
    assert table.rows("SELECT * FROM s;") == []
