"""The configuration of a mirror's connector is valid, and passwords stay out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.cdc.postgres.source import PostgresConnector
from penstock.connect.providers.files import FileProvider
from penstock.mirroring import MirrorError
from penstock.mirroring.capture import connector_properties, with_passwords
from penstock.mirroring.database import Database
from penstock.mirroring.known import LeftOut
from penstock.mirroring.selection import Selection
from penstock.mirroring.tables import Place

pytest.importorskip("psycopg")


def test_the_connector_takes_the_configuration() -> None:
    database = Database.of("postgres://me@db.example:5433/shop?sslmode=require")
    found = connector_properties("shop", database, Selection.of(["inv.*"], ["inv.x"]), "slot", "publication")
    assert [each for each in PostgresConnector().validate(found) if each.errors] == []
    assert found["database.hostname"] == "db.example"
    assert found["database.port"] == "5433"
    assert found["database.sslmode"] == "require"


@pytest.mark.parametrize("password", ["secret", "back\\slash", "a=b #c", "${file:x:y}", "ü:@/"])
def test_the_password_is_in_a_file_that_others_cannot_read(tmp_path: Path, password: str) -> None:
    file = tmp_path / "secrets.properties"
    file.touch(mode=0o644)
    database = Database({"host": "h", "port": "1", "dbname": "d", "password": password})
    found = with_passwords({"name": "x"}, database, file)
    assert password not in found.values()
    assert file.stat().st_mode & 0o077 == 0
    provider = FileProvider()
    provider.configure({})
    assert provider.get(str(file), ["database.password"]).values["database.password"] == password
    assert with_passwords({}, Database({"host": "h"}), file) == {}


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("mysql://h/d", "not given as postgres"),
        ("postgres://h", "names no database"),
        ("postgres://h/d?options=-cx", "parameters among"),
        ("postgres://h/d?nonsense=1", "not valid"),
    ],
)
def test_urls_that_name_no_database(url: str, complaint: str) -> None:
    with pytest.raises(MirrorError, match=complaint):
        Database.of(url)


def test_the_error_does_not_show_the_password() -> None:
    for url in ("postgres://me:sec%ret@h/d", "postgres://me:secret@[h/d"):
        with pytest.raises(MirrorError, match="special characters as %XX") as refused:
            Database.of(url)
        assert "sec" not in str(refused.value).partition("special")[0]
        assert refused.value.__suppress_context__
    database = Database.of("postgres://me:secret@127.0.0.1:1/d")
    complaint = r"no session with the database at 127\.0\.0\.1:1/d"
    with pytest.raises(MirrorError, match=complaint) as caught, database.session():
        pass
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Database.of("postgres://me:secret@h/d"))


def test_tables_without_keys_stay_left_out(tmp_path: Path) -> None:
    file = tmp_path / "left-out"
    assert LeftOut(file).names() == []
    for name in ("inv.log", "inv.ä b", "inv.log"):
        LeftOut(file).add(name)
    assert LeftOut(file).names() == ["inv.log", "inv.ä b"]


def test_places() -> None:
    assert Place.of("delta:/lake/").path_of("inv", "orders") == "/lake/inv/orders"
    assert Place.of("iceberg:lake").path_of("inv", "orders") == "lake.inv.orders"
    for wrong in ("/lake", "delta:", "parquet:/lake", "delta:/"):
        with pytest.raises(MirrorError, match="expected delta:PATH or iceberg:CATALOG"):
            Place.of(wrong)
