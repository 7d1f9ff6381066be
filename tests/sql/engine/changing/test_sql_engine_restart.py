"""The command topic: the state of a service after a restart, and who may write to the topic."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from engine_server import Server
from in_process_host import InProcessHost

from penstock.sql.engine import Engine, EngineError, ErrorCode
from penstock.sql.language.parsing.script import parse
from penstock.sql.language.statement_printing import print_statement

SCRIPT = """
    CREATE TYPE pair AS STRUCT<a INT, b STRING>;
    CREATE STREAM s (id INT KEY, v STRING, p pair) WITH (kafka_topic='s', partitions=2, format='json');
    CREATE STREAM gone AS SELECT id, v FROM s;
    CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
    CREATE STREAM u WITH (value_format='delimited') AS SELECT id, v, p->b AS b FROM s WHERE id > 0;
    CREATE STREAM more (id INT KEY, v STRING, b STRING)
      WITH (kafka_topic='more', partitions=2, format='json');
    INSERT INTO more SELECT * FROM u;
    CREATE OR REPLACE STREAM u WITH (value_format='delimited') AS SELECT id, v, p->b AS b FROM s WHERE id > 1;
    ALTER STREAM more ADD COLUMN x DOUBLE;
    DROP STREAM gone DELETE TOPIC;
    ALTER SYSTEM 'auto.offset.reset' = 'earliest';
