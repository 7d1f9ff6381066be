"""Statements that show or set something: SHOW, DESCRIBE, EXPLAIN, ASSERT, SET, DEFINE, RUN SCRIPT."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from engine_server import Server, eventually

from penstock.sql.engine import EngineConfig, EngineError, ErrorCode
from registry_node import started

S = "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=2, format='json');"


def test_sources_are_listed(server: Server) -> None:
    server.run(
        f"{S} CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id;"
        "CREATE STREAM u WITH (key_format='kafka', value_format='delimited') AS SELECT * FROM s;"
    )
    assert server.one("LIST STREAMS")["streams"] == [
        {
            "type": "STREAM",
            "name": "S",
            "topic": "s",
            "keyFormat": "JSON",
            "valueFormat": "JSON",
            "isWindowed": False,
        },
        {
            "type": "STREAM",
            "name": "U",
            "topic": "U",
            "keyFormat": "KAFKA",
            "valueFormat": "DELIMITED",
            "isWindowed": False,
        },
    ]
    [table] = server.one("SHOW TABLES;")["tables"]
    assert (table["type"], table["name"], table["isWindowed"]) == ("TABLE", "W", True)
    extended = server.one("SHOW TABLES EXTENDED;")
    assert extended["@type"] == "source_descriptions"
    assert [each["partitions"] for each in extended["sourceDescriptions"]] == [2]


def test_a_source_is_described(server: Server) -> None:
    server.run(
        "CREATE STREAM s (k STRING KEY, d DECIMAL(4, 2), a ARRAY<STRUCT<x INT>>, m MAP<STRING, DOUBLE>,"
        " h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, one BYTES HEADER('one'), told BIGINT)"
        " WITH (kafka_topic='s', partitions=2, format='json', timestamp='told');"
        "CREATE STREAM u AS SELECT k, d FROM s;"
    )
    plain = {"fields": None, "memberSchema": None}
    described = server.one("DESCRIBE s;")["sourceDescription"]
    fields = {each.pop("name"): each for each in described["fields"]}
    assert fields["K"] == {"schema": {"type": "STRING", **plain}, "type": "KEY"}
    assert fields["D"] == {"schema": {"type": "DECIMAL", **plain, "parameters": {"precision": 4, "scale": 2}}}
    struct = {
        "type": "STRUCT",
        "fields": [{"name": "X", "schema": {"type": "INTEGER", **plain}}],
        "memberSchema": None,
    }
    assert fields["A"] == {"schema": {"type": "ARRAY", "fields": None, "memberSchema": struct}}
    assert fields["M"]["schema"]["memberSchema"]["type"] == "DOUBLE"
    assert fields["H"]["type"] == "HEADER"
    assert "headerKey" not in fields["H"]
    assert (fields["ONE"]["type"], fields["ONE"]["headerKey"]) == ("HEADER", "one")
    assert (described["timestamp"], described["type"], described["topic"]) == ("TOLD", "STREAM", "s")
    assert described["extended"] is False
    [reader] = described["readQueries"]
    assert reader["sinks"] == ["U"]
    assert reader["statusCount"] == {"RUNNING": 1}
    assert described["sourceConstraints"] == ["U"]
    other = server.one("DESCRIBE u;")["sourceDescription"]
    assert [each["id"] for each in other["writeQueries"]] == [reader["id"]]
    assert other["statement"].startswith("CREATE STREAM U WITH (KAFKA_TOPIC = 'U'")


def test_extended_descriptions_have_sizes_and_offsets(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s; INSERT INTO s VALUES (1, 'a');")
    server.settled("SELECT * FROM u;", 1)
    described = server.one("DESCRIBE u EXTENDED;")["sourceDescription"]
    assert (described["extended"], described["partitions"], described["replication"]) == (True, 2, 1)
    [summary] = described["queryOffsetSummaries"]
    assert summary["groupId"].startswith(f"_confluent-ksql-{server.config.service_id}query_CSAS_U_")
    [topic] = summary["topicSummaries"]
    assert topic["kafkaTopic"] == "s"
    assert [each["partition"] for each in topic["offsets"]] == [0, 1]
    assert sum(each["logEndOffset"] for each in topic["offsets"]) == 1


def test_all_streams_are_described(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s;")
    told = server.one("DESCRIBE STREAMS EXTENDED;")
    assert [each["name"] for each in told["sourceDescriptions"]] == ["S", "U"]
    assert server.one("DESCRIBE TABLES;")["sourceDescriptions"] == []
    server.refused("DESCRIBE nothing;", "NOTHING")


def test_topics_are_listed(server: Server) -> None:
    server.run(S)
    shown = {each["name"]: each for each in server.one("SHOW TOPICS;")["topics"]}
    assert shown["s"] == {"name": "s", "replicaInfo": [1, 1]}
    assert server.config.command_topic not in shown
    every = {each["name"] for each in server.one("SHOW ALL TOPICS;")["topics"]}
    assert server.config.command_topic in every


def test_consumers_of_topics_are_counted(server: Server) -> None:
    server.run(S)
    consumers = []
    for group in ("one", "one", "two"):
        settings = {"bootstrap.servers": server.servers, "group.id": f"{group}-{server.config.service_id}"}
        consumers.append(Consumer(settings))
        consumers[-1].subscribe(["s"])

    def counted() -> tuple[int, int]:
        for consumer in consumers:
            consumer.poll(0.05)
        [told] = [each for each in server.one("SHOW TOPICS EXTENDED;")["topics"] if each["name"] == "s"]
        return told["consumerCount"], told["consumerGroupCount"]

    def assigned() -> list[int]:
        for consumer in consumers:
            consumer.poll(0.05)
        return [len(consumer.assignment()) for consumer in consumers]

    try:
        assert eventually(counted, lambda found: found == (3, 2), 60) == (3, 2)
        # librdkafka may wait forever in the close of a consumer that is just being assigned partitions.
        eventually(assigned, lambda found: sum(found[:2]) == found[2] > 0, 60)
    finally:
        for consumer in consumers:
            consumer.close()


def test_functions_are_listed_and_described(server: Server) -> None:
    listed = {each["name"]: each["type"] for each in server.one("SHOW FUNCTIONS;")["functions"]}
    assert (listed["ABS"], listed["COUNT"], listed["EXPLODE"]) == ("SCALAR", "AGGREGATE", "TABLE")
    told = server.one("DESCRIBE FUNCTION substring;")
    assert told["@type"] == "describe_function"
    assert told["functions"][0]["arguments"][0]["type"] == "STRING"
    assert server.one("DESCRIBE FUNCTION concat;")["functions"][0]["arguments"][-1]["isVariadic"]
    server.refused("DESCRIBE FUNCTION nothing;", "found no function NOTHING")


# EXPLAIN


def test_explain_of_a_running_query(server: Server) -> None:
    made = server.one(f"{S}")
    query_id = server.one("CREATE TABLE c AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;")["commandStatus"][
        "queryId"
    ]
    told = server.one(f"EXPLAIN {query_id};")["queryDescription"]
    assert made["commandStatus"]["status"] == "SUCCESS"
    assert (told["id"], told["queryType"], told["state"]) == (query_id, "PERSISTENT", "RUNNING")
    assert (told["sources"], told["sinks"]) == (["S"], ["C"])
    assert told["topology"].startswith("Topologies:\n")
    assert "aggregate COUNT(*)" in told["executionPlan"]
    assert told["ksqlHostQueryStatus"] == {"localhost:8088": "RUNNING"}
    assert [each["name"] for each in told["fields"]] == ["ID", "N"]
    server.refused("EXPLAIN nothing;", "does not exist, use SHOW QUERIES")


def test_explain_tells_how_far_each_task_is(server: Server) -> None:
    server.run(f"{S} CREATE TABLE c AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;")
    server.run("".join(f"INSERT INTO s VALUES ({number}, 'a');" for number in range(8)))
    [query_id] = server.engine.state.queries
    told = server.one(f"EXPLAIN {query_id};")["queryDescription"]
    consumer = Consumer({"bootstrap.servers": server.servers, "group.id": told["consumerGroupId"]})
    consumer.commit(offsets=[TopicPartition("s", 1, 2)], asynchronous=False)
    consumer.close()
    for text, key in ((f"EXPLAIN {query_id};", "queryDescription"), ("SHOW QUERIES EXTENDED;", None)):
        answer = server.one(text)
        described = answer[key] if key else answer["queryDescriptions"][0]
        first, second = described["tasksMetadata"]
        assert (first["taskId"], second["taskId"]) == ("0_0", "0_1")
        [offset] = second["topicOffsets"]
        assert offset["topicPartitionEntity"] == {"topic": "s", "partition": 1}
        assert offset["committedOffset"] == 2
        [other] = first["topicOffsets"]
        assert other["endOffset"] + offset["endOffset"] == 8


def test_explain_of_a_statement_changes_nothing(server: Server) -> None:
    server.run(S)
    state, topics = server.engine.state, server.topics()
    for statement, kind in (
        ("SELECT * FROM s EMIT CHANGES", "PUSH"),
        ("SELECT * FROM s", "PULL"),
        ("CREATE STREAM u AS SELECT * FROM s", "PERSISTENT"),
        ("INSERT INTO s SELECT * FROM s", "PERSISTENT"),
    ):
        told = server.one(f"EXPLAIN {statement};")["queryDescription"]
        assert told["queryType"] == kind
        assert told["sources"] == ["S"]
        assert "topics: [s]" in told["topology"]
    server.refused("EXPLAIN SHOW STREAMS;", "does not run a ksql query")
    server.refused("EXPLAIN SELECT nothing FROM s EMIT CHANGES;", "NOTHING")
    assert server.engine.state is state
    assert server.topics() == topics


# Properties and variables


def test_properties_hold_for_their_request(server: Server) -> None:
    text = "SHOW PROPERTIES;"

    def shown(entities: list[object]) -> dict[str, str]:
        return {each.name: each.value for each in entities[-1].properties}  # type: ignore[attr-defined]

    assert shown(server.run(f"SET 'auto.offset.reset' = 'latest'; {text}"))["auto.offset.reset"] == "latest"
    assert shown(server.run(text))["auto.offset.reset"] == "earliest"
    both = server.run(f"SET 'ksql.streams.auto.offset.reset' = 'latest'; UNSET 'auto.offset.reset'; {text}")
    assert shown(both)["auto.offset.reset"] == "earliest"
    given = server.one(text, properties={"ksql.streams.auto.offset.reset": "latest"})
    assert given["overwrittenProperties"] == ["auto.offset.reset"]
    assert "auto.offset.reset" not in given["defaultProperties"]
    assert "ksql.max.push.queries" in given["defaultProperties"]
    [reset] = [each for each in given["properties"] if each["name"] == "auto.offset.reset"]
    assert reset == {
        "name": "auto.offset.reset",
        "scope": "KSQL",
        "value": "latest",
        "editable": True,
        "level": "QUERY",
    }


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("no.such.thing", "x", "Not recognizable as ksql, streams, consumer, or producer property"),
        ("auto.offset.reset", "middle", "expected one of earliest, latest"),
        ("ksql.query.pull.table.scan.enabled", "perhaps", "expected true or false"),
        ("ksql.max.push.queries", "-1", "Cannot override|expected a whole number"),
        ("ksql.new.query.planner.enabled", "perhaps", "expected true or false"),
        ("ksql.query.pull.thread.pool.size", "many", "expected a whole number"),
        ("ksql.lambdas.enabled", "false", "expected one of true"),
    ],
)
def test_wrong_properties(server: Server, name: str, value: str, told: str) -> None:
    error = server.refused(f"{S} SET '{name}' = '{value}';", told)
    assert error.code is ErrorCode.BAD_REQUEST
    assert server.refused("SHOW STREAMS;", told, properties={name: value}).code is ErrorCode.BAD_REQUEST
    with pytest.raises(EngineError, match=told):
        EngineConfig("localhost:1", properties={name: value}).server_properties  # noqa: B018
    assert server.engine.state.catalog.sources == {}


def test_which_properties_requests_may_set(server: Server) -> None:
    for name in (
        "auto.offset.reset",
        "ksql.streams.num.stream.threads",
        "ksql.streams.consumer.fetch.min.bytes",
    ):
        assert server.engine.is_valid_property(name)
    for name, told in (
        ("ksql.nothing", "Not recognizable"),
        ("ksql.schema.registry.url", "Cannot override property 'ksql.schema.registry.url'"),
        ("ksql.streams.bootstrap.servers", "Cannot override"),
        ("sasl.oauthbearer.token.endpoint.url", "Cannot override"),
        ("ksql.streams.producer.ssl.keystore.location", "Cannot override"),
        ("security.protocol", "Cannot override"),
    ):
        with pytest.raises(EngineError, match=told):
            server.engine.is_valid_property(name)
        server.refused("SHOW STREAMS;", told, properties={name: "x"})
        server.refused(f"SET '{name}' = 'x';", told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ksql.new.query.planner.enabled", "true"),
        ("ksql.query.pull.thread.pool.size", "10"),
        ("ksql.functions.substring.legacy.args", "true"),
        ("ksql.functions._global_.of.users", "anything"),
        ("ksql.persistent.prefix", ""),
        ("ksql.lambdas.enabled", "True"),
        ("ksql.streams.__emit.interval.ms.kstreams.windowed.aggregation__", "0"),
    ],
)
def test_properties_that_change_nothing_here_are_accepted(server: Server, name: str, value: str) -> None:
    assert server.engine.is_valid_property(name)
    assert server.run(f"SET '{name}' = '{value}';") == []
    server.run("SHOW STREAMS;", properties={name: value})
    assert EngineConfig("localhost:1", properties={name: value}).server_properties


def test_secrets_are_not_shown(start: Callable[..., Server]) -> None:
    server = start(ksql_schema_registry_basic_auth_user_info="me:hush", ssl_key_password="hush")
    assert "hush" not in str(server.one("SHOW PROPERTIES;"))


def test_alter_system_holds_for_later_requests_and_restarts(server: Server) -> None:
    told = server.message("ALTER SYSTEM 'auto.offset.reset' = 'latest';")
    assert told == "System property auto.offset.reset was set to latest."
    again = server.restarted()
    try:
        shown = {each["name"]: each["value"] for each in again.one("SHOW PROPERTIES;")["properties"]}
        assert shown["auto.offset.reset"] == "latest"
    finally:
        again.close()


def test_variables(server: Server) -> None:
    made = server.run(
        "DEFINE name = 's'; DEFINE format = 'json';"
        "CREATE STREAM ${name} (v STRING)"
        " WITH (kafka_topic='${name}', partitions=1, value_format='${format}');"
        "UNDEFINE format; SHOW VARIABLES; SHOW STREAMS;",
        variables={"given": "x"},
    )
    assert [(each.name, each.value) for each in made[1].variables] == [("given", "x"), ("name", "s")]
    assert [(each.name, each.topic) for each in made[2].streams] == [("S", "s")]
    assert server.one("SHOW VARIABLES;")["variables"] == []


# Scripts


def test_scripts_are_run_in_their_folder(start: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "outer.sql").write_text(f"DEFINE v = 'w'; {S} RUN SCRIPT 'more/inner.sql'; SHOW STREAMS;")
    (tmp_path / "more" / "inner.sql").write_text("CREATE STREAM ${v} AS SELECT * FROM s;")
    (tmp_path / "round.sql").write_text("RUN SCRIPT 'round.sql';")
    (tmp_path / "wrong.sql").write_text("CREATE STREAM x AS SELECT * FROM s; SELCT;")
    server = start(ksql_script_dir=str(tmp_path))
    made = server.run("RUN SCRIPT 'outer.sql'; SHOW TABLES;")
    assert [each.type_name for each in made] == ["currentStatus", "currentStatus", "streams", "tables"]
    assert [each.name for each in made[2].streams] == ["S", "W"]
    before = server.engine.state
    server.refused("RUN SCRIPT 'wrong.sql';", "found SELCT")
    server.refused("RUN SCRIPT 'round.sql';", "scripts nested 16 deep")
    server.refused("RUN SCRIPT '../outer.sql';", "expected one below the folder of scripts")
    server.refused(f"RUN SCRIPT '{tmp_path}/outer.sql';", "expected one below the folder of scripts")
    server.refused("RUN SCRIPT 'nothing.sql';", "found no script nothing.sql")
    assert server.engine.state is before


def test_scripts_are_the_shells_without_a_folder(server: Server) -> None:
    server.refused("RUN SCRIPT 'any.sql';", "ksql.script.dir")


# ASSERT


def test_assert_topic(server: Server) -> None:
    server.run(S)
    told = server.one("ASSERT TOPIC 's' WITH (partitions=2, replicas=1);")
    assert told == {
        "@type": "assert_topic",
        "statementText": "ASSERT TOPIC 's' WITH (partitions=2, replicas=1);",
        "topicName": "s",
        "exists": True,
        "warnings": [],
    }
    assert server.one("ASSERT NOT EXISTS TOPIC 'nothing';")["exists"] is False
    for check, problem in (
        (
            "ASSERT TOPIC 's' WITH (partitions=3) TIMEOUT 1 MILLISECOND;",
            "For config partitions, expected 3 got 2",
        ),
        ("ASSERT TOPIC 's' WITH (colour=3) TIMEOUT 1 MILLISECOND;", "unknown topic property: COLOUR"),
        ("ASSERT NOT EXISTS TOPIC 's' TIMEOUT 1 MILLISECOND;", "Topic s exists"),
    ):
        assert server.refused(check, problem).code is ErrorCode.ASSERTION_FAILED


def test_assert_waits(server: Server) -> None:
    found: list[dict[str, object]] = []
    waiting = threading.Thread(
        target=lambda: found.append(server.one("ASSERT TOPIC 's' TIMEOUT 60 SECONDS;"))
    )
    waiting.start()
    time.sleep(0.2)
    server.run(S)
    waiting.join(90)
    assert [each["exists"] for each in found] == [True]


def test_assert_waits_no_longer_than_the_server_is_there(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked = threading.Event()
    monkeypatch.setattr(server.engine._topics, "shape", lambda name: is_asked.set())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.refused, "ASSERT TOPIC 's' TIMEOUT 1 HOUR;", "shutting down")
        assert is_asked.wait(60)
        server.close()
        assert waiting.result(60).code is ErrorCode.SERVER_SHUTTING_DOWN


def test_assert_schema(start: Callable[..., Server]) -> None:
    plain = start()
    error = plain.refused("ASSERT SCHEMA SUBJECT 's-value';", "without a schema registry")
    assert error.code is ErrorCode.SCHEMA_REGISTRY_UNCONFIGURED
    registry = started(plain.servers, uuid4().hex)
    try:
        server = start(registry_url=registry.url)
        server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='avro');")
        told = server.one("ASSERT SCHEMA SUBJECT 's-value';")
        assert (told["@type"], told["subject"], told["id"], told["exists"]) == (
            "assert_schema",
            "s-value",
            None,
            True,
        )
        assert server.one("ASSERT SCHEMA SUBJECT 's-value' ID 1;")["id"] == 1
        assert server.one("ASSERT SCHEMA ID 1;")["exists"]
        assert server.one("ASSERT NOT EXISTS SCHEMA SUBJECT 's-key';")["exists"] is False
        quick = "TIMEOUT 1 MILLISECOND;"
        server.refused(
            f"ASSERT SCHEMA SUBJECT 's-value' ID 7 {quick}", "subject name s-value id 7 does not exist"
        )
        server.refused(f"ASSERT NOT EXISTS SCHEMA ID 1 {quick}", "Schema with id 1 exists")
    finally:
        registry.close()


# The server itself


def test_info_and_health(server: Server) -> None:
    info = server.engine.info()
    assert info.server_status == "RUNNING"
    assert info.ksql_service_id == server.config.service_id
    assert len(info.kafka_cluster_id) == 22
    health = server.engine.healthcheck()
    assert health.is_healthy
    assert set(health.details) == {"metastore", "kafka", "commandRunner"}
