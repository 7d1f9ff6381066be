"""The sink for SQL databases: rows, keys, tables that grow, bad records, and offsets in the database."""

import os
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sql_databases import SqlDatabase, databases, opened

from long_run import repetitions
from penstock.connect import (
    ConfigInvalid,
    ConnectError,
    SinkRecord,
    SinkTaskTest,
    SourceTaskTest,
    TopicPartition,
)
from penstock.connect.connector.connector import parsed
from penstock.connect.connectors.sql.connecting import Database
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.connectors.sql.sink import SqlSinkConnector, SqlSinkTask
from penstock.connect.connectors.sql.sink.definition import SinkSettings
from penstock.connect.connectors.sql.sink.writing import Writer
from penstock.connect.connectors.sql.source import SqlSourceTask
from penstock.connect.connectors.sql.source.tables import tables_text
from penstock.connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from penstock.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
)
from penstock.connect.data.struct import Struct
from waiting import wait_until

TEA = Schema.struct({"id": INT64, "name": OPTIONAL_STRING})
KEY = Schema.struct({"id": INT64})
UPSERTS = {"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true"}
EXAMPLES = Path(__file__).parents[4] / "examples" / "connectors"
TOLERANT = {"errors.tolerance": "all"}


@pytest.fixture(scope="module", params=databases("sqlite", "postgresql"))
def database(request: pytest.FixtureRequest) -> Iterator[SqlDatabase]:
    with opened(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def sqlite() -> Iterator[SqlDatabase]:
    with opened("sqlite") as found:
        yield found


def sink(database: SqlDatabase, config: Mapping[str, str], **more: Any) -> SinkTaskTest:
    properties = {"name": "sink", "connection.url": database.url, "connection.attempts": "1", **config}
    return SinkTaskTest(SqlSinkTask(), properties, **more)


def tea(number: int, name: str | None = "tea") -> Struct:
    return Struct(TEA, {"id": number, "name": name})


def add(
    test: SinkTaskTest, topic: str, number: int, name: str | None = "tea", *, deletes: bool = False
) -> None:
    value = None if deletes else tea(number, name)
    schema = None if deletes else TEA
    test.add(topic, value, schema=schema, key=Struct(KEY, {"id": number}), key_schema=KEY)


def test_each_type_is_stored_in_a_table_that_the_sink_creates(database: SqlDatabase) -> None:
    values: dict[str, tuple[Schema, Any]] = {
        "a": (INT8, -128),
        "b": (INT16, 1 << 14),
        "c": (INT32, -(1 << 31)),
        "d": (INT64, (1 << 63) - 1),
        "e": (FLOAT32, 0.5),
        "f": (FLOAT64, 1e300),
        "g": (BOOLEAN, True),
        "h": (STRING, "tea 茶 'quoted' 100%"),
        "i": (BYTES, b"\x00\xff"),
        "j": (decimal_schema(2), Decimal("12345.67")),
        "k": (date_schema(), date(2024, 2, 29)),
        "l": (time_schema(), time(23, 59, 59, 123_000)),
        "m": (timestamp_schema(), datetime(2024, 2, 29, 12, 0, 0, 5_000, tzinfo=UTC)),
        "n": (Schema.map(STRING, INT32), {"x": 1}),
        "o": (OPTIONAL_STRING, None),
    }
    schema = Schema.struct({name: each for name, (each, _) in values.items()})
    table = database.new_name
    with sink(database, {"auto.create": "true", "db.timezone": "Europe/Helsinki"}) as test:
        for _ in range(2):
            test.add(
                table, Struct(schema, {name: value for name, (_, value) in values.items()}), schema=schema
            )
        test.step()
    one, two = database.rows(f"SELECT * FROM {table}")
    assert one == two
    found = dict(zip(values, one, strict=True))
    assert [found[each] for each in "abcdefhio"] == [values[each][1] for each in "abcdefhio"]
    assert bool(found["g"])
    assert Decimal(str(found["j"])) == Decimal("12345.67")
    assert str(found["k"]) == "2024-02-29"
    assert "23:59:59.123" in str(found["l"])
    assert str(found["m"]).startswith("2024-02-29 14:00:00.005"), "the time in the zone of the database"
    assert str(found["n"]).replace(" ", "").replace("'", '"') == '{"x":1}'


@pytest.mark.longer
def test_upserts_and_deletes_leave_the_last_row_of_each_key(database: SqlDatabase) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    table = database.new_name
    expected: dict[int, str | None] = {}
    config = {**UPSERTS, "delete.enabled": "true", "batch.size": "7"}
    with sink(database, config) as test:
        add(test, table, 0)
        expected[0] = "tea"
        for step in range(repetitions("PENSTOCK_STEPS", 5, 40)):
            for _ in range(chance.randrange(1, 40)):
                key = chance.randrange(15)
                if chance.random() < 0.3:
                    add(test, table, key, deletes=True)
                    expected.pop(key, None)
                else:
                    name = chance.choice([None, f"{step}-{chance.randrange(99)}"])
                    add(test, table, key, name)
                    expected[key] = name
            test.step()
            assert dict(database.rows(f"SELECT id, name FROM {table}")) == expected


def test_texts_that_are_one_key_to_the_database_keep_their_order(database: SqlDatabase) -> None:
    table = database.new_name
    with sink(database, {**UPSERTS, "delete.enabled": "true", "pk.fields": "code"}) as test:
        value = Schema.struct({"n": INT64})
        for number, code in enumerate(("a", "A", "a")):
            test.add(table, Struct(value, {"n": number}), schema=value, key=code, key_schema=STRING)
        test.add(table, None, key="A", key_schema=STRING)
        test.step()
    found = database.rows(f"SELECT code, n FROM {table}")
    assert found == ([] if database.kind == "mariadb" else [("a", 2)])


def test_texts_that_differ_in_spaces_only_keep_their_order(database: SqlDatabase) -> None:
    table = database.new_name
    database.run(f"CREATE TABLE {table} (code CHAR(3) PRIMARY KEY, n BIGINT)")
    with sink(database, {**UPSERTS, "delete.enabled": "true", "pk.fields": "code"}) as test:
        value = Schema.struct({"n": INT64})
        test.add(table, Struct(value, {"n": 1}), schema=value, key="a", key_schema=STRING)
        test.add(table, None, key="a ", key_schema=STRING)
        test.step()
    are_different = database.kind in ("sqlite", "duckdb")
    assert len(database.rows(f"SELECT * FROM {table}")) == are_different


def test_updates_change_only_rows_that_exist(database: SqlDatabase) -> None:
    table = database.new_name
    database.run(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR(20), other INTEGER)")
    database.run(f"INSERT INTO {table} VALUES (1, 'tea', 7), (2, 'milk', 8)")
    with sink(database, {"insert.mode": "update", "pk.mode": "record_value", "pk.fields": "id"}) as test:
        for number in (1, 3):
            test.add(table, tea(number, "coffee"), schema=TEA)
        test.step()
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == [(1, "coffee", 7), (2, "milk", 8)]


def test_coordinates_of_kafka_are_a_key(database: SqlDatabase) -> None:
    table = database.new_name
    config = {"insert.mode": "upsert", "pk.mode": "kafka", "auto.create": "true"}
    with sink(database, config) as test:
        test.put(table, tea(5), schema=TEA)
        test.restart(SqlSinkTask())
        test.step()
    assert database.rows(f"SELECT * FROM {table}") == [(table, 0, 0, 5, "tea")]


def test_new_fields_become_columns(database: SqlDatabase) -> None:
    table = database.new_name
    more = Schema.struct(
        {
            **{each.name: each.schema for each in TEA.fields},
            "stock": OPTIONAL_INT64,
            "shop": Schema(STRING.type, default="it's here"),
        }
    )
    with sink(database, {**UPSERTS, "auto.evolve": "true"}) as test:
        add(test, table, 1)
        add(test, table, 2)
        test.step()
        value = Struct(more, {"id": 2, "name": None, "stock": 7})
        test.put(table, value, schema=more, key=Struct(KEY, {"id": 2}), key_schema=KEY)
        add(test, table, 3)
        test.step()
    assert database.rows(f"SELECT id, name, stock, shop FROM {table} ORDER BY id") == [
        (1, "tea", None, "it's here"),
        (2, None, 7, "it's here"),
        (3, "tea", None, "it's here"),
    ]


def test_a_bad_row_is_reported_and_all_others_are_written(database: SqlDatabase) -> None:
    table = database.new_name
    database.run(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL)")
    with sink(database, TOLERANT) as test:
        for number in range(50):
            test.add(table, tea(number, None if number in (7, 30, 31) else "tea"), schema=TEA)
        test.add(table, "no struct", schema=STRING)
        test.add(table, None)
        test.step()
        assert [each.value["id"] for each in test.failed if isinstance(each.value, Struct)] == [7, 30, 31]
        assert len(test.failed) == 5
        test.commit()
        assert test.committed(table) == 52
    found = [row[0] for row in database.rows(f"SELECT id FROM {table} ORDER BY id")]
    assert found == [number for number in range(50) if number not in (7, 30, 31)]


def test_a_bad_row_that_is_not_tolerated_fails_the_task(database: SqlDatabase) -> None:
    table = database.new_name
    database.run(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL)")
    with sink(database, {}) as test:
        for number in range(9):
            test.add(table, tea(number, None if number == 4 else "tea"), schema=TEA)
        with pytest.raises(ConnectError, match="Tolerance exceeded"):
            test.step()


def test_without_a_topic_of_dead_letters_nothing_of_a_bad_batch_is_written(database: SqlDatabase) -> None:
    table = database.new_name
    database.run(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL)")
    config = {
        "connection.url": database.url,
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
    }
    settings = SinkSettings.of(parsed(SqlSinkTask.definition, config))
    own = Database(settings.database)
    names = ["tea"] * 9
    writer = Writer(settings, own)
    for bad in (0, 4, 8):
        values = [tea(number, None if number == bad else name) for number, name in enumerate(names)]
        with pytest.raises(ConnectError, match=f"the record of {table}-0 at offset {bad} cannot be written"):
            writer.write([record(table, number, value) for number, value in enumerate(values)], None)
        assert database.rows(f"SELECT * FROM {table}") == []
    writer.write([record(table, number, tea(number)) for number in range(9)], None)
    own.close()
    assert len(database.rows(f"SELECT * FROM {table}")) == 9


def record(topic: str, offset: int, value: Struct) -> SinkRecord:
    return SinkRecord(
        topic=topic,
        partition=0,
        offset=offset,
        value=value,
        value_schema=TEA,
        original_topic=topic,
        original_partition=0,
        original_offset=offset,
    )


def test_a_table_that_was_dropped_is_created_again(database: SqlDatabase) -> None:
    table = database.new_name
    with sink(database, {"auto.create": "true", **TOLERANT}) as test:
        test.put(table, tea(1), schema=TEA)
        database.run(f"DROP TABLE {table}")
        test.put(table, tea(2), schema=TEA)
        test.put(table, tea(3), schema=TEA)
        assert test.failed == []
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(2,), (3,)]


