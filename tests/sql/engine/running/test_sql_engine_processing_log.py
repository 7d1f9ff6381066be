"""The processing log: reports on values that queries could not read or compute, if it is configured."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from engine_server import Server, eventually

from penstock.registry.client.errors import RegistryUnreachable
from penstock.sql.planning.processing_log import ProcessingLog
from penstock.sql.planning.sources import named
from penstock.topology.errors import Failure
from penstock.topology.serdes import Serde

S = "CREATE STREAM s (id INT KEY, v STRING, n INT) WITH (kafka_topic='s', partitions=1, format='json');"
LOGGED = """
    SELECT logger, level, message->type AS t, message->deserializationerror AS d,
           message->recordprocessingerror AS r
    FROM ksql_processing_log;
"""


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    return start(
        ksql_logging_processing_topic_auto_create="true",
        ksql_logging_processing_stream_auto_create="true",
        ksql_logging_processing_rows_include="true",
    )


def produce(server: Server, *records: tuple[bytes, bytes]) -> None:
    """Write the records in one batch for each partition."""
    producer = Producer({"bootstrap.servers": server.servers, "linger.ms": 60_000})  # `flush` sends at once
    for key, value in records:
        producer.produce("s", value, key)
    assert producer.flush(20) == 0


def logged(server: Server, count: int) -> list[Any]:
    return server.settled(LOGGED, count)


def test_the_stream_is_there_on_a_new_service_alone(server: Server) -> None:
    assert [each["name"] for each in server.one("SHOW STREAMS")["streams"]] == ["KSQL_PROCESSING_LOG"]
    assert f"{server.config.service_id}ksql_processing_log" in server.topics()
    server.run("DROP STREAM ksql_processing_log;")
    again = server.restarted()
    try:
        assert again.one("SHOW STREAMS")["streams"] == []
    finally:
        again.close()


def test_the_log_goes_with_its_service(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT id, v FROM s;")
    [ended] = server.engine.terminate_cluster()
    assert ended.warnings == ()
    assert not [each for each in server.topics() if server.config.service_id in each]
    assert {"s", "U"} <= server.topics()


def test_a_log_without_its_topic_keeps_no_server_from_starting(start: Callable[..., Server]) -> None:
    server = start(
        ksql_logging_processing_topic_name="missing", ksql_logging_processing_stream_auto_create="true"
    )
    assert server.one("SHOW STREAMS")["streams"] == []


def test_a_registry_that_does_not_answer_says_nothing_of_a_record() -> None:
    """The query stops, and continues with the same record."""

    def ask(data: bytes) -> object:
        raise RegistryUnreachable("nobody there")

    serde = named(Serde(bytes, ask, name="registered"), "value")
    with pytest.raises(RegistryUnreachable) as raised:
        serde.deserialize(b"x")
    record = ("s", 0, 7, 0, None, b"x", ())
    assert ProcessingLog("log", "Q").letters(Failure("read", record, raised.value, 0, 0)) is None


def test_what_can_not_be_read_is_told_and_passed_over(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT id, v FROM s;")
    query_id = next(iter(server.engine.state.queries))
    produce(server, (b"1", b'{"V": "a"}'), (b"2", b"no json"), (b"x{", b'{"V": "c"}'), (b"4", b'{"V": "d"}'))
    assert server.settled("SELECT * FROM u;", 2) == [(1, "a"), (4, "d")]
    first, second = logged(server, 2)
    assert first[:3] == (f"processing.{query_id}", "ERROR", 0)
    told = first[3]
    assert (told["TARGET"], told["TOPIC"]) == ("value", "s")
    assert base64.b64decode(told["RECORDB64"]) == b"no json"
    assert told["ERRORMESSAGE"].startswith("Failed to read the value of s-0 at offset 1: ")
    assert told["CAUSE"]
    assert first[4] is None
    assert (second[3]["TARGET"], base64.b64decode(second[3]["RECORDB64"])) == ("key", b"x{")


def test_what_can_not_be_computed_is_null_and_told(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT id, 10 / n AS q FROM s;")
    produce(server, (b"1", b'{"N": 2}'), (b"2", b'{"N": 0}'))
    assert server.settled("SELECT * FROM u;", 2) == [(1, 5), (2, None)]
    [(_, _, type_, nothing, told)] = logged(server, 1)
    assert (type_, nothing, told["RECORD"]) == (1, None, '{"N": 0}')
    assert told["ERRORMESSAGE"].startswith("Error computing expression ")
    assert "10 / N" in told["ERRORMESSAGE"]
    assert "division by zero" in told["CAUSE"][0]


def test_behind_a_repartition_too(server: Server) -> None:
    server.run(
        f"{S} CREATE TABLE c AS SELECT v, COUNT(*) AS n FROM s GROUP BY v HAVING 10 / (COUNT(*) - 1) > 0;"
    )
    produce(server, (b"1", b'{"V": "a"}'), (b"2", b'{"V": null}'))
    texts = [row[4]["ERRORMESSAGE"] for row in logged(server, 2)]
    assert any("division by zero" in text for text in texts)
    assert any("is null: the row is dropped" in text for text in texts)


def test_a_time_that_is_not_there(server: Server) -> None:
    server.run(
        "CREATE STREAM s (id INT KEY, v STRING, n BIGINT) "
        "WITH (kafka_topic='s', partitions=1, format='json', timestamp='n');"
        "CREATE STREAM u AS SELECT id, v FROM s;"
    )
    produce(server, (b"1", b'{"N": null}'), (b"2", b'{"N": 5}'))
    assert server.settled("SELECT id, rowtime FROM u;", 1) == [(2, 5)]
    [row] = logged(server, 1)
    assert "Failed to extract the time from N: found None" in row[4]["ERRORMESSAGE"]


def test_rows_are_not_told_unless_asked_for(start: Callable[..., Server]) -> None:
    server = start(
        ksql_logging_processing_topic_auto_create="true", ksql_logging_processing_stream_auto_create="true"
    )
    server.run(f"{S} CREATE STREAM u AS SELECT id, 10 / n AS q FROM s;")
    produce(server, (b"1", b"no json"), (b"2", b'{"N": 0}'))
    first, second = logged(server, 2)
    assert first[3]["RECORDB64"] is None
    assert second[4]["RECORD"] is None


def test_many_failures_of_a_batch_are_told_shortly(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT id, v FROM s;")
    [query_id] = server.engine.state.queries
    server.run(f"PAUSE {query_id};")
    produce(server, *[(b"1", b"no json")] * 1000, (b"2", b'{"V": "a"}'))
    server.run(f"RESUME {query_id};")
    assert server.settled("SELECT * FROM u;", 1) == [(2, "a")]
    rows = logged(server, 101)
    assert "only the first 100 errors" in rows[100][4]["ERRORMESSAGE"]
    assert len(rows) < 1000


def test_a_query_may_stop_instead(server: Server) -> None:
    server.run(
        f"{S} SET 'ksql.fail.on.deserialization.error'='true'; CREATE STREAM u AS SELECT id, v FROM s;"
    )
    produce(server, (b"1", b"{}"), (b"2", b"no json"))

    def found() -> dict[str, Any]:
        [described] = server.one("SHOW QUERIES EXTENDED")["queryDescriptions"]
        assert isinstance(described, dict)
        return described

    described = eventually(found, lambda each: each["state"] == "ERROR")
    assert described["state"] == "ERROR"
    [error] = described["queryErrors"]
    assert "s-0 at offset 1" in error["errorMessage"]
    assert "JSON" in error["errorMessage"]
    assert (error["type"], error["timestamp"] > 0) == ("UNKNOWN", True)
    text = """
        SELECT message->type AS t, message->kafkastreamsthreaderror AS e, rowtime FROM ksql_processing_log;
    """
    [(type_, told, time_ms)] = server.settled(text, 1)
    assert (type_, told["ERRORMESSAGE"], time_ms) == (4, error["errorMessage"], error["timestamp"])


def test_without_a_log_nothing_is_written(start: Callable[..., Server]) -> None:
    server = start()
    server.run(f"{S} CREATE STREAM u AS SELECT id, 10 / n AS q FROM s;")
    produce(server, (b"1", b"no json"), (b"2", b'{"N": 0}'))
    assert server.settled("SELECT * FROM u;", 1) == [(2, None)]
    assert not [each for each in server.topics() if each.startswith(server.config.service_id)]


def test_topics_have_statistics(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT id, v FROM s; CREATE STREAM w AS SELECT id, v FROM u;")
    produce(server, (b"1", b'{"V": "a"}'), (b"2", b"no json"), (b"3", b'{"V": "c"}'))
    assert len(server.settled("SELECT * FROM w;", 2)) == 2

    def told(source: str, wanted: str) -> dict[str, Any]:
        described: dict[str, Any] = eventually(
            lambda: server.one(f"DESCRIBE {source} EXTENDED;")["sourceDescription"],
            lambda found: wanted in found["statistics"],
        )
        return described

    read = told("s", "consumer-total-messages:         3 ")
    assert "consumer-total-messages:         3 " in read["statistics"]
    assert "consumer-messages-per-sec:" in read["statistics"]
    assert " total-messages" not in read["statistics"]
    assert "consumer-failed-messages:         1 " in read["errorStats"]
    assert re.search(r"last-failed: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", read["errorStats"])
    both = told("u", "consumer-total-messages:         2 ")["statistics"]
    assert "consumer-total-messages:         2 " in both
    assert "  total-messages:         2 " in both
    listed = server.one("SHOW STREAMS EXTENDED;")["sourceDescriptions"]
    assert any("consumer-total-messages:         3 " in each["statistics"] for each in listed)
    assert server.one("DESCRIBE s;")["sourceDescription"]["statistics"] == ""
