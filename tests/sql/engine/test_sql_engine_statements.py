"""Statements that define something: their effects, their answers, and their refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from engine_server import Server, eventually

from penstock.sql.engine import EngineError, ErrorCode

S = "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=2, format='json');"


def names(server: Server, what: str) -> list[str]:
    return [each["name"] for each in server.one(f"SHOW {what}")[what.lower()]]


def test_a_stream_makes_its_topic(server: Server) -> None:
    server.run(
        "CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=3, replicas=1, retention_ms=1000,"
        " value_format='json');"
    )
    shape = server.engine._topics.shape("s")
    assert shape is not None
    assert shape.replicas == (1, 1, 1)
    assert shape.config == {"cleanup.policy": "delete", "retention.ms": "1000"}


def test_a_table_compacts_its_topic(server: Server) -> None:
    made = "CREATE TABLE t (id INT PRIMARY KEY) WITH (kafka_topic='t', partitions=1, format='json');"
    assert server.message(made) == "Table created"
    shape = server.engine._topics.shape("t")
    assert shape is not None
    assert shape.config["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "CREATE STREAM s (v STRING) WITH (kafka_topic='x', value_format='json');",
            r"Topic 'x' does not exist\. If you want to create .* PARTITIONS = 2\);",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY) WITH (kafka_topic='t', partitions=1, retention_ms=5,"
            " format='json');",
            "Non-windowed tables do not support retention",
        ),
        (
            "CREATE STREAM s (v STRING) WITH (kafka_topic='x', partitions=1, cleanup_policy='compact',"
            " value_format='json');",
            "CLEANUP_POLICY",
        ),
        ("CREATE STREAM s (v NOPE) WITH (kafka_topic='x', partitions=1, format='json');", "NOPE"),
        ("CREATE STREAM s WITH (kafka_topic='x', partitions=1, value_format='avro');", "registry"),
        ("CREATE TABLE t AS SELECT * FROM nothing;", "NOTHING"),
        ("INSERT INTO nothing SELECT * FROM nothing;", "unknown stream/table: `NOTHING`"),
        ("DROP STREAM nothing;", "NOTHING"),
        ("CREATE FUNCTION f() RETURNS INT AS 'nothing.py:f';", "nothing.py"),
        ("TERMINATE nothing;", "Unknown queryId: NOTHING"),
        ("PAUSE nothing;", "Unknown queryId: NOTHING"),
        ("ALTER SYSTEM 'ksql.service.id' = 'x';", "Cannot override property"),
        ("SHOW STREAMS; SELCT 1;", "found SELCT"),
        ("SELECT * FROM s;", "should be issued to the websocket endpoint"),
    ],
)
def test_a_wrong_statement_leaves_no_trace(server: Server, statement: str, told: str) -> None:
    before = server.topics()
    state = server.engine.state
    error = server.refused(statement, told)
    assert error.code // 100 in (400, 428)
    assert error.statement_text is not None
    assert server.topics() == before
    assert server.engine.state is state
    assert server.engine.statuses() == {}
    assert server.engine._distributor._log.read() == []


def test_nothing_is_done_where_a_later_statement_is_wrong(server: Server) -> None:
    error = server.refused(f"{S} CREATE STREAM u AS SELECT nothing FROM s;", "NOTHING")
    assert error.statement_text == "CREATE STREAM u AS SELECT nothing FROM s;"
    assert names(server, "STREAMS") == []
    assert "s" not in server.topics()


def test_later_statements_of_a_request_see_earlier_ones(server: Server) -> None:
    made = server.run(
        f"{S} CREATE STREAM u AS SELECT * FROM s; CREATE STREAM w AS SELECT * FROM u; SHOW STREAMS;"
    )
    assert [each.name for each in made[-1].streams] == ["S", "U", "W"]


def test_what_was_done_before_a_failure_is_told(server: Server) -> None:
    error = server.refused(
        f"{S} ASSERT TOPIC 'nothing' TIMEOUT 1 MILLISECOND;", "Topic nothing does not exist"
    )
    assert error.code is ErrorCode.ASSERTION_FAILED
    told = error.to_json()
    assert told["@type"] == "statement_error"
    assert told["error_code"] == 41700
    assert told["statementText"] == "ASSERT TOPIC 'nothing' TIMEOUT 1 MILLISECOND;"
    assert [each["commandId"] for each in told["entities"]] == ["stream/`S`/create"]


def test_an_existing_topic_is_taken_as_it_is(server: Server) -> None:
    server.run(S)
    server.run("CREATE STREAM again (id INT KEY, v STRING) WITH (kafka_topic='s', format='json');")
    server.refused(
        "CREATE STREAM more (v STRING) WITH (kafka_topic='s', partitions=5, value_format='json');",
        "KSQL expects 5 partitions .topic has 2.",
    )


def test_a_result_has_its_sources_partitions_and_retention(server: Server) -> None:
    server.run(
        "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=3, retention_ms=7200000,"
        " format='json');"
    )
    server.run("CREATE STREAM same AS SELECT * FROM s;")
    server.run(
        "CREATE STREAM other WITH (kafka_topic='o', partitions=1, retention_ms=5000) AS SELECT * FROM s;"
    )
    server.run(
        "CREATE STREAM forever (v STRING)"
        " WITH (kafka_topic='forever', partitions=1, value_format='json');"
        "CREATE STREAM as_long AS SELECT * FROM forever;"
    )
    server.run("CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;")
    server.run(
        "CREATE TABLE windows AS SELECT id, COUNT(*) AS n FROM s"
        " WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 DAY) GROUP BY id;"
    )
    shapes = {name: server.engine._topics.shape(name) for name in ("SAME", "o", "COUNTS", "WINDOWS")}
    sizes = [server.engine._topics.shape(name) for name in ("forever", "AS_LONG")]
    assert len({None if each is None else each.config["retention.ms"] for each in sizes}) == 1
    found = {name: (each.partitions, dict(each.config)) for name, each in shapes.items() if each is not None}
    week_ms = found["COUNTS"][1]["retention.ms"]
    assert found == {
        "SAME": (3, {"cleanup.policy": "delete", "retention.ms": "7200000"}),
        "o": (1, {"cleanup.policy": "delete", "retention.ms": "5000"}),
        "COUNTS": (3, {"cleanup.policy": "compact", "retention.ms": week_ms}),
        "WINDOWS": (3, {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}),
    }


def test_a_prefix_for_the_topics_of_results(server: Server) -> None:
    server.run(S)
    server.run("SET 'ksql.output.topic.name.prefix' = 'p-'; CREATE STREAM u AS SELECT * FROM s;")
    assert "p-U" in server.topics()


def test_what_is_joined_has_equal_partitions(server: Server) -> None:
    """The numbers of partitions are the topics' own: no statement gives them."""
    server.run(
        "CREATE STREAM one (v STRING) WITH (kafka_topic='s', partitions=2, value_format='json');"
        "CREATE STREAM two (v STRING) WITH (kafka_topic='t', partitions=1, value_format='json');"
        "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', format='json');"
        "CREATE TABLE t (id INT PRIMARY KEY, w STRING) WITH (kafka_topic='t', format='json');"
    )
    error = server.refused("CREATE STREAM j AS SELECT s.id, v, w FROM s JOIN t ON s.id = t.id;", "s has 2")
    assert error.code is ErrorCode.BAD_STATEMENT
    assert "t has 1" in error.message
    assert "J" not in server.topics()


