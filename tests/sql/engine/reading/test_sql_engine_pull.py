"""Pull queries: tables by key, by range, by window and as a whole, and streams up to their current end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from engine_server import Server, eventually, new_topics
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.sql.analysis import analyze
from penstock.sql.engine import EngineError, ErrorCode
from penstock.sql.engine.reading.pull_query import PullQuery
from penstock.sql.engine.reading.results import Row
from penstock.sql.language.parsing.script import parse
from penstock.testing import Cluster
from penstock.views.replica import Replica

MINUTE_MS = 60_000
LAG_MAX = "ksql.query.pull.max.allowed.offset.lag"


@pytest.fixture(scope="module")
def server(penstock_cluster: Cluster) -> Iterator[Server]:
    """Twenty rows of four groups, a minute apart. The tests only read."""
    with new_topics(penstock_cluster.bootstrap_servers) as address:
        made = Server(address)
        _fill(made)
        yield made
        made.close()


def _fill(made: Server) -> None:
    made.run(
        "CREATE STREAM s (id INT KEY, g STRING, n INT)"
        " WITH (kafka_topic='s', partitions=3, format='json');"
        "CREATE TABLE counts AS SELECT g, COUNT(*) AS c, SUM(n) AS total FROM s GROUP BY g;"
        "CREATE TABLE pairs AS SELECT g, n % 2 AS odd, COUNT(*) AS c FROM s GROUP BY g, n % 2;"
        "CREATE TABLE large AS SELECT g, COUNT(*) AS c FROM s GROUP BY g HAVING SUM(n) > 45;"
        "CREATE TABLE tens AS SELECT g, COUNT(*) AS c FROM s WINDOW TUMBLING (SIZE 10 MINUTES) GROUP BY g;"
        "CREATE TABLE sessions AS SELECT g, COUNT(*) AS c FROM s WINDOW SESSION (5 MINUTES) GROUP BY g;"
    )
    for n in range(20):
        made.run(f"INSERT INTO s (rowtime, id, g, n) VALUES ({n * MINUTE_MS}, {n}, 'g{n % 4}', {n});")
    assert len(made.settled("SELECT * FROM counts WHERE c = 5;", 4)) == 4
    assert len(made.settled("SELECT * FROM pairs WHERE c = 5;", 4)) == 4
    assert len(made.settled("SELECT * FROM large;", 2)) == 2
    assert len(made.settled("SELECT * FROM tens WHERE c > 1;", 8)) == 8
    assert len(made.settled("SELECT * FROM sessions WHERE c = 5;", 4)) == 4


COUNTS = {f"g{n}": (f"g{n}", 5, 40 + 5 * n) for n in range(4)}
ALL = [COUNTS[key] for key in sorted(COUNTS)]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("", ALL),
        ("WHERE g = 'g2'", [COUNTS["g2"]]),
        ("WHERE 'g2' = g AND c > 5", []),
        ("WHERE g IN ('g1', 'g3', 'nothing', 'g1')", [COUNTS["g1"], COUNTS["g3"]]),
        ("WHERE g = 'g1' OR g = 'g2'", [COUNTS["g1"], COUNTS["g2"]]),
        ("WHERE g = 'g1' AND g = 'g2'", []),
        ("WHERE g = 'nothing'", []),
        ("WHERE g = CONCAT('g', '3')", [COUNTS["g3"]]),
        ("WHERE g = CAST(NULL AS STRING)", []),
        ("WHERE g > 'g1'", [COUNTS["g2"], COUNTS["g3"]]),
        ("WHERE g >= 'g1' AND g < 'g3'", [COUNTS["g1"], COUNTS["g2"]]),
        ("WHERE g BETWEEN 'g1' AND 'g2'", [COUNTS["g1"], COUNTS["g2"]]),
        ("WHERE g LIKE '%3'", [COUNTS["g3"]]),
        ("WHERE NOT g = 'g1'", [COUNTS["g0"], COUNTS["g2"], COUNTS["g3"]]),
        ("WHERE total > 46 OR g = 'g0'", [COUNTS["g0"], COUNTS["g2"], COUNTS["g3"]]),
        ("WHERE total + c = 50", [COUNTS["g1"]]),
    ],
)
def test_a_table_by_its_key_and_otherwise(server: Server, where: str, found: list[Any]) -> None:
    assert sorted(server.rows(f"SELECT * FROM counts {where};")) == found


def test_expressions_columns_and_limit(server: Server) -> None:
    result = server.engine.query("SELECT UCASE(g) AS up, c * 2 AS twice, rowtime FROM counts WHERE g = 'g1';")
    assert [(each.name, str(each.type), each.is_key) for each in result.columns] == [
        ("UP", "STRING", False),
        ("TWICE", "BIGINT", False),
        ("ROWTIME", "BIGINT", False),
    ]
    assert list(result.rows()) == [("G1", 10, 17 * MINUTE_MS)]
    assert (result.is_push, result.is_finished, result.limit_reached) == (False, True, False)
    limited = server.engine.query("SELECT * FROM counts LIMIT 3;")
    assert len(list(limited.rows())) == 3
    assert limited.limit_reached
    assert server.rows("SELECT * FROM counts LIMIT 0;") == []


def test_keys_of_several_columns(server: Server) -> None:
    assert server.rows("SELECT * FROM pairs WHERE g = 'g1' AND odd = 1;") == [("g1", 1, 5)]
    assert server.rows("SELECT * FROM pairs WHERE odd = 0 AND g IN ('g1', 'g2');") == [("g2", 0, 5)]
    assert sorted(server.rows("SELECT odd, g FROM pairs WHERE odd = 1;")) == [(1, "g1"), (1, "g3")]


def test_lists_for_several_columns_are_not_multiplied_without_bounds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.sql.engine.reading.pull_query.KEYS_MAX", 100)
    groups, numbers = ", ".join(f"'g{n}'" for n in range(1, 50)), ", ".join(map(str, range(1, 50)))
    asked = f"SELECT * FROM pairs WHERE g IN ({groups}) AND odd IN ({numbers})"
    assert sorted(server.rows(f"{asked};")) == [("g1", 1, 5), ("g3", 1, 5)]
    with pytest.raises(EngineError, match="missing key column"):
        server.rows(f"{asked};", {"ksql.query.pull.table.scan.enabled": "false"})


def test_having_holds_for_lookups_and_scans(server: Server) -> None:
    assert sorted(server.rows("SELECT g FROM large;")) == [("g2",), ("g3",)]
    assert server.rows("SELECT g FROM large WHERE g = 'g1';") == []
    assert server.rows("SELECT g FROM large WHERE g = 'g3';") == [("g3",)]


@pytest.mark.parametrize(
    ("where", "starts"),
    [
        ("", [0, 10]),
        ("AND windowstart = 600000", [10]),
        ("AND windowstart > 0", [10]),
        ("AND windowstart >= 0 AND windowstart < 600000", [0]),
        ("AND windowstart < 0", []),
        ("AND 600000 <= windowstart", [10]),
        ("AND windowend <= 600000", [0]),
        ("AND windowend > 600000", [10]),
        ("AND windowstart BETWEEN 0 AND 600000", [0, 10]),
        ("AND windowstart >= '1970-01-01T00:10:00'", [10]),
        ("AND windowstart = 5", []),
    ],
)
def test_windows_by_their_bounds(server: Server, where: str, starts: list[int]) -> None:
    rows = server.rows(f"SELECT * FROM tens WHERE g = 'g1' {where};")
    counts = {0: 3, 10: 2}
    wanted = [("g1", at * MINUTE_MS, (at + 10) * MINUTE_MS, counts[at]) for at in starts]
    assert sorted(rows) == wanted
    whole = server.rows(f"SELECT * FROM tens WHERE g <> '' {where};")
    assert sorted(row for row in whole if row[0] == "g1") == wanted


def test_sessions(server: Server) -> None:
    rows = server.rows("SELECT * FROM sessions WHERE g = 'g1';")
    assert rows == [("g1", MINUTE_MS, 17 * MINUTE_MS, 5)]
    assert server.rows("SELECT c, rowtime FROM sessions WHERE g = 'g1' AND windowstart > 0;") == [
        (5, 17 * MINUTE_MS)
    ]
    assert server.rows(f"SELECT c FROM sessions WHERE g = 'g1' AND windowstart > {MINUTE_MS};") == []
    assert len(server.rows(f"SELECT c FROM sessions WHERE windowend >= {17 * MINUTE_MS};")) == 3


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("g = 'a'", [("a",)]),
        ("g IN ('a', 'b') AND c > 1", [("a",), ("b",)]),
        ("(g = 'a' OR g = 'b')", [("a",), ("b",)]),
        ("g = 'a' OR c = 1", None),
        ("g <> 'a'", None),
        ("NOT (g = 'a')", None),
        ("g = UCASE(g)", None),
        ("c = 1", None),
    ],
)
def test_what_is_looked_up(server: Server, where: str, keys: list[tuple[str]] | None) -> None:
    """A lookup must not only give the right rows, it must also be used."""
    state = server.engine.state
    plan = analyze(parse(f"SELECT * FROM counts WHERE {where};"), state.catalog).plan
    assert plan is not None
    query = state.materialized_by("COUNTS")
    assert query is not None
    narrowed = PullQuery(plan, query, state.catalog, state.user_functions).narrowed
    assert narrowed.keys == (None if keys is None else tuple(keys))


def test_scans_can_be_forbidden(server: Server) -> None:
    off = {"ksql.query.pull.table.scan.enabled": "false"}
    assert server.rows("SELECT * FROM counts WHERE g = 'g1';", off) == [COUNTS["g1"]]
    with pytest.raises(EngineError, match="missing key column"):
        server.rows("SELECT * FROM counts WHERE c = 5;", off)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM nothing;", "NOTHING"),
        ("SELECT g, COUNT(*) FROM counts GROUP BY g;", "GROUP BY in a pull query"),
        ("SELECT rowoffset FROM counts;", "ROWOFFSET"),
        ("SELECT nothing FROM counts;", "NOTHING"),
        ("SELECT * FROM counts; SELECT * FROM counts;", "exactly one KSQL statement; found 2"),
        ("SHOW STREAMS;", "expected SELECT"),
    ],
)
def test_wrong_queries(server: Server, query: str, told: str) -> None:
    with pytest.raises(EngineError, match=told) as raised:
        server.rows(query)
    assert raised.value.code in (ErrorCode.BAD_STATEMENT, ErrorCode.BAD_REQUEST)


def test_a_table_whose_query_was_ended(start: Callable[..., Server]) -> None:
    server = start()
    server.run(
        "CREATE STREAM s (id INT KEY, g STRING) WITH (kafka_topic='s2', partitions=1, format='json');"
        "CREATE TABLE counts WITH (kafka_topic='c2') AS SELECT g, COUNT(*) AS c FROM s GROUP BY g;"
        "TERMINATE ALL;"
    )
    with pytest.raises(EngineError, match="found no running query that keeps its rows"):
        server.rows("SELECT * FROM counts;")


def test_variables_and_properties_stand_before_a_query(server: Server) -> None:
    off = "SET 'ksql.query.pull.table.scan.enabled' = 'false';"
    text = f"DEFINE which = 'g1'; {off} SELECT c FROM counts WHERE g = '${{which}}';"
    assert server.rows(text) == [(5,)]


# Lookups that differ in their keys alone


@pytest.mark.parametrize(
    ("like", "texts"),
    [
        (
            "SELECT * FROM counts WHERE g = 'g0';",
            ["SELECT * FROM counts WHERE g = 'g1';", "SELECT * FROM counts WHERE g = 'it''s -- \"no\"';"],
        ),
        (
            "SELECT c, UCASE(g) AS up FROM counts WHERE 'g0' = g AND c > 4 LIMIT 1",
            ["SELECT c, UCASE(g) AS up FROM counts WHERE 'g2' = g AND c > 4 LIMIT 1"],
        ),
        (
            "SELECT c FROM pairs WHERE odd = 0 AND g = 'g0';",
            [
                "SELECT c FROM pairs WHERE odd = 1 AND g = 'g1';",
                "SELECT c FROM pairs WHERE odd = 1 AND g = 'g0';",
            ],
        ),
        (
            f"SELECT * FROM tens WHERE g = 'g0' AND windowstart >= {10 * MINUTE_MS};",
            [f"SELECT * FROM tens WHERE g = 'g3' AND windowstart >= {10 * MINUTE_MS};"],
        ),
        ("SELECT g FROM large WHERE g = 'g0';", ["SELECT g FROM large WHERE g = 'g3';"]),
    ],
)
def test_a_lookup_is_not_analysed_twice(
    server: Server, monkeypatch: pytest.MonkeyPatch, like: str, texts: list[str]
) -> None:
    wanted = [
        server.rows(f"DEFINE x = 'y'; {text}") for text in texts
    ]  # a text with several statements is not cached
    server.rows(like)
    monkeypatch.setattr("penstock.sql.engine.reading.selector.analyze", None)
    assert [server.rows(text) for text in texts] == wanted


@pytest.mark.parametrize(
    ("like", "text", "found"),
    [
        (
            "SELECT * FROM counts WHERE g = 'g0' AND c = 5;",
            "SELECT * FROM counts WHERE g = 'g0' AND c = 6;",
            0,
        ),
        ("SELECT c FROM counts WHERE g = 'g0' LIMIT 1;", "SELECT c FROM counts WHERE g = 'g0' LIMIT 0;", 0),
        (
            "SELECT c FROM pairs WHERE odd = 0 AND g = 'a';",
            "SELECT c FROM pairs WHERE odd = 5000000000 AND g = 'a';",
            0,
        ),
        (
            "SELECT c FROM pairs WHERE odd = 0 AND g = 'a';",
            "SELECT c FROM pairs WHERE odd = -1 AND g = 'a';",
            0,
        ),
        ("SELECT 'g1' AS x FROM counts WHERE g = 'g1';", "SELECT 'g2' AS x FROM counts WHERE g = 'g2';", 1),
        (
            "SELECT * FROM counts WHERE g = 'g0' OR g = 'g1';",
            "SELECT * FROM counts WHERE g = 'g2' OR g = 'x';",
            1,
        ),
        (
            "SELECT * FROM counts /* ' */ WHERE g = 'g0';",
            "SELECT * FROM counts /* ' */ WHERE g = 'g1';",
            1,
        ),
        ("SELECT c AS \"'\" FROM counts WHERE g = 'g0';", "SELECT c AS \"'\" FROM counts WHERE g = 'g2';", 1),
        (
            "SELECT c FROM counts WHERE g = 'g0' -- '1'",
            "SELECT c FROM counts WHERE g = 'x' -- '\n OR g='g1'",
            1,
        ),
        (
            "SELECT c FROM pairs WHERE odd = 0 AND g = 'g0';",
            "SELECT c FROM pairs WHERE odd = 0.5 AND g = 'g0';",
            0,
        ),
        (
            "SELECT c FROM pairs WHERE odd = 0.5 AND g = 'g0';",
            "SELECT c FROM pairs WHERE odd = 0.5 AND g = 'g0';",
            0,
        ),
        (
            "SELECT c FROM pairs WHERE odd = 0. AND g = 'g0';",
            "SELECT c FROM pairs WHERE odd = 0. AND g = 'g0';",
            1,
        ),
    ],
)
def test_what_differs_elsewhere_is_analysed(server: Server, like: str, text: str, found: int) -> None:
    server.rows(like)
    rows = server.rows(text)
    assert len(rows) == found
    assert rows == server.rows(f"DEFINE x = 'y'; {text}")


def test_lookups_are_forgotten_with_their_table(start: Callable[..., Server]) -> None:
    server = start()
    made = "CREATE TABLE c AS SELECT g, COUNT(*) AS n{0} FROM s GROUP BY g;"
    server.run("CREATE STREAM s (id INT KEY, g STRING) WITH (kafka_topic='s3', partitions=1, format='json');")
    server.run(f"{made.format('')} INSERT INTO s VALUES (1, 'a');")
    server.becomes("SELECT * FROM c WHERE g = 'a';", [("a", 1)])
    server.run(f"DROP TABLE c DELETE TOPIC; {made.format(', MAX(id) AS most')}")
    server.becomes("SELECT * FROM c WHERE g = 'a';", [("a", 1, 1)])
    server.run("TERMINATE ALL;")
    with pytest.raises(EngineError, match="found no running query"):
        server.rows("SELECT * FROM c WHERE g = 'a';")


def test_a_lookup_that_takes_no_time_waits_for_nothing(server: Server) -> None:
    key, text = "SELECT c, g FROM counts WHERE g = '{}' LIMIT 1;", {}
    assert server.engine.query_now(key.format("g0")) is None, "nothing like it was asked before"
    for each in ("g0", "g1", "nothing"):
        text[each] = server.rows(key.format(each))
        told = server.engine.query_now(key.format(each))
        assert told is not None
        assert list(told.rows()) == text[each]
    assert text["g1"] != []
    assert text["nothing"] == []
    assert server.engine.query_now(key.format("g1"), {"ksql.query.pull.table.scan.enabled": "true"}) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT UCASE(g) FROM counts WHERE g = 'g0';",
        "SELECT g FROM counts WHERE g = 'g0' AND c > 0;",
        "SELECT * FROM tens WHERE g = 'g0';",
        "SELECT * FROM counts WHERE g > 'g0';",
        "SELECT id FROM s WHERE id = 1;",
    ],
)
def test_what_may_take_time_is_not_answered_at_once(server: Server, text: str) -> None:
    """The query computes something, has many rows, or waits for a lock."""
    server.rows(text)
    assert server.engine.query_now(text) is None


def test_how_far_behind_a_table_is_decides_whether_it_is_looked_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT c FROM counts WHERE g = 'g1';"
    found = server.rows(text)
    [status] = server.engine.cluster_status().values()
    [(name, lags)] = [
        each for each in status.host_store_lags.state_store_lags.items() if each[0].startswith("CTAS_COUNTS")
    ]
    query_id, store = name.split("#")
    kept = status.active_standby_per_query[query_id]
    assert kept.active_stores == (store,)
    assert [each.partition for each in kept.active_partitions] == sorted(lags.lag_by_partition)
    assert {each.offset_lag for each in lags.lag_by_partition.values()} == {0}
    assert sum(each.end_offset_position for each in lags.lag_by_partition.values()) > 0
    assert server.rows(text, {LAG_MAX: "0"}) == found
    monkeypatch.setattr(Replica, "lag", 3)
    with pytest.raises(EngineError, match="expected a lag of at most 2 records"):
        server.rows(text, {LAG_MAX: "2"})
    assert server.rows(text, {LAG_MAX: "3"}) == found
    assert server.rows(text) == found, "what one request asks for is not learnt for others"


def test_lookups_of_a_server_that_wants_them_fresh(
    start: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(**{LAG_MAX: "0"})
    server.run(
        "CREATE STREAM f (id INT KEY, g STRING) WITH (kafka_topic='f', partitions=1, format='json');"
        "CREATE TABLE n AS SELECT g, COUNT(*) AS c FROM f GROUP BY g; INSERT INTO f VALUES (1, 'a');"
    )
    text = "SELECT c FROM n WHERE g = 'a';"

    def found() -> list[Row]:
        try:
            return server.rows(text)
        except EngineError:
            return []  # the table is read up to an earlier offset

    assert eventually(found, lambda rows: rows == [(1,)]) == [(1,)]
    assert server.engine.query_now(text) is not None
    monkeypatch.setattr(Replica, "lag", 1)
    for ask in (server.engine.query, server.engine.query_now):
        with pytest.raises(EngineError, match="expected a lag of at most 0 records"):
            ask(text)


def test_ranges_where_tables_are_not_looked_through(start: Callable[..., Server]) -> None:
    server = start(**{"ksql.query.pull.table.scan.enabled": "false"})
    server.run(
        "CREATE STREAM o (id INT KEY, g STRING) WITH (kafka_topic='o', partitions=1, value_format='json');"
        "CREATE TABLE r AS SELECT id, COUNT(*) AS c FROM o GROUP BY id;"
        "INSERT INTO o VALUES (1, 'a'); INSERT INTO o VALUES (2, 'a'); INSERT INTO o VALUES (3, 'a');"
    )
    server.becomes("SELECT id FROM r WHERE id = 3;", [(3,)])
    assert server.rows("SELECT id FROM r WHERE id >= 2;") == [(2,), (3,)]
    off = {"ksql.query.pull.range.scan.enabled": "false"}
    for text, properties in (
        ("SELECT id FROM r WHERE id >= 2;", off),
        ("SELECT id FROM r WHERE id <> 2;", {}),
        ("SELECT id FROM r;", {}),
    ):
        with pytest.raises(EngineError, match="expected a condition on ID"):
            server.rows(text, properties)


# Streams


def test_a_stream_up_to_its_end(server: Server) -> None:
    assert sorted(server.rows("SELECT id FROM s WHERE g = 'g1' AND n < 10;")) == [(1,), (5,), (9,)]
    assert len(server.rows("SELECT * FROM s LIMIT 7;")) == 7
    assert len(server.rows("SELECT * FROM s;", {"auto.offset.reset": "latest"})) == 20
    for text in ("SELECT rowpartition, g FROM s;", "SELECT g FROM s WHERE rowoffset = 1;"):
        with pytest.raises(EngineError, match="in a pull query, expected a push query for it"):
            server.rows(text)  # ksqlDB refuses them, too


def test_an_empty_stream(start: Callable[..., Server]) -> None:
    server = start()
    server.run("CREATE STREAM e (v STRING) WITH (kafka_topic='e', partitions=2, value_format='json');")
    assert server.rows("SELECT * FROM e;") == []


# Source tables, and tables of tables


def test_a_source_table_is_looked_up_in_its_topic(start: Callable[..., Server]) -> None:
    server = start()
    columns = "(id INT PRIMARY KEY, v STRING, told BIGINT)"
    server.run(
        f"CREATE TABLE t {columns} WITH (kafka_topic='t', partitions=2, format='json');"
        f"CREATE SOURCE TABLE r {columns} WITH (kafka_topic='t', format='json', timestamp='told');"
    )
    [query] = server.one("SHOW QUERIES")["queries"]
    assert query["id"].startswith("CST_R_")
    assert server.host.added == [], "nothing has to run for it"
    with pytest.raises(EngineError, match="pull query of the table T"):
        server.rows("SELECT * FROM t;")
    for n in range(6):
        server.run(f"INSERT INTO t VALUES ({n % 3}, 'v{n}', {n});")
    server.becomes("SELECT * FROM r;", [(n, f"v{n + 3}", n + 3) for n in range(3)])
    assert server.rows("SELECT v, rowtime FROM r WHERE id = 1;") == [("v4", 4)]
    again = server.restarted()
    try:
        again.becomes("SELECT v FROM r WHERE id = 2;", [("v5",)])
        again.run("DROP TABLE r;")
        assert again.one("SHOW QUERIES")["queries"] == []
    finally:
        again.close()


def test_a_source_table_creates_its_topic(start: Callable[..., Server]) -> None:
    server = start()
    server.run(
        "CREATE SOURCE TABLE r (id INT PRIMARY KEY, v STRING)"
        " WITH (kafka_topic='r', value_format='json', partitions=3);"
        "CREATE SOURCE TABLE keys (id INT PRIMARY KEY)"
        " WITH (kafka_topic='keys', value_format='json', partitions=1);"
    )
    assert {"r", "keys"} <= server.topics()
    producer = Producer({"bootstrap.servers": server.servers})
    producer.produce("r", b'{"V": "x"}', (7).to_bytes(4, "big"))
    producer.produce("keys", b"{}", (8).to_bytes(4, "big"))
    assert producer.flush(20) == 0
    server.becomes("SELECT * FROM r;", [(7, "x")])
    server.becomes("SELECT * FROM keys;", [(8,)])


@pytest.mark.parametrize("windows", ["", ", window_type='tumbling', window_size='1 MINUTES'"])
def test_a_source_table_skips_keys_that_cannot_be_read(start: Callable[..., Server], windows: str) -> None:
    server = start()
    server.run(
        "CREATE SOURCE TABLE r (id INT PRIMARY KEY, v STRING)"
        f" WITH (kafka_topic='r', value_format='json', partitions=1{windows});"
    )
    producer = Producer({"bootstrap.servers": server.servers})
    window = MINUTE_MS.to_bytes(8, "big") if windows else b""
    for key in (b"\1", (7).to_bytes(4, "big") + window, b"five!" + window):
        producer.produce("r", b'{"V": "x"}', key)
    assert producer.flush(20) == 0
    eventually(lambda: server.rows("SELECT id, v FROM r;"), bool)
    assert server.rows("SELECT id, v FROM r;") == [(7, "x")]
    assert server.rows("SELECT id, v FROM r WHERE id = 7;") == [(7, "x")]
    assert server.rows("SELECT id, v FROM r WHERE id >= 1;") == [(7, "x")]


def test_a_source_table_of_windows(start: Callable[..., Server]) -> None:
    server = start()
    server.run(
        "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s4', partitions=2, format='json');"
        "CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id;"
        "CREATE SOURCE TABLE r (id INT PRIMARY KEY, n BIGINT)"
        " WITH (kafka_topic='W', format='json', window_type='tumbling', window_size='1 MINUTES');"
    )
    for n in range(6):
        server.run(f"INSERT INTO s (rowtime, id) VALUES ({n * MINUTE_MS // 2}, {n % 2});")
    rows = [(1, at * MINUTE_MS, (at + 1) * MINUTE_MS, 1) for at in range(3)]
    server.becomes("SELECT * FROM r WHERE id = 1;", rows)
    assert server.rows("SELECT * FROM r WHERE id = 7;") == []
    assert server.rows(f"SELECT n FROM r WHERE id = 1 AND windowstart = {MINUTE_MS};") == [(1,)]


def test_a_table_of_a_table(start: Callable[..., Server]) -> None:
    server = start()
    server.run(
        "CREATE TABLE t (a INT PRIMARY KEY, v STRING) WITH (kafka_topic='t', partitions=2, format='json');"
        "CREATE TABLE q AS SELECT UCASE(v) AS up, a FROM t WHERE a > 1;"
    )
    for n in range(4):
        server.run(f"INSERT INTO t VALUES ({n}, 'v{n}');")
    server.becomes("SELECT a, up FROM q;", [(2, "V2"), (3, "V3")])
    assert server.rows("SELECT * FROM q WHERE a = 3;") == [(3, "V3")]
    assert server.rows("SELECT * FROM q WHERE a = 1;") == []


# Any WHERE clause

_GROUPS = st.sampled_from(["'g0'", "'g1'", "'g3'", "'zz'", "CONCAT('g', '2')"])
_OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_TIMES = st.integers(-1, 3).map(lambda tens: str(tens * 10 * MINUTE_MS))
_BOUNDS = st.sampled_from(["windowstart", "windowend"])
_ATOMS = st.one_of(
    st.tuples(st.just("g"), _OPERATORS, _GROUPS).map(" ".join),
    st.tuples(_GROUPS, _OPERATORS, st.just("g")).map(" ".join),
    st.lists(_GROUPS, min_size=1, max_size=3).map(lambda each: f"g IN ({', '.join(each)})"),
    st.tuples(_BOUNDS, _OPERATORS, _TIMES).map(" ".join),
    st.tuples(_TIMES, _OPERATORS, _BOUNDS).map(" ".join),
    st.tuples(_BOUNDS, _TIMES, _TIMES).map(lambda each: f"{each[0]} BETWEEN {each[1]} AND {each[2]}"),
    st.tuples(st.just("c"), _OPERATORS, st.sampled_from(["1", "2", "3"])).map(" ".join),
)
_CONDITIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map(lambda each: f"({''.join(each)})"),
        inner.map(lambda each: f"NOT ({each})"),
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("table", ["tens", "sessions"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=_CONDITIONS)
def test_narrowing_loses_no_row(server: Server, table: str, condition: str) -> None:
    """Compare rows that are looked up by keys and windows with rows of a full scan.

    An expression hides the key in the second query.
    """
    hidden = condition.replace("g ", "CONCAT(g, '') ").replace(" g", " CONCAT(g, '')")
    for bound in ("windowstart", "windowend"):
        hidden = hidden.replace(bound, f"({bound} + 0)")
    found = server.rows(f"SELECT * FROM {table} WHERE {condition};")
    assert sorted(found) == sorted(server.rows(f"SELECT * FROM {table} WHERE {hidden};"))


# Ranges of keys

_KEYS = sorted({-70_000, -300, -129, -128, -33, -32, -1, 0, 1, 127, 128, 255, 256, 65_535, 65_536, 2_000_000})
_TEXTS = sorted({"", "a", "aa", "b" * 40, "ba", "é", "z", "\U0001f600", "\uffee"})


@pytest.fixture(scope="module")
def ranges(penstock_cluster: Cluster) -> Iterator[Server]:
    with new_topics(penstock_cluster.bootstrap_servers) as address:
        made = Server(address)
        made.run(
            "CREATE TABLE ints (k INT PRIMARY KEY, v INT)"
            " WITH (kafka_topic='ints', partitions=2, key_format='kafka', value_format='json');"
            "CREATE TABLE texts (k STRING PRIMARY KEY, v INT)"
            " WITH (kafka_topic='texts', partitions=2, key_format='kafka', value_format='json');"
            "CREATE TABLE int_rows AS SELECT * FROM ints; CREATE TABLE text_rows AS SELECT * FROM texts;"
            "CREATE STREAM int_stream (k INT KEY, v INT)"
            " WITH (kafka_topic='ints', key_format='kafka', value_format='json');"
            "CREATE TABLE int_groups AS SELECT v, COUNT(*) AS n FROM int_stream GROUP BY v;"
        )
        for key in _KEYS:
            made.run(f"INSERT INTO ints VALUES ({key}, {key});")
        for key in _TEXTS:
            made.run(f"INSERT INTO texts VALUES ('{key}', 1);")
        for table, count in (
            ("int_rows", len(_KEYS)),
            ("int_groups", len(_KEYS)),
            ("text_rows", len(_TEXTS)),
        ):
            assert len(made.settled(f"SELECT * FROM {table};", count)) == count
        yield made
        made.close()


def walked(server: Server, table: str, text: str) -> list[Any]:
    """The keys of the rows that a query reads."""
    state = server.engine.state
    plan = analyze(parse(text), state.catalog, text, 0).plan
    query = state.materialized_by(table)
    assert plan is not None
    assert query is not None
    views = server.engine._runner.views(query)
    assert views is not None
    pull = PullQuery(plan, query, state.catalog, state.user_functions)
    return [entry.key[0] for entry in pull._entries(views.store(pull._store))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([("INT_ROWS", "k"), ("INT_GROUPS", "v")]),
    st.sampled_from(_KEYS),
    st.sampled_from(_KEYS),
    st.sampled_from(["k > {0}", "k >= {0} AND {1} > k", "k < {1}", "k BETWEEN {0} AND {1}", "{0} < k"]),
)
def test_ranges_of_integers(
    ranges: Server, table: tuple[str, str], first: int, last: int, where: str
) -> None:
    name, column = table
    condition = where.format(first, last)
    text = f"SELECT * FROM {name} WHERE {condition.replace('k', column)};"
    python = {"k BETWEEN {0} AND {1}": f"{first} <= k <= {last}"}.get(where, condition.replace("AND", "and"))
    wanted = [k for k in _KEYS if eval(python, {"k": k})]
    assert sorted(row[0] for row in ranges.rows(text)) == wanted
    if first >= 0 and "{0}" in where:
        assert {k for k in walked(ranges, name, text) if k >= 0} <= {*wanted, first, last}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(_TEXTS), st.sampled_from(_TEXTS))
def test_ranges_of_texts(ranges: Server, first: str, last: str) -> None:
    text = f"SELECT * FROM text_rows WHERE k >= '{first}' AND k < '{last}';"
    low, high = first.encode("utf-16-be"), last.encode("utf-16-be")
    wanted = [k for k in _TEXTS if low <= k.encode("utf-16-be") < high]
    assert sorted(row[0] for row in ranges.rows(text)) == wanted
    if max(first + last, default="") < "\ud800":
        assert set(walked(ranges, "TEXT_ROWS", text)) <= {*wanted, last}
