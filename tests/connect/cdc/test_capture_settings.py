"""Filters, masks, modes and places of the connector for PostgreSQL, by its configuration. Pure."""

from typing import Any

import pytest

pytest.importorskip("psycopg")

from penstock.connect.cdc.configuration import texts_of
from penstock.connect.cdc.postgres.reading.connecting import Server
from penstock.connect.cdc.postgres.reading.resuming import ResumePoint
from penstock.connect.cdc.postgres.reading.slots import SlotState
from penstock.connect.cdc.postgres.reading.starting import SnapshotMode, decide_start
from penstock.connect.cdc.postgres.selection.filters import Filters
from penstock.connect.cdc.postgres.source import PostgresConnector, PostgresTask
from penstock.connect.cdc.selection.masks import Masks, java_serialized
from penstock.connect.connector.connector import parsed
from penstock.connect.errors import ChangesLost, ConfigInvalid, ConnectError

REQUIRED = {"database.hostname": "h", "database.dbname": "d", "topic.prefix": "p"}
STREAMED = {"lsn": 50, "lsn_commit": 40, "lsn_proc": 50, "txId": 7, "messageType": "INSERT"}


@pytest.mark.parametrize(
    ("properties", "table", "expected"),
    [
        ({}, "public.a", True),
        ({}, "pg_catalog.pg_class", False),
        ({}, "pg_temp_3.a", False),
        ({}, "public.spatial_ref_sys", False),
        ({"schema.include.list": "s1,s2"}, "s2.a", True),
        ({"schema.include.list": "s1,s2"}, "s22.a", False),
        ({"schema.exclude.list": "s.*"}, "s1.a", False),
        ({"table.include.list": r"public\.(a|b), other.x{1\,2}"}, "PUBLIC.B", True),
        ({"table.include.list": r"public\.(a|b), other.x{1\,2}"}, "other.xx", True),
        ({"table.include.list": "a"}, "public.a", False),
        ({"table.exclude.list": "public.a", "schema.include.list": "public"}, "public.b", True),
    ],
)
def test_tables(properties: dict[str, str], table: str, expected: bool) -> None:
    schema, _, name = table.partition(".")
    assert Filters.of(properties).has_table(schema, name) is expected


def test_lists_that_cannot_be_used() -> None:
    with pytest.raises(ConfigInvalid, match=r"table\.include\.list and table\.exclude\.list are both set"):
        Filters.of({"table.include.list": "a", "table.exclude.list": "b"})
    with pytest.raises(ConfigInvalid, match=r"column\.include\.list has '\[', which is not a regular"):
        Filters.of({"column.include.list": "a,["})
    with pytest.raises(ConfigInvalid, match="unknown hash algorithm CRC"):
        Masks({"column.mask.hash.CRC.with.salt.x": "a"})


def test_the_connector_reports_them() -> None:
    found = PostgresConnector().validate(
        {**REQUIRED, "table.include.list": "[", "snapshot.mode": "sometimes"}
    )
    errors = {each.name: each.errors for each in found if each.errors}
    assert errors.keys() == {"table.include.list", "snapshot.mode"}
    assert not [each for each in PostgresConnector().validate(REQUIRED) if each.errors]


def test_offsets_of_users_are_checked() -> None:
    check = PostgresConnector().alter_offsets
    assert check(REQUIRED, [({"server": "p"}, STREAMED), ({"server": "p"}, None)])
    with pytest.raises(ConnectError, match="the partition is"):
        check(REQUIRED, [({"server": "other"}, STREAMED)])
    with pytest.raises(ConnectError, match="has no number as lsn"):
        check(REQUIRED, [({"server": "p"}, {"lsn": "0/1"})])


def test_properties_survive_parsing() -> None:
    properties = {**REQUIRED, "database.password": "secret", "max.batch.size": "5", "slot.failover": "TRUE"}
    texts = texts_of(parsed(PostgresTask.definition, properties))
    assert texts["database.password"] == "secret"
    assert (texts["max.batch.size"], texts["slot.failover"]) == ("5", "true")


def test_secrets_are_not_shown() -> None:
    server = Server.of({**REQUIRED, "database.password": "secret", "database.initial.statements": "a;;b;c"})
    assert "secret" not in repr(server)
    assert server.statements == ("a;b", "c")


def test_java_serialization() -> None:
    assert java_serialized("a\0ä\U0001f600") == bytes.fromhex(
        "aced0005 74 000b 61 c080 c3a4 eda0bd edb880".replace(" ", "")
    )
    assert java_serialized("x" * 65536)[:13] == bytes.fromhex("aced00057c0000000000010000")


@pytest.mark.parametrize(
    ("mode", "offset", "slot", "expected"),
    [
        ("initial", None, None, (True, None)),
        ("initial", STREAMED, SlotState(40, False), (False, ResumePoint(40, 7, 50, 0))),
        ("initial", {**STREAMED, "lsn_records": 2}, SlotState(45, False), (False, ResumePoint(40, 7, 50, 2))),
        ("initial", {"snapshot": "INITIAL", "lsn": 9, "last_snapshot_record": False}, None, (True, None)),
        (
            "initial",
            {"snapshot": "INITIAL", "lsn": 9, "last_snapshot_record": True},
            SlotState(5, False),
            (False, ResumePoint(9)),
        ),
        (
            "initial",
            {"snapshot": "INITIAL", "lsn": 9, "last_snapshot_record": False},
            SlotState(5, False),
            (True, ResumePoint(5)),
        ),
        ("initial", None, SlotState(5, False), (True, ResumePoint(5))),
        ("initial", None, SlotState(5, True), (True, None)),
        ("never", None, SlotState(5, False), (False, None)),
        ("always", STREAMED, SlotState(40, False), (True, None)),
        ("never", None, None, (False, None)),
        ("NO_DATA", STREAMED, SlotState(40, False), (False, ResumePoint(40, 7, 50, 0))),
        ("initial_only", STREAMED, None, (False, ResumePoint(40, 7, 50, 0))),
        ("when_needed", STREAMED, None, (True, None)),
        ("when_needed", STREAMED, SlotState(40, True), (True, None)),
        ("when_needed", {**STREAMED, "lsn_commit": 101}, SlotState(40, False), (True, None)),
    ],
)
def test_starts(mode: str, offset: dict[str, Any] | None, slot: SlotState | None, expected: Any) -> None:
    assert decide_start(SnapshotMode.of(mode), offset, slot, "s", 100) == expected


@pytest.mark.parametrize(
    ("offset", "slot", "problem"),
    [
        (STREAMED, None, "the slot s does not exist"),
        (STREAMED, SlotState(40, True), "has discarded the WAL"),
        ({**STREAMED, "lsn_commit": 101}, SlotState(40, False), "0/65 is beyond the end of the server's WAL"),
    ],
)
def test_starts_that_would_lose_changes(offset: dict[str, Any], slot: SlotState | None, problem: str) -> None:
    with pytest.raises(ChangesLost, match=problem):
        decide_start(SnapshotMode.INITIAL, offset, slot, "s", 100)


def test_modes_that_are_unknown() -> None:
    with pytest.raises(ConfigInvalid, match="expected one of always, initial"):
        SnapshotMode.of("custom")