def test_topics_that_differ_in_case_only_have_their_own_offsets(database: SqlDatabase) -> None:
    table, offsets = database.new_name, database.new_name
    topics = ("orders", "Orders")
    config = {
        "auto.create": "true",
        "offsets.table.name": offsets,
        "topics.to.tables.mapping": ",".join(f"{topic}:{table}" for topic in topics),
    }
    with sink(database, config) as test:
        for number, topic in enumerate((*topics, topics[0])):
            test.add(topic, tea(number), schema=TEA)
        test.step()
        assert not test.must_redeliver
    assert sorted(database.rows(f"SELECT kafka_topic, next_offset FROM {offsets}")) == [
        ("Orders", 1),
        ("orders", 2),
    ]


@pytest.mark.parametrize("arrives", [False, True])
def test_offsets_pass_a_bad_record_only_once_its_dead_letter_is_written(
    sqlite: SqlDatabase, *, arrives: bool
) -> None:
    table, offsets = sqlite.new_name, sqlite.new_name
    sqlite.run(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL)")
    config = {"name": "sink", "connection.url": sqlite.url, "offsets.table.name": offsets}
    settings = SinkSettings.of(parsed(SqlSinkTask.definition, config))
    own = Database(settings.database)
    letter: Future[None] = Future()
    if arrives:
        letter.set_result(None)
    else:
        letter.set_exception(OSError("no broker"))
    records = [record(table, 0, tea(0, None)), record(table, 1, tea(1))]
    writer = Writer(settings, own)
    if arrives:
        writer.write(records, lambda *_: letter)
    else:
        with pytest.raises(ConnectError, match="a reported record was not written: no broker"):
            writer.write(records, lambda *_: letter)
    own.close()
    found = sqlite.rows(f"SELECT next_offset FROM {offsets}")
    assert found == ([(2,)] if arrives else [])