def test_errors_show_their_place_in_the_request(server: Server) -> None:
    error = server.refused(f"{S}\nCREATE STREAM u AS\n  SELECT nothing FROM s;", "line 3, column 10")
    assert error.message.endswith("\n  SELECT nothing FROM s;\n         ^")


def test_if_not_exists_warns(server: Server) -> None:
    server.run(S)
    told = server.one("CREATE STREAM IF NOT EXISTS s (x INT) WITH (kafka_topic='s', value_format='json');")
    assert told["@type"] == "warning_entity"
    assert told["message"] == "Cannot add stream `S`: A stream with the same name already exists."
    server.refused(S, "S")


def test_commands_are_numbered_and_have_a_status(server: Server) -> None:
    first = server.one(S)
    second = server.one("CREATE STREAM u AS SELECT * FROM s;")
    assert first["commandStatus"] == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    query_id = second["commandStatus"]["queryId"]
    # As in ksqlDB: one more than the number of the last command that had a plan.
    assert query_id == f"CSAS_U_{first['commandSequenceNumber'] + 1}"
    server.run("PAUSE ALL;")
    third = server.message("CREATE STREAM w AS SELECT * FROM s;").rpartition(" ")[2]
    assert third == f"CSAS_W_{second['commandSequenceNumber'] + 1}"
    server.run("DROP STREAM w;")
    assert second["commandSequenceNumber"] > first["commandSequenceNumber"]
    assert server.engine.status("stream/U/create") == server.engine.status(second["commandId"])
    statuses = server.engine.statuses()
    assert statuses["stream/S/create"] == statuses["stream/U/create"] == "SUCCESS"
    with pytest.raises(EngineError, match="Command not found") as raised:
        server.engine.status("stream/NOTHING/create")
    assert raised.value.code is ErrorCode.NOT_FOUND
    server.run("SHOW STREAMS", command_sequence=second["commandSequenceNumber"])


