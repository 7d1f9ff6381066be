"""The rate limit of pull queries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine_server import Server

from penstock.sql.engine import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import Values
from penstock.sql.engine.ground.requests import steps_of
from penstock.sql.engine.reading.pull_limits import PullLimits

S = "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=1, format='json');"


def test_so_many_a_second() -> None:
    now = [0.0]
    limits = PullLimits(Values(({"ksql.query.pull.max.qps": "2"},)), lambda: now[0])
    for _ in range(2):
        limits.enter()
    with pytest.raises(EngineError, match="Currently set to 2 qps") as raised:
        limits.enter()
    assert (raised.value.code, raised.value.code.http_status) == (ErrorCode.TOO_MANY_REQUESTS, 429)
    now[0] = 0.5
    limits.enter()
    with pytest.raises(EngineError):
        limits.enter()
    now[0] = 100.0  # unused permits do not add up
    for _ in range(2):
        limits.enter()
    with pytest.raises(EngineError):
        limits.enter()


def test_so_many_at_once(start: Callable[..., Server]) -> None:
    server = start(ksql_query_pull_max_concurrent_requests="1")
    server.run(
        f"{S} CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id; INSERT INTO s VALUES (1, 'a');"
    )
    server.becomes("SELECT * FROM t WHERE id = 1;", [(1, 1)])
    for text in ("SELECT * FROM t WHERE id = 1;", "SELECT * FROM s;"):
        first = server.engine.query(text)
        with pytest.raises(EngineError, match="Currently set to 1 maximum concurrent operations"):
            server.engine.query("SELECT * FROM t WHERE id = 1;")
        assert len(list(first.rows())) == 1
        assert server.rows("SELECT * FROM t WHERE id = 1;") == [(1, 1)]


def test_a_request_of_many_statements_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sql.engine.engine.STATEMENTS_MAX", 3)
    assert len(server.run("SHOW TYPES;" * 3)) == 3
    error = server.refused(f"{S} SHOW TYPES; SHOW TYPES; SHOW TYPES;", "found more than 3 statements in one")
    assert error.code is ErrorCode.BAD_REQUEST
    assert server.one("SHOW STREAMS;")["streams"] == []


def test_the_answer_to_a_request_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sql.engine.engine._ANSWERED_MAX", 1_000)
    error = server.refused(f"SHOW FUNCTIONS; {S}", "found an answer of [0-9]+ characters to the statements")
    assert (error.code, error.statement_text) == (ErrorCode.BAD_REQUEST, S)
    assert len(error.entities) == 1
    assert server.one("SHOW STREAMS;")["streams"] == [], "it was not carried out"


def test_variables_are_kept_once_for_all_statements() -> None:
    """Otherwise each of many statements after many variables would keep a copy of all of them."""
    text = "".join(f"DEFINE v{n}='{n}'; SHOW TYPES;" for n in range(9)) + "UNDEFINE v0; SHOW VARIABLES;"
    *others, last = steps_of(text, {}, {"v10": "ten"}, None)
    assert not any(each.variables for each in others)
    assert last.variables == {f"v{n}": str(n) for n in range(1, 9)} | {"v10": "ten"}