@pytest.mark.parametrize("creates", ["offsets", "rows"])
def test_tasks_that_create_a_table_at_the_same_time_both_go_on(database: SqlDatabase, creates: str) -> None:
    """The other task has not committed its table when this one begins to create it."""
    if database.kind != "postgresql":
        pytest.skip("only PostgreSQL creates tables in transactions that others wait for")
    table = database.new_name
    columns = {
        "offsets": "connector TEXT, kafka_topic TEXT, kafka_partition INTEGER, next_offset BIGINT,"
        " PRIMARY KEY (connector, kafka_topic, kafka_partition)",
        "rows": "id BIGINT NOT NULL",
    }[creates]
    config = {"auto.create": "true", "auto.evolve": "true", **TOLERANT}
    if creates == "offsets":
        config["offsets.table.name"] = table
    topic = database.new_name if creates == "offsets" else table
    failed: list[object] = []

    def write() -> None:
        with sink(database, config) as test:
            test.put(topic, tea(1), schema=TEA)
            failed.extend(test.failed)

    with ThreadPoolExecutor(1) as other:
        with database.transaction() as run:
            run(f"CREATE TABLE {table} ({columns})")
            written = other.submit(write)
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            wait_until(lambda: written.done() or bool(database.rows(waiting)))
            assert not written.done()
        written.result()
    assert failed == []
    assert database.rows(f"SELECT id, name FROM {topic}") == [(1, "tea")]


