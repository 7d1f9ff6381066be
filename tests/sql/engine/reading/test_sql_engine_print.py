"""PRINT: records of any topic as text, in the formats that they seem to have."""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from engine_server import Server, eventually

from penstock.sql.engine import EngineError
from penstock.sql.engine.reading.topic_printing import Guess
from registry_node import started


def write(server: Server, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": server.servers})
    for key, value in records:
        producer.produce(topic, value, key, timestamp=1_700_000_000_123)
    assert producer.flush(20) == 0


def lines(server: Server, text: str) -> list[str]:
    return [line for (line,) in server.engine.print_topic(text).rows()]


@pytest.fixture
def topic(server: Server) -> str:
    server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');")
    return "s"


def test_a_topic_from_its_beginning(server: Server, topic: str) -> None:
    write(server, topic, (b"a", b'{"V": "x"}'), (None, None), (b"b", b'{"V": "y"}'), (b"c", b"{}"))
    assert lines(server, "PRINT 's' FROM BEGINNING LIMIT 3;") == [
        "Key format: KAFKA_STRING",
        "Value format: JSON or KAFKA_STRING",
        'rowtime: 2023/11/14 22:13:20.123 Z, key: a, value: {"V": "x"}, partition: 0',
        "rowtime: 2023/11/14 22:13:20.123 Z, key: <null>, value: <null>, partition: 0",
        'rowtime: 2023/11/14 22:13:20.123 Z, key: b, value: {"V": "y"}, partition: 0',
    ]


def test_every_nth_record(server: Server, topic: str) -> None:
    write(server, topic, *((None, b"%d" % n) for n in range(10)))
    shown = [
        line for line in lines(server, "PRINT 's' FROM BEGINNING INTERVAL 4 LIMIT 2;") if "rowtime" in line
    ]
    assert [line.split("value: ")[1].split(",")[0] for line in shown] == ["0", "4"]


def test_a_topic_from_its_end(server: Server, topic: str) -> None:
    write(server, topic, (None, b"before"))
    printed = server.engine.print_topic("PRINT 's';")
    write(server, topic, (None, b"after"))
    found: list[str] = []
    eventually(lambda: found.extend(line for (line,) in printed.rows(0.1)), lambda _: len(found) >= 3)
    assert found[2].endswith("key: <null>, value: after, partition: 0")
    assert len(found) == 3
    printed.close()
    assert printed.is_finished


def test_a_topic_that_is_not_there(server: Server, topic: str) -> None:
    with pytest.raises(EngineError, match=r"Could not find topic 'S'.*\sAvailable topics: .*s"):
        server.engine.print_topic("PRINT S FROM BEGINNING;")
    with pytest.raises(EngineError, match="expected PRINT"):
        server.engine.print_topic("SELECT * FROM s;")


def test_avro_is_shown_as_json(start: Callable[..., Server]) -> None:
    servers = start().servers
    registry = started(servers, uuid4().hex)
    try:
        server = start(registry_url=registry.url)
        server.run(
            "CREATE STREAM s (k INT KEY, v STRING, n DOUBLE)"
            " WITH (kafka_topic='s', partitions=1, format='AVRO');"
        )
        server.run("INSERT INTO s VALUES (1, 'a', 1.5);")
        [keys, values, record] = lines(server, "PRINT 's' FROM BEGINNING LIMIT 1;")
        assert (keys, values) == ("Key format: AVRO", "Value format: AVRO")
        assert 'key: 1, value: {"V":"a","N":1.5}, partition' in record
    finally:
        registry.close()


@pytest.mark.parametrize(
    ("values", "format_", "shown"),
    [
        ([b'{"a": 12}'], "JSON or KAFKA_STRING", ['{"a": 12}']),
        ([b"text"], "KAFKA_STRING or KAFKA_INT", ["text"]),
        ([struct.pack(">i", -7)], "KAFKA_INT", ["-7"]),
        ([struct.pack(">q", 5)], "KAFKA_BIGINT or KAFKA_DOUBLE", ["5"]),
        ([b"1234", b"longer"], "KAFKA_STRING", ["1234", "longer"]),
        ([b"\xff\xfe\xfd"], "UNRECOGNIZED_BYTES", ["[ff fe fd]"]),
        ([b"text", b"\xff\xfe\xfd", b"text"], "UNRECOGNIZED_BYTES", ["text", "[ff fe fd]", "[74 65 78 74]"]),
        ([None], r"¯\_(ツ)_/¯ - no data processed", ["<null>"]),
        ([b""], "KAFKA_STRING", [""]),
    ],
)
def test_formats_are_guessed(values: list[bytes | None], format_: str, shown: list[str]) -> None:
    guess = Guess({})
    assert [guess.show(value) for value in values] == shown
    assert str(guess) == format_
