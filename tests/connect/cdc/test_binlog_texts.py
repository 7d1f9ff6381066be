"""GTID sets, statements that change schemas, MySQL's binary JSON, and places in the log. Pure."""

import pytest

pytest.importorskip("pymysql")

from penstock.connect.cdc.mysql.charsets import decoded
from penstock.connect.cdc.mysql.ddl import Ddl, changed_tables, read_ddl
from penstock.connect.cdc.mysql.gtids import MariaGtid, MariaGtids, MySqlGtids
from penstock.connect.cdc.mysql.json_binary import json_text
from penstock.connect.cdc.mysql.positions import Position, ResumePoint, is_in_snapshot
from penstock.connect.cdc.mysql.reading.settings import SnapshotMode
from penstock.connect.cdc.mysql.reading.starting import decide_start
from penstock.connect.errors import ChangesLost, ConnectError, DataError

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "00000000-0000-0000-0000-000000000001"


def test_sets_of_mariadb() -> None:
    gtids = MariaGtids("1-2-7, 0-1-5")
    gtids.add(MariaGtid(0, 3, 6))
    assert str(gtids) == "0-3-6,1-2-7"
    assert gtids.contains("0-1-5")
    assert gtids.contains("")
    assert not gtids.contains("0-1-7")
    assert not gtids.contains("2-1-1")
    with pytest.raises(ConnectError, match="'0-1' is not a GTID of MariaDB"):
        MariaGtids("0-1")


def test_sets_of_mysql() -> None:
    gtids = MySqlGtids(f"{SOURCE.upper()}:1-3:7,\n{OTHER}:5")
    gtids.add(SOURCE, 8)
    assert str(gtids) == f"{OTHER}:5,{SOURCE}:1-3:7-8"
    gtids.add(SOURCE, 4)
    assert str(gtids) == f"{OTHER}:5,{SOURCE}:1-4:7-8"
    assert gtids.contains(f"{SOURCE}:2-4")
    assert not gtids.contains(f"{SOURCE}:2-7")
    assert MySqlGtids(f"{OTHER}:5-6").encoded() == bytes(
        [1, *[0] * 7, *[0] * 15, 1, 1, *[0] * 7, 5, *[0] * 7, 7, *[0] * 7]
    )
    with pytest.raises(ConnectError, match="is not a GTID set of MySQL"):
        MySqlGtids("0-1-5")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("create table a (id int)", Ddl("CREATE", "d", (("d", "a"),))),
        ("CREATE OR REPLACE TABLE `x y`.`a``b` like c", Ddl("CREATE", "x y", (("x y", "a`b"),))),
        ("/* c */ create table if not exists e.a select 1", Ddl("CREATE", "e", (("e", "a"),))),
        ("alter online table a add column b int", Ddl("ALTER", "d", (("d", "a"),))),
        ("alter table a rename to b", Ddl("ALTER", "d", (("d", "a"), ("d", "b")))),
        ("alter table a rename column b to c", Ddl("ALTER", "d", (("d", "a"),))),
        ("rename table a to b, c to e.f", Ddl("ALTER", "d", (("d", "b"), ("e", "f")))),
        (
            "drop table if exists `a`,`b` /* by server */",
            Ddl("DROP", "d", (("d", "a"), ("d", "b"))),
        ),
        ("truncate a", Ddl("TRUNCATE", "d", (("d", "a"),))),
        ("TRUNCATE TABLE e.a", Ddl("TRUNCATE", "e", (("e", "a"),))),
        ("create unique index i on e.a (b)", Ddl("ALTER", "e", (("e", "a"),))),
        ("drop index i on a", Ddl("ALTER", "d", (("d", "a"),))),
        ("create database e", Ddl("DATABASE", "e", ())),
        ("SET STATEMENT max_statement_time=60 FOR drop table a", Ddl("DROP", "d", (("d", "a"),))),
        ("grant all on *.* to x", None),
        ("create user x", None),
        ("create view v as select 1", None),
        ("insert into a values (1)", None),
    ],
)
def test_statements(statement: str, expected: Ddl | None) -> None:
    assert read_ddl(statement, "d") == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("insert into a values (1)", [("d", "a")]),
        ("INSERT LOW_PRIORITY IGNORE INTO `e`.`a` select * from b", [("e", "a"), ("d", "b")]),
        ("replace a values (1)", [("d", "a")]),
        ("/* c */ update a, e.b set a.x = 1", [("d", "a"), ("e", "b")]),
        ("delete from a where x in (select y from b)", [("d", "a"), ("d", "b")]),
        ("load data infile 'f' into table a", [("d", "a")]),
        ("insert into a values (1, 2), (3, 4)", [("d", "a")]),
        ("create table a (id int)", []),
        ("savepoint a", []),
    ],
)
def test_statements_that_change_rows(statement: str, expected: list[tuple[str, str]]) -> None:
    assert changed_tables(statement, "d") == expected


def test_latin1_has_controls_where_cp1252_has_nothing() -> None:
    assert decoded(b"a\x80\x81", "cp1252") == "a\u20ac\x81"
    assert decoded(b"a\xff", "utf-8") == "a\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("0400", "null"),
        ("0401", "true"),
        ("05ffff", "-1"),
        ("0affffffffffffffff", "18446744073709551615"),
        ("0b000000000000f83f", "1.5"),
        ("0c03c3a462", '"äb"'),
        # {"a":1}: one element, 12 bytes; the key at 11 with one byte; an int16 in place
        ("0001000c000b0001000501 0061", '{"a":1}'),
        # [1,"b"]: two elements, 12 bytes; an int16 in place, a string at 10
        ("0202000c000501000c0a000162", '[1,"b"]'),
    ],
)
def test_binary_json(data: str, text: str) -> None:
    assert json_text(bytes.fromhex(data.replace(" ", ""))) == text


def test_broken_json() -> None:
    with pytest.raises(DataError, match="ends early"):
        json_text(bytes.fromhex("0c"))


def test_places() -> None:
    position = Position("f", 4, "0-1-5", event=2, server_id=1, time_us=7_000_000, gtid="0-1-6")
    offset = position.offset(3)
    assert offset == {
        "file": "f",
        "pos": 4,
        "gtids": "0-1-5",
        "event": 2,
        "row": 3,
        "server_id": 1,
        "ts_sec": 7,
        "gtid_current": "0-1-6",
    }
    place = ResumePoint.of(offset)
    assert place == ResumePoint("f", 4, "0-1-5", 2, 3, "0-1-6")
    assert place.is_of("f", 4, "0-1-6")
    assert not place.is_of("f", 4, "0-1-7")
    assert not place.is_of("g", 4, "0-1-6"), "a server that lost it has given its GTID to another one"
    assert is_in_snapshot({"snapshot": "INITIAL"})
    assert not is_in_snapshot(offset)


def test_starts() -> None:
    offset = {"file": "f", "pos": 4}
    place = ResumePoint("f", 4)
    assert decide_start(SnapshotMode.INITIAL, None, None) == (True, None)
    assert decide_start(SnapshotMode.NO_DATA, None, None) == (False, None)
    assert decide_start(SnapshotMode.INITIAL, {**offset, "snapshot": "INITIAL"}, None) == (True, None)
    assert decide_start(SnapshotMode.INITIAL, offset, None) == (False, place)
    assert decide_start(SnapshotMode.ALWAYS, offset, None) == (True, None)
    assert decide_start(SnapshotMode.WHEN_NEEDED, offset, "gone") == (True, None)
    with pytest.raises(ChangesLost, match="gone, so changes after the stored offset are lost"):
        decide_start(SnapshotMode.INITIAL, offset, "gone")
