"""Commands and their content, without a cluster: their text has the same meaning when it is read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sql.analysis import analyze
from penstock.sql.catalog import Catalog, Column, Role
from penstock.sql.engine.changing.applying import columns_of, columns_text
from penstock.sql.engine.changing.commands import BadCommand, Command, command_id_of
from penstock.sql.engine.ground.persistent_queries import is_upgrade
from penstock.sql.language import types
from penstock.sql.language.parsing.script import parse, parse_script
from penstock.sql.language.types import Array, Map, SqlType, Struct

_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
_TEXTS = st.dictionaries(_NAMES, _NAMES, max_size=3)
_TYPES: st.SearchStrategy[SqlType] = st.recursive(
    st.sampled_from([*dict.fromkeys(types.PRIMITIVES.values()), types.Decimal(9, 3)]),
    lambda inner: st.one_of(
        inner.map(Array),
        st.tuples(inner, inner).map(lambda each: Map(*each)),
        st.dictionaries(_NAMES, inner, min_size=1, max_size=3).map(lambda each: Struct(tuple(each.items()))),
    ),
    max_leaves=4,
)
_COLUMNS = st.dictionaries(_NAMES, st.tuples(_TYPES, st.sampled_from([Role.KEY, Role.VALUE])), min_size=1)


@given(_COLUMNS)
def test_columns_are_read_as_they_were_written(listed: dict[str, tuple[SqlType, Role]]) -> None:
    columns = tuple(Column(name, type_, role) for name, (type_, role) in listed.items())
    assert columns_of(columns_text(columns)) == columns


@given(_NAMES, _NAMES, _TEXTS, _TEXTS, st.none() | _NAMES, st.none() | _NAMES)
def test_commands_are_read_as_they_were_written(
    command_id: str,
    statement: str,
    properties: dict[str, str],
    original: dict[str, str],
    columns: str | None,
    file: str | None,
) -> None:
    command = Command(command_id, statement, properties, original, columns, file)
    assert Command.of(command.key, command.value) == command


@given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_other_bytes_are_no_command(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(BadCommand, match="found no command in"):
        Command.of(key, value)


@pytest.mark.parametrize(
    ("statement", "command_id"),
    [
        ("CREATE STREAM a (v INT) WITH (kafka_topic='a');", "stream/`A`/create"),
        ("CREATE TABLE `a b` AS SELECT * FROM c;", "table/`a b`/create"),
        ("INSERT INTO a SELECT * FROM b;", "stream/`A`/create"),
        ("DROP TABLE a;", "table/A/drop"),
        ("ALTER STREAM a ADD COLUMN x INT;", "stream/A/alter"),
        ("CREATE TYPE a AS INT;", "type/A/create"),
        ("DROP TYPE a;", "type/A/drop"),
        ("PAUSE ALL;", "pause/ALL/execute"),
        ("RESUME a_1;", "resume/A_1/execute"),
        ("TERMINATE a_1;", "terminate/A_1/execute"),
    ],
)
def test_ids_are_ksqldbs(statement: str, command_id: str) -> None:
    assert command_id_of(parse(statement)) == command_id


def test_alter_system_has_an_id_of_its_own() -> None:
    statement = parse("ALTER SYSTEM 'auto.offset.reset' = 'latest';")
    first, second = command_id_of(statement), command_id_of(statement)
    assert first != second
    assert first.startswith("cluster/")
    assert first.endswith("/alter")


_SOURCES = """
    CREATE STREAM s (id INT KEY, v STRING, n INT) WITH (kafka_topic='s', format='json', partitions=1);
    CREATE TABLE t (id INT PRIMARY KEY, w STRING) WITH (kafka_topic='t', format='json', partitions=1);
"""


@pytest.mark.parametrize(
    ("old", "new", "is_one"),
    [
        ("SELECT id, v FROM s", "SELECT id, v, UCASE(v) AS up FROM s WHERE n > 1", True),
        ("SELECT id, v FROM s WHERE n > 1", "SELECT id, v FROM s WHERE n > 2", True),
        ("SELECT id, v FROM s", "SELECT id, w AS v FROM t", False),
        (
            "SELECT id, COUNT(*) AS n FROM s GROUP BY id",
            "SELECT id, COUNT(*) AS n FROM s WHERE n > 1 GROUP BY id",
            True,
        ),
        ("SELECT id, COUNT(*) AS n FROM s GROUP BY id", "SELECT id, SUM(n) AS n FROM s GROUP BY id", False),
        ("SELECT id, COUNT(*) AS n FROM s GROUP BY id", "SELECT v, COUNT(*) AS n FROM s GROUP BY v", False),
        ("SELECT s.id, v FROM s JOIN t ON s.id = t.id", "SELECT s.id, w FROM s JOIN t ON s.id = t.id", True),
        (
            "SELECT s.id, v FROM s JOIN t ON s.id = t.id",
            "SELECT s.id, v FROM s LEFT JOIN t ON s.id = t.id",
            False,
        ),
    ],
)
def test_which_query_may_go_on_as_which(old: str, new: str, is_one: bool) -> None:
    catalog = Catalog()
    for each in parse_script(_SOURCES):
        catalog = analyze(each.statement, catalog).catalog
    plans = [analyze(parse(f"{query} EMIT CHANGES;"), catalog).plan for query in (old, new)]
    assert plans[0] is not None
    assert plans[1] is not None
    assert is_upgrade(plans[0], plans[1]) is is_one