"""


def snapshot(engine: Engine) -> dict[str, object]:
    """The whole state of a service, in comparable form."""
    state = engine.state
    return {
        "sources": dict(state.catalog.sources),
        "types": dict(state.catalog.types),
        "texts": dict(state.texts),
        "made from": dict(state.made_from),
        "system": dict(state.system),
        "queries": {
            each.id: (each.text, each.purpose, each.sources, each.sink, str(each.plan), each.is_paused)
            for each in state.queries.values()
        },
        "statuses": engine.statuses(),
    }


def test_a_restart_brings_everything_back(server: Server) -> None:
    server.run(SCRIPT)
    paused = next(each.id for each in server.engine.state.queries.values() if each.sink.name == "MORE")
    server.run(f"PAUSE {paused};")
    before = snapshot(server.engine)
    again = server.restarted()
    try:
        assert snapshot(again.engine) == before
        ids = {"CTAS_COUNTS", "CSAS_U", "INSERTQUERY"}
        assert {each.rpartition("_")[0] for each in again.host.added} == ids
        assert len(again.host.added) == 3, "no query that was dropped or replaced is started"
        assert again.host.retained == [set(again.host.added)]
        assert again.host.states()[paused].status.value == "PAUSED"
        made = again.one("CREATE STREAM next AS SELECT id, v FROM s;")
        assert made["commandSequenceNumber"] > server.engine._distributor._sequence
    finally:
        again.close()


def test_queries_answer_after_a_restart(server: Server) -> None:
    server.run(SCRIPT)
    server.run("INSERT INTO s (id, v) VALUES (1, 'a'); INSERT INTO s (id, v) VALUES (1, 'b');")
    server.becomes("SELECT * FROM counts;", [(1, 2)])
    again = server.restarted()
    try:
        again.becomes("SELECT * FROM counts WHERE id = 1;", [(1, 2)])
    finally:
        again.close()


def test_the_first_server_is_fenced_by_the_second(server: Server, start: Callable[..., Server]) -> None:
    server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');")
    other = start(service_id=server.config.service_id)
    made = "CREATE STREAM {0} (v STRING) WITH (kafka_topic='{0}', partitions=1, value_format='json');"
    other.run(made.format("theirs"))
    for _ in range(2):
        error = server.refused(made.format("mine"), "Could not write the statement into the command topic")
        assert error.code is ErrorCode.SERVER_ERROR
    assert "mine" not in server.topics(), "the topic that was made for it is gone"
    assert server.engine.healthcheck().is_healthy is False
    assert server.engine.healthcheck().details["commandRunner"].is_healthy is False
    other.run(made.format("more"))
    assert [each["name"] for each in other.one("SHOW STREAMS")["streams"]] == ["MORE", "S", "THEIRS"]
    assert [each["name"] for each in server.one("SHOW STREAMS")["streams"]] == ["S"]
    third = other.restarted()
    try:
        assert [each["name"] for each in third.one("SHOW STREAMS")["streams"]] == ["MORE", "S", "THEIRS"]
    finally:
        third.close()


def test_services_do_not_see_each_other(server: Server, start: Callable[..., Server]) -> None:
    server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');")
    assert start().one("SHOW STREAMS")["streams"] == []


def records_of(server: Server) -> list[tuple[str, dict[str, object]]]:
    """The keys and values of the command topic, as a client reads them that is not ours."""
    consumer = Consumer(
        {"bootstrap.servers": server.servers, "group.id": "reader", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(server.config.command_topic, 0, 0)])
    found: list[tuple[str, dict[str, object]]] = []
    wanted = len(server.engine.statuses())
    while len(found) < wanted:
        message = consumer.poll(10)
        assert message is not None, f"found {len(found)} commands, expected {wanted}"
        assert message.error() is None
        found.append((json.loads(message.key()), json.loads(message.value())))
    consumer.close()
    return found


def test_commands_are_ksqldbs_json(server: Server) -> None:
    server.run(
        "SET 'auto.offset.reset' = 'latest';"
        "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=2, format='json');"
        "CREATE STREAM u AS SELECT * FROM s;"
    )
    [(_, first), (key, second)] = records_of(server)
    assert key == "stream/`U`/create"
    ksqldbs = {"statement", "streamsProperties", "originalProperties", "plan", "version"}
    assert set(second) - ksqldbs == {"queryNumber"}
    assert second["statement"] == (
        "CREATE STREAM U WITH (KAFKA_TOPIC = 'U', PARTITIONS = 2, REPLICAS = 1) AS SELECT * FROM S;"
    )
    assert second["streamsProperties"] == {"auto.offset.reset": "latest"}
    assert second["plan"] is None
    text = str(first["statement"])
    assert print_statement(parse(text)) + ";" == text


def test_commands_of_earlier_releases_name_queries_by_their_own_offset(server: Server) -> None:
    server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');")
    producer = Producer({"bootstrap.servers": server.servers})
    select = {"statement": "CREATE STREAM U WITH (KAFKA_TOPIC = 's') AS SELECT * FROM S;"}
    producer.produce(server.config.command_topic, json.dumps(select).encode(), b'"stream/`U`/create"')
    assert producer.flush(20) == 0
    again = server.restarted()
    try:
        [query_id] = again.engine.state.queries
        assert query_id == f"CSAS_U_{again.engine._distributor._sequence}"
    finally:
        again.close()


def write_commands(server: Server, *values: bytes | None, key: bytes = b'"stream/NOTHING/drop"') -> None:
    """Write commands as any client may that can write to the topic."""
    producer = Producer({"bootstrap.servers": server.servers})
    for value in values:
        producer.produce(server.config.command_topic, value, key)
    assert producer.flush(20) == 0


DAMAGED = (b"no JSON", b'{"statement": 7}', b"[]", None, b'{"statement": "DROP STREAM nothing;"}')
# Valid JSON, but no valid commands.
STRANGE = (
    {"streamsProperties": {"cache.max.bytes.buffering": "many"}},
    {"originalProperties": {"ksql.persistence.default.format.key": "XML"}},
    {"queryNumber": "1"},
    {"columns": 1},
    {"version": "18"},
    {"version": 19},
)


def test_damaged_commands_are_passed_over(server: Server) -> None:
    server.run("CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');")
    statement = "CREATE TABLE u WITH (kafka_topic='s') AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;"
    strange = [json.dumps({"statement": statement, **each}).encode() for each in STRANGE]
    strange.append(json.dumps({"statement": "CREATE FUNCTION f AS 'f.py:f';", "file": 5}).encode())
    write_commands(server, *DAMAGED, *strange)
    again = server.restarted()
    try:
        assert again.engine.statuses() == {"stream/S/create": "SUCCESS", "stream/NOTHING/drop": "ERROR"}
        again.run("CREATE STREAM u AS SELECT * FROM s;")
    finally:
        again.close()


@pytest.mark.parametrize("is_understood", [True, False])
def test_queries_of_commands_that_were_not_understood_are_kept(server: Server, is_understood: bool) -> None:
    server.run(
        "CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');"
        "CREATE STREAM u AS SELECT * FROM s;"
    )
    [query] = server.engine.state.queries.values()
    if not is_understood:
        write_commands(server, b'{"statement": "CREATE STREAM later BY MAGIC;", "version": 19}')
    server.close()
    host = InProcessHost(server.servers)
    host.add("CSAS_LATER_7", query.planned.app.topology())  # as restored from the checkpoint
    engine = Engine(server.config, host)
    engine.start()
    try:
        assert host.retained == ([{query.id}] if is_understood else [])
        assert host.states()[query.id].status.value == "RUNNING"
        if not is_understood:
            assert host.states()["CSAS_LATER_7"].status.value == "PAUSED"
    finally:
        engine.close()


def test_queries_outlive_a_command_topic_that_is_gone(server: Server) -> None:
    server.run(
        "CREATE STREAM s (v STRING) WITH (kafka_topic='s', partitions=1, value_format='json');"
        "CREATE STREAM u AS SELECT * FROM s;"
    )
    [query] = server.engine.state.queries.values()
    server.close()
    server.delete_topic(server.config.command_topic)
    host = InProcessHost(server.servers)
    host.add(query.id, query.planned.app.topology())  # as restored from the checkpoint
    engine = Engine(server.config, host)
    engine.start()
    try:
        assert not engine.state.queries
        assert host.retained == []
        assert host.states()[query.id].status.value == "PAUSED"
    finally:
        engine.close()


def test_nothing_is_served_before_the_start(servers: str, server: Server) -> None:
    engine = Engine(server.config, server.host)
    for ask in (engine.execute, engine.query, engine.print_topic):
        with pytest.raises(EngineError, match="not yet ready") as raised:
            ask("SHOW STREAMS;")
        assert raised.value.code is ErrorCode.SERVER_NOT_READY
    assert engine.info().server_status == "NOT_READY"


def test_statements_from_many_threads_are_all_there(server: Server) -> None:
    made = "CREATE STREAM s{0} (v STRING) WITH (kafka_topic='t{0}', partitions=1, value_format='json');"
    with ThreadPoolExecutor(8) as pool:
        numbers = list(
            pool.map(lambda number: server.one(made.format(number))["commandSequenceNumber"], range(24))
        )
    assert len(set(numbers)) == 24
    before = snapshot(server.engine)
    assert len(before["statuses"]) == 24  # type: ignore[arg-type]
    again = server.restarted()
    try:
        assert snapshot(again.engine) == before
    finally:
        again.close()


def test_lookups_go_on_while_tables_come_and_go(server: Server) -> None:
    """Meanwhile every query gets the right answer, or is refused because its table does not exist."""
    server.run("CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=2, format='json');")
    server.run(
        "CREATE TABLE c AS SELECT id, COUNT(*) AS n FROM s GROUP BY id; INSERT INTO s VALUES (1, 'a');"
    )
    server.becomes("SELECT * FROM c WHERE id = 1;", [(1, 1)])
    is_over = threading.Event()
    wrong: list[object] = []

    def look(table: str) -> None:
        while not is_over.wait(0.005):
            try:
                if (rows := server.rows(f"SELECT * FROM {table} WHERE id = 1;")) not in ([], [(1, 1)]):
                    wrong.append(rows)
            except EngineError as error:
                if table == "c":
                    wrong.append(error)

    threads = [threading.Thread(target=look, args=(table,)) for table in ("c", "c", "d")]
    for each in threads:
        each.start()
    for _ in range(5):
        server.run("CREATE TABLE d AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;")
        server.becomes("SELECT n FROM d WHERE id = 1;", [(1,)])
        server.run("DROP TABLE d DELETE TOPIC;")
    is_over.set()
    for each in threads:
        each.join(20)
    assert wrong == []