def test_errors_of_rows_are_not_taken_for_errors_that_pass(database: SqlDatabase) -> None:
    """A column named locked is no lock, and a key that is too long for an index never fits."""
    table = database.new_name
    size = "" if database.kind in ("sqlite", "postgresql") else "(20)"
    locked = f"VARCHAR{size}" if size else "TEXT"
    database.run(f"CREATE TABLE {table} (id BIGINT, locked {locked} UNIQUE)")
    schema = Schema.struct({"id": INT64, "locked": STRING})
    noise = random.Random(1).randbytes(20_000).hex()
    texts = ["a", "a", noise, "b"]
    with sink(database, TOLERANT) as test:
        for number, text in enumerate(texts):
            test.add(table, Struct(schema, {"id": number, "locked": text}), schema=schema)
        test.step()
        assert not test.must_redeliver
        refused = [each.value["id"] for each in test.failed]
    assert refused == ([1] if database.kind in ("sqlite", "duckdb") else [1, 2])
    assert (3,) in database.rows(f"SELECT id FROM {table}")


def test_a_database_that_has_lost_the_offsets_is_written_to_no_more(sqlite: SqlDatabase) -> None:
    table, offsets = sqlite.new_name, sqlite.new_name
    config = {"auto.create": "true", "offsets.table.name": offsets, "retry.backoff.ms": "0"}
    with sink(sqlite, config) as test:
        test.put(table, tea(0), schema=TEA)
        sqlite.run(f"DELETE FROM {offsets}")  # as by a replica that did not have the first transaction
        test.put(table, tea(1), schema=TEA)
        assert test.must_redeliver
        with pytest.raises(ConnectError, match=f"has lost the stored offset of {table}-0, which was 1"):
            test.step()
    assert sqlite.rows(f"SELECT id FROM {table}") == [(0,)]


def test_values_that_do_not_fit_are_never_cut_off(database: SqlDatabase) -> None:
    if database.kind not in ("mariadb", "postgresql"):
        pytest.skip("texts have no limit")
    table = database.new_name
    database.run(f"CREATE TABLE {table} (id SMALLINT, name VARCHAR(3))")
    if database.kind == "mariadb":
        database.run("SET GLOBAL sql_mode = ''")
    with sink(database, TOLERANT) as test:
        for each in (tea(1), tea(2, "too long"), tea(1 << 15)):
            test.add(table, each, schema=TEA)
        test.step()
        assert len(test.failed) == 2
    assert database.rows(f"SELECT * FROM {table}") == [(1, "tea")]


