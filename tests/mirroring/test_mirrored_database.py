"""A mirror finds out before it starts what a database does not allow, and says what to change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.demo.capture.postgres import Postgres, PostgresMissing
from penstock.mirroring import MirrorError
from penstock.mirroring.database import Database
from penstock.mirroring.known import KnownTables
from penstock.mirroring.selection import Selection

psycopg = pytest.importorskip("psycopg")

ALL = Selection.of(["inv.*"])
TABLES = """
create schema inv;
create schema other;
create table inv.orders (id int primary key);
create table inv.parts (id int primary key) partition by range (id);
create table inv.parts_1 partition of inv.parts for values from (0) to (10);
create table inv.log (line text);
create table other.full_log (line text);
create role reader login replication;
create role writer login;
grant usage on schema inv to reader;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    try:
        with Postgres() as found:
            with psycopg.connect(found.url, autocommit=True) as session:
                session.execute(TABLES)
            yield found
    except PostgresMissing as error:
        pytest.skip(str(error))


@pytest.fixture
def session(server: Postgres) -> Iterator[Any]:
    with psycopg.connect(server.url, autocommit=True) as session:
        yield session


def database_of(server: Postgres, user: str = "postgres") -> Database:
    return Database.of(server.url.replace("postgres@", f"{user}@"))


@pytest.mark.parametrize(
    ("user", "selection", "complaint"),
    [
        ("writer", ALL, "may not replicate: run ALTER ROLE writer WITH REPLICATION"),
        ("reader", ALL, r"may not read inv\.log, inv\.orders, inv\.parts: grant SELECT"),
        ("postgres", ALL, r"without primary key: inv\.log\. .*--keys inv\.log=COLUMN"),
        ("postgres", Selection.of(["nowhere.*"]), r"no table matches nowhere\.\*: the database has inv\.log"),
        ("nobody_known", ALL, r"no session with the database at .*nobody_known"),
    ],
)
def test_what_does_not_fit_is_named(
    server: Postgres, user: str, selection: Selection, complaint: str
) -> None:
    with pytest.raises(MirrorError, match=complaint):
        database_of(server, user).check(selection)


def test_partitions_belong_to_their_table(server: Postgres) -> None:
    for selection in (Selection.of(["inv.*"], ["inv.log"]), Selection.of(["inv.*"], keys=["inv.log=line"])):
        found = database_of(server).check(selection)
        assert {"inv.orders", "inv.parts"} <= {each.full_name for each in found}
        assert "inv.parts_1" not in {each.full_name for each in found}


def test_a_publication_does_not_stop_updates_of_other_tables(server: Postgres, session: Any) -> None:
    """PostgreSQL refuses to update a published table that has no key."""
    database = database_of(server)
    tables = database.check(Selection.of(["inv.*"], ["inv.log"]))
    with pytest.raises(MirrorError, match=r"would refuse updates and deletes of inv\.log"):
        database.ensure_publication("of_schema", tables)
    session.execute("alter table inv.log replica identity full")
    assert database.ensure_publication("of_schema", tables) is None
    session.execute("create table inv.later (id int primary key)")
    published = session.execute("select tablename from pg_publication_tables where pubname = 'of_schema'")
    assert {"orders", "parts", "later"} <= {name for (name,) in published}
    assert database.ensure_publication("of_schema", tables) is None
    session.execute("drop table inv.later")


def test_a_publication_that_lacks_a_table(server: Postgres, session: Any) -> None:
    session.execute("create publication own for table inv.parts")
    tables = database_of(server).check(Selection.of(["inv.orders", "inv.parts"]))
    with pytest.raises(MirrorError, match=r"the publication own lacks inv\.orders"):
        database_of(server).ensure_publication("own", tables)


def test_tables_that_a_publication_has_from_their_creation_on(server: Postgres, session: Any) -> None:
    for name, contents, expected in (
        ("few", "table inv.orders", False),
        ("schemas", "tables in schema inv", True),
        ("all_tables", "all tables", True),
    ):
        session.execute(f"create publication {name} for {contents}")
        found = database_of(server).publishes_later_tables(name, ["inv", "other"])
        assert found == {"inv": expected, "other": name == "all_tables"}
        session.execute(f"drop publication {name}")
    assert database_of(server).publishes_later_tables("none", ["inv"]) == {"inv": False}


def test_rows_that_were_never_copied_are_noticed(server: Postgres, session: Any, tmp_path: Path) -> None:
    database, file, selection = database_of(server), tmp_path / "tables.json", Selection.of(["k.*"])
    listed, in_schema = {"k": False}, {"k": True}

    def suspects(published: dict[str, bool]) -> list[str]:
        tables = database.check(selection)
        found = database.with_rows(KnownTables(file).suspects(tables, published))
        return [each.full_name for each in found]

    session.execute("create schema k; create table k.a (id int primary key); insert into k.a values (1)")
    assert suspects(listed) == []  # the first run copies all rows
    KnownTables(file).remember(database.check(selection), selection)
    assert suspects(listed) == []
    session.execute("create table k.b (id int primary key)")
    assert suspects(listed) == []
    session.execute("insert into k.b values (1)")
    assert suspects(listed) == ["k.b"]
    assert suspects(in_schema) == []
    session.execute("drop table k.a; create table k.a (id int primary key); insert into k.a values (1)")
    assert suspects(listed) == ["k.a", "k.b"]
    tables = database.check(selection)
    assert [each.name for each in KnownTables(file).recreated(tables)] == ["a"]
    KnownTables(file).remember(tables, selection)
    assert suspects(listed) == []
    assert [each.name for each in KnownTables(file).recreated(tables)] == ["a"]
    file.unlink()
    KnownTables(file).remember(tables[:1], Selection.of(["k.a"]))
    assert suspects(in_schema) == ["k.b"]  # which the patterns of the run before did not have
    file.write_text("[]")
    with pytest.raises(MirrorError, match=r"tables\.json of the mirror's tables cannot be read"):
        KnownTables(file)
    session.execute("drop schema k cascade")


def test_a_session_that_the_server_ends(server: Postgres) -> None:
    """The server may be killed between the login and the statement."""
    complaint = r"the session with the database at 127.* has failed: terminating"
    with pytest.raises(MirrorError, match=complaint), database_of(server).session() as session:
        session.execute("select pg_terminate_backend(pg_backend_pid())")


def test_a_user_who_may_not_publish(server: Postgres, session: Any) -> None:
    session.execute("grant select on inv.orders to reader")
    database = database_of(server, "reader")
    tables = database.check(Selection.of(["inv.orders"]))
    with pytest.raises(MirrorError, match="Let a superuser run CREATE PUBLICATION mine FOR TABLES IN SCHEMA"):
        database.ensure_publication("mine", tables)
