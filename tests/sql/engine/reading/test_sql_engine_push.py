"""Push queries: rows are sent as they arrive, until the client stops reading."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import uuid4

import pytest
from engine_server import Server, eventually, taken

from penstock.sql.engine import EngineConfig, EngineError, ErrorCode
from penstock.sql.engine.reading.local_tasks import LocalTasks
from penstock.sql.engine.reading.results import Tombstone

S = "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=2, format='json');"
T = "CREATE TABLE t (id INT PRIMARY KEY, w STRING) WITH (kafka_topic='t', partitions=2, format='json');"
LATEST = {"auto.offset.reset": "latest"}


def test_a_stream_from_its_end(start: Callable[..., Server]) -> None:
    server = start()
    server.run(f"{S} INSERT INTO s VALUES (1, 'before');")
    result = server.engine.query("SELECT v, UCASE(v) AS up FROM s WHERE id > 1 EMIT CHANGES;", LATEST)
    assert result.is_push
    assert [each.name for each in result.columns] == ["V", "UP"]
    server.run("INSERT INTO s VALUES (1, 'not this');")
    for n in (2, 3):
        server.run(f"INSERT INTO s VALUES ({n}, 'v{n}');")
        assert taken(result, 1) == [(f"v{n}", f"V{n}")]
    assert list(result.rows(timeout_s=0.05)) == []
    assert not result.is_finished
    result.close()
    assert result.is_finished
    assert list(result.rows()) == []


def test_a_stream_from_its_beginning_with_a_limit(server: Server) -> None:
    server.run(f"{S} INSERT INTO s VALUES (1, 'a'); INSERT INTO s VALUES (2, 'b');")
    result = server.engine.query("SELECT * FROM s EMIT CHANGES LIMIT 3;")
    assert sorted(taken(result, 2)) == [(1, "a"), (2, "b")]
    assert not result.limit_reached
    server.run("INSERT INTO s VALUES (3, 'c'); INSERT INTO s VALUES (4, 'd');")
    assert len(list(result.rows())) == 1
    assert result.limit_reached
    assert result.is_finished
    assert server.one("SHOW QUERIES")["queries"] == []


def test_streams_begin_at_their_end_and_tables_at_their_beginning_unless_told(servers: str) -> None:
    """The defaults are those of ksqlDB if `auto.offset.reset` is not set."""
    server = Server.of(EngineConfig(servers, f"{uuid4().hex}_"))
    try:
        server.run(f"{S} {T} INSERT INTO s VALUES (1, 'a'); INSERT INTO t VALUES (1, 'a');")
        stream = server.engine.query("SELECT * FROM s EMIT CHANGES;")
        table = server.engine.query("SELECT * FROM t EMIT CHANGES;")
        server.run("INSERT INTO s VALUES (2, 'b'); INSERT INTO t VALUES (2, 'b');")
        assert taken(stream, 1) == [(2, "b")]
        assert taken(table, 2) == [(1, "a"), (2, "b")]
    finally:
        server.close()


def test_a_table_tells_what_is_deleted(server: Server) -> None:
    server.run(f"{S} CREATE TABLE c AS SELECT id, COUNT(*) AS n FROM s GROUP BY id HAVING COUNT(*) < 2;")
    result = server.engine.query("SELECT n, id FROM c EMIT CHANGES;")
    server.run("INSERT INTO s VALUES (1, 'a'); INSERT INTO s VALUES (1, 'b');")
    first, second = taken(result, 2)
    assert (first, type(first)) == ((1, 1), tuple)
    assert isinstance(second, Tombstone)
    assert [each.name for each in result.columns] == ["N", "ID"]
    assert tuple(second) == (None, 1)


def test_windows(server: Server) -> None:
    server.run(
        f"{S} CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id;"
    )
    result = server.engine.query("SELECT * FROM w EMIT CHANGES;")
    server.run("INSERT INTO s (rowtime, id) VALUES (500, 1); INSERT INTO s (rowtime, id) VALUES (1500, 1);")
    assert taken(result, 2) == [(1, 0, 1000, 1), (1, 1000, 2000, 1)]


def test_groups_are_counted_for_one_reader(server: Server) -> None:
    server.run(S)
    result = server.engine.query("SELECT v, COUNT(*) AS n FROM s GROUP BY v EMIT CHANGES;")
    other = server.engine.query("SELECT COUNT(*) AS n, v FROM s GROUP BY v EMIT CHANGES;")
    for n, text in enumerate("abca"):
        server.run(f"INSERT INTO s VALUES ({n}, '{text}');")
    assert sorted(taken(result, 4)) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    assert sorted(taken(other, 4)) == [(1, "a"), (1, "b"), (1, "c"), (2, "a")]
    assert server.host.added == []


def test_final_windows(server: Server) -> None:
    server.run(S)
    text = (
        "SELECT v, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS)"
        " GROUP BY v EMIT FINAL;"
    )
    result = server.engine.query(text)
    for at in (100, 200, 5000):
        server.run(f"INSERT INTO s (rowtime, id, v) VALUES ({at}, 1, 'a');")
    assert taken(result, 1) == [("a", 2)]


def test_joins(server: Server) -> None:
    server.run(f"{S} {T} INSERT INTO t VALUES (1, 'one'); INSERT INTO t VALUES (2, 'two');")
    inner = server.engine.query("SELECT s.id, v, w FROM s JOIN t ON s.id = t.id EMIT CHANGES;")
    left = server.engine.query("SELECT s.id, v, w FROM s LEFT JOIN t ON s.id = t.id EMIT CHANGES;")
    server.run("INSERT INTO s VALUES (1, 'a'); INSERT INTO s VALUES (3, 'c'); INSERT INTO s VALUES (2, 'b');")
    assert sorted(taken(inner, 2)) == [(1, "a", "one"), (2, "b", "two")]
    assert sorted(taken(left, 3), key=repr) == [(1, "a", "one"), (2, "b", "two"), (3, "c", None)]


def test_partition_by_and_table_functions(server: Server) -> None:
    server.run(
        "CREATE STREAM a (k STRING KEY, xs ARRAY<INT>) WITH (kafka_topic='a', partitions=2, format='json');"
    )
    result = server.engine.query("SELECT k, EXPLODE(xs) AS x FROM a PARTITION BY UCASE(k) EMIT CHANGES;")
    server.run("INSERT INTO a VALUES ('k', ARRAY[1, 2]);")
    assert [row[-1] for row in taken(result, 2)] == [1, 2]


def test_readers_are_listed_and_ended(server: Server) -> None:
    server.run(S)
    text = "SELECT * FROM s EMIT CHANGES;"
    result, other = server.engine.query(text), server.engine.query(text)
    listed = server.one("SHOW QUERIES")["queries"]
    assert [(each["id"], each["queryType"], each["queryString"]) for each in listed] == [
        (result.query_id, "PUSH", text),
        (other.query_id, "PUSH", text),
    ]
    ended = threading.Event()

    def read() -> None:
        assert list(result.rows()) == []
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    told = server.one(f"TERMINATE {result.query_id};".replace(result.query_id, f"`{result.query_id}`"))
    assert (told["@type"], told["wasTerminated"]) == ("terminate_query", True)
    assert ended.wait(60)
    thread.join()
    assert server.engine.close_query(other.query_id)
    assert not server.engine.close_query(other.query_id)
    assert other.is_finished
    assert server.one("SHOW QUERIES")["queries"] == []


def test_a_limit_of_readers(start: Callable[..., Server]) -> None:
    server = start(ksql_max_push_queries="2")
    server.run(S)
    text = "SELECT * FROM s EMIT CHANGES;"
    first, _ = server.engine.query(text), server.engine.query(text)
    with pytest.raises(EngineError, match="Maximum push query limit of 2") as raised:
        server.engine.query(text)
    assert raised.value.code is ErrorCode.MAX_PUSH_QUERIES_EXCEEDED
    first.close()
    server.engine.query(text).close()


def test_readers_end_with_the_server(server: Server) -> None:
    server.run(S)
    result = server.engine.query("SELECT * FROM s EMIT CHANGES;")
    server.close()
    assert result.is_finished
    assert list(result.rows()) == []


def test_a_reader_that_is_behind_loses_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sql.engine.reading.results.QUEUED_ROWS_MAX", 3)
    server.run(S)
    result = server.engine.query("SELECT id FROM s EMIT CHANGES;")
    for n in range(30):
        server.run(f"INSERT INTO s VALUES ({n}, 'v');")
    assert sorted(taken(result, 30)) == [(n,) for n in range(30)]
    stuck = server.engine.query("SELECT id FROM s EMIT CHANGES;")
    assert eventually(lambda: stuck.queued, lambda size: size >= 3) < 30  # type: ignore[attr-defined]
    stuck.close()


def test_records_that_are_no_rows_are_passed_over(server: Server) -> None:
    server.run(f"{S} CREATE STREAM raw (v STRING) WITH (kafka_topic='s', value_format='KAFKA');")
    server.run("INSERT INTO raw VALUES ('no JSON'); INSERT INTO s VALUES (1, 'a');")
    assert server.rows("SELECT * FROM s;") == [(1, "a")]
    assert taken(server.engine.query("SELECT * FROM s EMIT CHANGES;"), 1) == [(1, "a")]


@pytest.mark.parametrize("text", ["SELECT * FROM s EMIT CHANGES;", "SELECT * FROM s;"])
def test_a_record_that_is_no_row_ends_a_query_that_is_to_fail(server: Server, text: str) -> None:
    server.run(f"{S} CREATE STREAM raw (v STRING) WITH (kafka_topic='s', value_format='KAFKA');")
    server.run("INSERT INTO s VALUES (1, 'a'); INSERT INTO raw VALUES ('no JSON');")
    strict = {"ksql.fail.on.deserialization.error": "true"}
    with pytest.raises(EngineError, match=r"Unable to execute the query: .* s-\d at offset \d"):
        list(server.engine.query(text, strict).rows(timeout_s=20))


def test_a_topic_that_is_gone(server: Server) -> None:
    server.run(S)
    server.delete_topic("s")
    with pytest.raises(EngineError, match="topic 's' does not exist"):
        server.engine.query("SELECT * FROM s EMIT CHANGES;")


def test_a_reader_hears_what_ends_its_query(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: LocalTasks, chunk: object, start: int, stop: int) -> None:
        raise RuntimeError("no more")

    server.run(S)
    result = server.engine.query("SELECT * FROM s EMIT CHANGES;")
    monkeypatch.setattr(LocalTasks, "process_chunk", fails)
    server.run("INSERT INTO s VALUES (1, 'a');")
    with pytest.raises(EngineError, match="Unable to execute the query: no more") as raised:
        list(result.rows())
    assert raised.value.code is ErrorCode.SERVER_ERROR
    assert result.is_finished
    assert server.one("SHOW QUERIES")["queries"] == []