@pytest.mark.parametrize("quotes", ["always", "never"])
def test_unusual_names_are_names_and_no_sql(database: SqlDatabase, quotes: str) -> None:
    table = f"{database.new_name} 10%s"
    default = Schema(STRING.type, default="5% off")
    schema = Schema.struct({"id": INT64, "a%b": INT64, "c d; --": INT64, 'e"f`': INT64, "g": default})
    config = {"auto.create": "true", "quote.sql.identifiers": quotes, "table.name.format": table}
    with sink(database, config) as test:
        values = {"id": 1, "a%b": 2, "c d; --": 3, 'e"f`': 4, "g": "5% off"}
        for _ in range(2):
            test.put("topic", Struct(schema, values), schema=schema)
            test.put("topic", Struct(schema, values), schema=schema)
    quote = "`" if database.kind == "mariadb" else '"'
    assert database.rows(f"SELECT * FROM {quote}{table}{quote}") == [(1, 2, 3, 4, "5% off")] * 4


def test_offsets_in_the_database_keep_plain_inserts_from_repeating(database: SqlDatabase) -> None:
    table, offsets = database.new_name, database.new_name
    config = {"auto.create": "true", "offsets.table.name": offsets}
    with sink(database, config) as test:
        for number in range(5):
            test.add(table, tea(number), schema=TEA)
        test.step()
        test.restart(SqlSinkTask())  # nothing was committed to the group
        for number in range(5, 8):
            test.add(table, tea(number), schema=TEA)
        test.step()
        test.restart(SqlSinkTask())
        test.step()
    assert [row[0] for row in database.rows(f"SELECT id FROM {table} ORDER BY id")] == list(range(8))
    assert database.rows(f"SELECT * FROM {offsets}") == [("sink", table, 0, 8)]


def test_a_task_that_was_replaced_writes_nothing_more(database: SqlDatabase) -> None:
    table, offsets = database.new_name, database.new_name
    config = {"auto.create": "true", "offsets.table.name": offsets, "retry.backoff.ms": "0"}
    with sink(database, config) as old:
        old.put(table, tea(0), schema=TEA)
        database.run(f"UPDATE {offsets} SET next_offset = 3")  # another task wrote the records 1 and 2
        for number in range(1, 5):
            old.add(table, tea(number), schema=TEA)
        old.step()
        assert old.must_redeliver
        assert database.rows(f"SELECT id FROM {table}") == [(0,)]
        old.step()
        assert not old.must_redeliver
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (3,), (4,)]
    assert database.rows(f"SELECT next_offset FROM {offsets}") == [(5,)]


def test_maps_without_a_schema_become_rows(database: SqlDatabase) -> None:
    table = database.new_name
    config = {**UPSERTS, "auto.evolve": "true", "pk.fields": "id"}
    with sink(database, config) as test:
        test.put(table, {"name": "tea", "price": 1.5, "gone": None}, key=1)
        test.put(table, {"name": "milk", "is_cold": True, "tags": ["a", 1]}, key={"id": 2})
        test.put(table, {"name": None, "price": 2.5}, key=1)
    found = database.rows(f"SELECT id, name, price, is_cold, tags FROM {table} ORDER BY id")
    assert [tuple(row[:3]) for row in found] == [(1, None, 2.5), (2, "milk", None)]
    assert bool(found[1][3])
    assert str(found[1][4]).replace("'", '"') == '["a", 1]'


def test_a_lost_connection_is_no_error_of_a_record(database: SqlDatabase) -> None:
    if database.kind in ("sqlite", "duckdb"):
        pytest.skip("a file has no connection")
    table, offsets = database.new_name, database.new_name
    config = {"auto.create": "true", "offsets.table.name": offsets, "retry.backoff.ms": "0", **TOLERANT}
    with sink(database, config) as test:
        test.put(table, tea(0), schema=TEA)
        database.restart()
        test.put(table, tea(1), schema=TEA)
        assert test.must_redeliver
        test.step()
        assert not test.must_redeliver
        assert test.failed == []
    assert database.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,)]


def test_offsets_that_cannot_be_read_at_first_are_read_later(sqlite: SqlDatabase) -> None:
    table, offsets = sqlite.new_name, sqlite.new_name
    config = {
        "connection.url": f"{sqlite.url}?timeout=0",
        "auto.create": "true",
        "offsets.table.name": offsets,
        "retry.backoff.ms": "0",
    }
    with sink(sqlite, config) as test:
        for number in range(3):
            test.put(table, tea(number), schema=TEA)
        with sqlite.locked():
            test.assign([])
            test.assign([TopicPartition(table, 0)])
            test.put(table, tea(3), schema=TEA)
            assert test.must_redeliver
        test.step()
        test.step()
        assert not test.must_redeliver
    assert sqlite.rows(f"SELECT id FROM {table}") == [(0,), (1,), (2,), (3,)]