def test_a_command_that_never_comes_is_not_waited_for(start: Callable[..., Server]) -> None:
    server = start(ksql_server_command_response_timeout_ms="50")
    error = server.refused("SHOW STREAMS", "command sequence number: 99", command_sequence=99)
    assert error.code is ErrorCode.COMMAND_QUEUE_CATCHUP_TIMEOUT


@pytest.mark.parametrize(
    "text",
    [
        "ASSERT VALUES s (id, v) VALUES (1, 'a');",
        "ASSERT NULL VALUES s KEY (1);",
        "ASSERT STREAM s (id INT) WITH (kafka_topic='s');",
    ],
)
def test_what_no_server_carries_out_is_refused_before_anything_is_done(server: Server, text: str) -> None:
    error = server.refused(f"{S} {text}", "expected a statement that a server executes")
    assert error.code is ErrorCode.BAD_STATEMENT
    assert error.entities == ()
    assert names(server, "STREAMS") == []


# DROP


def test_what_is_read_is_not_dropped(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s; CREATE STREAM w AS SELECT * FROM u;")
    told = server.refused("DROP STREAM s;", "Cannot drop S").message
    assert told == (
        "Cannot drop S.\nThe following streams and/or tables read from this source: [U].\n"
        "You need to drop them before dropping S."
    )
    server.refused("DROP STREAM s DELETE TOPIC;", "Cannot drop S")
    assert "s" in server.topics()
    server.run("DROP STREAM w; DROP STREAM u;")
    assert server.message("DROP STREAM s;") == "Source `S` (topic: s) was dropped."
    assert server.one("SHOW QUERIES")["queries"] == []
    assert sorted(server.host.removed) == sorted(server.host.added)


def test_a_terminated_query_still_holds_its_source(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s; TERMINATE ALL;")
    server.refused("DROP STREAM s;", r"\[U\]")


def test_inserts_hold_both_ends(server: Server) -> None:
    server.run(
        f"{S} CREATE STREAM u (id INT KEY, v STRING) WITH (kafka_topic='u', partitions=2, format='json');"
    )
    query_id = server.one("INSERT INTO u SELECT * FROM s;")["commandStatus"]["queryId"]
    assert query_id.startswith("INSERTQUERY_")
    server.refused("DROP STREAM s;", rf"read from this source: \[{query_id}\]")
    server.refused("DROP STREAM u;", rf"write into this source: \[{query_id}\]")
    server.run(f"TERMINATE {query_id}; DROP STREAM u; DROP STREAM s;")
    assert names(server, "STREAMS") == []


def test_a_topic_goes_with_its_source(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s; DROP STREAM u DELETE TOPIC;")
    assert "U" not in server.topics()
    assert "s" in server.topics()


def test_a_topic_goes_when_its_query_writes_no_more(server: Server) -> None:
    """Otherwise the query would create the topic again."""
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s; INSERT INTO s VALUES (1, 'a');")
    server.settled("SELECT * FROM u;", 1)
    server.host.lets_go.clear()

    def write_and_let_go() -> None:
        for number in range(10):
            server.run(f"INSERT INTO s VALUES ({number}, 'b');")
        server.host.lets_go.set()

    writer = threading.Timer(0.2, write_and_let_go)
    writer.start()
    dropped = server.one("DROP STREAM u DELETE TOPIC;")
    assert server.host.lets_go.is_set()
    writer.join(20)
    assert dropped["warnings"] == []
    assert "U" not in server.topics()


def test_a_topic_stays_when_its_query_does_not_end_and_the_answer_says_so(
    start: Callable[..., Server],
) -> None:
    server = start(ksql_streams_shutdown_timeout_ms="100")
    server.run(S)
    query_id = server.message("CREATE STREAM u AS SELECT * FROM s;").rpartition(" ")[2]
    server.host.lets_go.clear()
    server.run(f"TERMINATE {query_id};")
    dropped = server.one("DROP STREAM u DELETE TOPIC;")
    assert dropped["commandStatus"]["status"] == "SUCCESS"
    [warning] = dropped["warnings"]
    assert f"The topic U was not deleted: {query_id} may still write to it" in warning["message"]
    assert "U" in server.topics()
    assert names(server, "STREAMS") == ["S"]


def test_a_topic_that_another_source_has_stays(server: Server) -> None:
    server.run(f"{S} CREATE STREAM again (id INT KEY, v STRING) WITH (kafka_topic='s', format='json');")
    told = r"Refusing to delete topic. Found other data sources \(AGAIN\) using topic s"
    server.refused("DROP STREAM s DELETE TOPIC;", told)
    assert names(server, "STREAMS") == ["AGAIN", "S"]


def test_drop_if_exists(server: Server) -> None:
    assert server.message("DROP STREAM IF EXISTS nothing;") == "Source `NOTHING` does not exist."
    server.run(S)
    server.refused("DROP TABLE s;", "found S as a STREAM, expected a TABLE")


# ALTER and REPLACE


def test_alter_adds_columns(server: Server) -> None:
    server.run(S)
    assert server.message("ALTER STREAM s ADD COLUMN more DOUBLE;") == "Stream S altered."
    described = server.one("DESCRIBE s")["sourceDescription"]
    assert [each["name"] for each in described["fields"]] == ["ID", "V", "MORE"]
    server.run("CREATE STREAM u AS SELECT * FROM s;")
    server.refused("ALTER STREAM u ADD COLUMN x INT;", "not supported for CREATE ... AS")


def test_a_replaced_query_keeps_its_id_and_runs_anew(server: Server) -> None:
    server.run(S)
    first = server.one("CREATE STREAM u AS SELECT id, v FROM s;")["commandStatus"]["queryId"]
    second = server.one("CREATE OR REPLACE STREAM u AS SELECT id, v, UCASE(v) AS up FROM s WHERE id > 1;")
    assert second["commandStatus"]["queryId"] == first
    assert server.host.added == [first, first]
    server.run("INSERT INTO s VALUES (1, 'a'); INSERT INTO s VALUES (2, 'b');")
    assert server.settled("SELECT * FROM u;", 1) == [(2, "b", "B")]


def test_a_query_is_not_replaced_by_one_with_other_state(server: Server) -> None:
    server.run(S)
    server.run("CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;")
    server.refused(
        "CREATE OR REPLACE TABLE t AS SELECT id, SUM(id) AS n FROM s GROUP BY id;", "Cannot replace T|N"
    )


# Types, functions


def test_types(server: Server) -> None:
    told = server.message("CREATE TYPE address AS STRUCT<street STRING, no DECIMAL(6, 2)>;")
    assert told.startswith("Registered custom type with name 'ADDRESS' and SQL type STRUCT<")
    server.run("CREATE STREAM s (a address) WITH (kafka_topic='s', partitions=1, value_format='json');")
    listed = server.one("SHOW TYPES")["types"]["ADDRESS"]
    assert [(each["name"], each["schema"]["type"]) for each in listed["fields"]] == [
        ("STREET", "STRING"),
        ("NO", "DECIMAL"),
    ]
    assert listed["fields"][1]["schema"]["parameters"] == {"precision": 6, "scale": 2}
    assert server.message("DROP TYPE address;") == "Dropped type 'ADDRESS'"
    assert server.message("DROP TYPE IF EXISTS address;") == "Type 'ADDRESS' does not exist"
    assert server.one("SHOW TYPES")["types"] == {}


def test_a_function_of_a_file(start: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def twice(value):\n    return value * 2\n")
    server = start(ksql_extension_dir=str(tmp_path))
    server.refused("CREATE FUNCTION two(x INT) RETURNS INT AS 'own.py:other';", "no function other in own.py")
    server.run("CREATE FUNCTION two(x INT) RETURNS INT AS 'own.py:twice';")
    described = server.one("DESCRIBE FUNCTION two")
    assert (described["name"], described["type"], described["path"]) == ("TWO", "SCALAR", "own.py:twice")
    server.run(f"{S} CREATE STREAM u AS SELECT id, two(id) AS n FROM s; INSERT INTO s VALUES (4, 'a');")
    assert server.settled("SELECT * FROM u;", 1) == [(4, 8)]
    (tmp_path / "own.py").unlink()
    again = server.restarted()
    try:
        assert again.rows("SELECT id, two(two(id)) AS n FROM s;") == [(4, 16)]
        assert again.message("DROP FUNCTION two;") == "Function TWO was dropped."
        with pytest.raises(EngineError, match="TWO"):
            again.rows("SELECT two(id) AS n FROM s;")
    finally:
        again.close()


# Queries


def test_pause_resume_terminate(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s; CREATE STREAM w AS SELECT * FROM s;")
    [one, other] = [each["id"] for each in server.one("SHOW QUERIES")["queries"]]

    def states() -> dict[str, str]:
        return {each["id"]: each["state"] for each in server.one("SHOW QUERIES")["queries"]}

    assert server.message(f"PAUSE {one};") == "Query paused."
    assert states() == {one: "PAUSED", other: "RUNNING"}
    server.run("INSERT INTO s VALUES (1, 'a');")
    assert server.settled("SELECT * FROM w;", 1) == [(1, "a")]
    assert server.rows("SELECT * FROM u;") == []
    assert server.message("RESUME ALL;") == "Query resumed."
    assert server.settled("SELECT * FROM u;", 1) == [(1, "a")]
    assert server.message(f"TERMINATE {one};") == "Query terminated."
    assert states() == {other: "RUNNING"}
    server.run("TERMINATE ALL;")
    assert states() == {}
    assert names(server, "STREAMS") == ["S", "U", "W"]


def test_a_query_that_can_not_start_is_in_error_and_others_go_on(server: Server) -> None:
    def fails(query_id: str, *_: object, **__: object) -> None:
        raise RuntimeError("no room")

    server.run(S)
    add, server.host.add = server.host.add, fails  # type: ignore[method-assign]
    server.run("CREATE STREAM u AS SELECT * FROM s;")
    server.host.add = add  # type: ignore[method-assign]
    server.run("CREATE STREAM w AS SELECT * FROM s;")
    described = {each["id"]: each for each in server.one("SHOW QUERIES EXTENDED")["queryDescriptions"]}
    states = {each["sinks"][0]: (each["state"], each["queryErrors"]) for each in described.values()}
    assert states["W"] == ("RUNNING", [])
    assert states["U"][0] == "ERROR"
    assert states["U"][1][0]["errorMessage"] == "no room"


def test_a_query_that_could_not_start_is_tried_again(start: Callable[..., Server]) -> None:
    refusals = iter(["no room", "still no room"])

    def fails_twice(query_id: str, *given: Any, **named: Any) -> None:
        for refusal in refusals:
            raise RuntimeError(refusal)
        add(query_id, *given, **named)

    server = start(ksql_query_retry_backoff_initial_ms="50")
    server.run(f"{S} INSERT INTO s VALUES (1, 'a');")
    add, server.host.add = server.host.add, fails_twice  # type: ignore[method-assign]
    server.run("CREATE STREAM u AS SELECT * FROM s;")
    assert server.settled("SELECT * FROM u;", 1) == [(1, "a")]
    [query] = server.one("SHOW QUERIES")["queries"]
    assert query["state"] == "RUNNING"


def test_alter_system_reaches_queries_that_run(server: Server) -> None:
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s;")
    server.run("SET 'ksql.fail.on.deserialization.error'='false'; CREATE STREAM w AS SELECT * FROM s;")
    reader, other = server.engine.state.queries
    server.run("ALTER SYSTEM 'ksql.fail.on.deserialization.error' = 'true';")
    assert server.host.added == [reader, other, reader], "what a query was given itself holds"
    server.run("ALTER SYSTEM 'ksql.query.pull.table.scan.enabled' = 'false';")
    assert server.host.added == [reader, other, reader], "nothing that it was built with has changed"
    producer = Producer({"bootstrap.servers": server.servers})
    producer.produce("s", b"no json", b"1", 0)
    assert producer.flush(20) == 0
    server.run("INSERT INTO s VALUES (1, 'a');")

    def states() -> dict[str, str]:
        return {each["id"]: each["state"] for each in server.one("SHOW QUERIES")["queries"]}

    assert eventually(states, lambda found: found[reader] == "ERROR")[reader] == "ERROR"
    assert server.settled("SELECT * FROM w;", 1) == [(1, "a")]
    assert states()[other] == "RUNNING"


def test_a_limit_of_queries(start: Callable[..., Server]) -> None:
    server = start(ksql_query_persistent_active_limit="1")
    server.run(f"{S} CREATE STREAM u AS SELECT * FROM s;")
    server.refused("CREATE STREAM w AS SELECT * FROM s;", "persistent.active.limit")
    assert "W" not in server.topics()


def test_own_query_ids(server: Server) -> None:
    server.run(
        f"{S} CREATE STREAM u (id INT KEY, v STRING) WITH (kafka_topic='u', partitions=2, format='json');"
    )
    made = server.one("INSERT INTO u WITH (query_id='mine_1') SELECT * FROM s;")
    assert made["commandStatus"]["queryId"] == "MINE_1"
    for given, told in (("mine_1", "already exists"), ("csas_x", "reserved"), ("a b", "alphanumeric")):
        server.refused(f"INSERT INTO u WITH (query_id='{given}') SELECT * FROM s;", told)
    assert eventually(lambda: server.host.added, lambda added: "MINE_1" in added) == ["MINE_1"]