def test_a_locked_file_is_waited_for(sqlite: SqlDatabase) -> None:
    table = sqlite.new_name
    sqlite.run(f"CREATE TABLE {table} (id INTEGER, name TEXT)")
    config = {"connection.url": f"{sqlite.url}?timeout=0", "retry.backoff.ms": "0", "max.retries": "2"}
    with sink(sqlite, config) as test, sqlite.locked():
        test.put(table, tea(0), schema=TEA)
        assert test.must_redeliver
        test.step()
        with pytest.raises(ConnectError, match="database is locked; 2 more attempts failed too"):
            test.step()


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"insert.mode": "upsert"}, "needs a primary key"),
        ({"delete.enabled": "true"}, "delete.enabled=true needs pk.mode=record_key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.fields has 2 names"),
    ],
)
def test_settings_that_contradict_are_refused(
    sqlite: SqlDatabase, config: Mapping[str, str], problem: str
) -> None:
    with pytest.raises(ConfigInvalid, match=problem), sink(sqlite, config):
        pass
    found = SqlSinkConnector().validate({"connection.url": sqlite.url, **config})
    assert [error for each in found for error in each.errors if problem in error]


@pytest.mark.parametrize(
    ("config", "value", "key", "problem"),
    [
        ({}, {"a": 1}, None, "is missing, and auto.create is false"),
        ({"table.name.format": "a.b.c.${topic}"}, {"a": 1}, None, "expected table, schema.table or"),
        (UPSERTS, {"a": 1}, None, "the key is null"),
        (UPSERTS, {"a": 1}, 5, "the key is a primitive value, so pk.fields needs one name"),
        ({**UPSERTS, "pk.fields": "b"}, {"a": 1}, {"a": 1}, "pk.fields names 'b', but the key has only a"),
        ({}, [1], None, "the value is a list; expected a struct or a map"),
        ({}, None, None, "the value is null; delete.enabled=true deletes"),
        ({"auto.create": "true"}, {}, None, "no fields that become columns"),
    ],
)
def test_the_error_of_a_record_says_why(
    sqlite: SqlDatabase, config: Mapping[str, str], value: Any, key: Any, problem: str
) -> None:
    with sink(sqlite, {**config, **TOLERANT}) as test:
        test.put(sqlite.new_name, value, key=key)
        [failed] = test.failed
        assert problem in str(failed.error)


def test_offsets_that_a_user_sets_are_in_the_database(sqlite: SqlDatabase) -> None:
    table, offsets = sqlite.new_name, sqlite.new_name
    config = {
        "name": "sink",
        "connection.url": sqlite.url,
        "auto.create": "true",
        "offsets.table.name": offsets,
    }
    partition = TopicPartition(table, 0)
    with sink(sqlite, config) as test:
        for number in range(3):
            test.put(table, tea(number), schema=TEA)
        assert SqlSinkConnector().alter_offsets(config, {partition: 2})
        test.restart(SqlSinkTask())
        test.step()
    assert sqlite.rows(f"SELECT id FROM {table}") == [(0,), (1,), (2,), (2,)]
    assert SqlSinkConnector().alter_offsets(config, {partition: None})
    assert sqlite.rows(f"SELECT * FROM {offsets}") == []


def test_the_examples_work_together(tmp_path: Path) -> None:
    """The examples' own files of databases are replaced."""
    source, target = (SqlDatabase("sqlite", f"sqlite:///{tmp_path}/{name}.db") for name in ("shop", "copy"))
    source.run(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, changed TIMESTAMP NOT NULL)",
        "INSERT INTO orders VALUES (1, 'tea', '2026-01-02 08:00:00')",
    )
    reading, writing = (
        {**properties_of(EXAMPLES / f"sql-{name}.properties"), "connection.url": database.url}
        for name, database in (("source", source), ("sink", target))
    )
    tables = {"tables": tables_text([TableName("orders")])}
    with SourceTaskTest(SqlSourceTask(), {**reading, **tables}) as test:
        [record] = test.take(1)
    assert record.topic == writing["topics"]
    with sink(target, writing) as writer:
        writer.put(record.topic, record.value, schema=record.value_schema)
    assert target.rows("SELECT * FROM orders") == [(1, "tea", "2026-01-02 08:00:00.000000")]


def properties_of(path: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in lines}
