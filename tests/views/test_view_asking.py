"""URLs to reads, and reads' rows to JSON."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from penstock.streams import App, Serde, json, long, sessions, string, tumbling
from penstock.topology.serdes import Window, raw
from penstock.views import InvalidQuery, UnsupportedQuery, ViewError
from penstock.views.asking import asked_by, encode, entry_of, from_base64, to_base64
from penstock.views.catalog import Catalog, ViewedStore
from penstock.views.position import Position
from penstock.views.reads import Fetch, GetValue, GetVersion, GetVersions, GetWindow, Row, Scan

point = Serde(lambda p: b"%d,%d" % p, lambda b: tuple(map(int, b.split(b","))), name="point")


def stores() -> dict[str, ViewedStore]:
    app = App("asked", key=string, value=json)
    grouped = app.stream("in").group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(tumbling("10 ms")).count(store="windows")
    grouped.windowed_by(sessions("10 ms")).count(store="sessions")
    app.table("rows", store="versions", history="1 minute")
    app.table("numbers", key=long, store="numbers")
    app.table("documents", key=json, store="documents")
    app.table("bytes", key=raw, store="bytes")
    app.table("points", key=point, value=point, store="points")
    return dict(Catalog(app.topology()).stores)


STORES = stores()


def read(store: str, path: str, at_least: str | None = None, **parameters: str) -> Any:
    return asked_by(STORES[store], path.split("/"), parameters, at_least)


def test_keys_are_read_by_their_serdes() -> None:
    assert read("counts", "keys/a%2Fb%20%C3%A9").read == GetValue("a/b é".encode())
    assert read("numbers", "keys/-7").read == GetValue((-7).to_bytes(8, "big", signed=True))
    assert read("documents", "keys/%7B%22a%22%3A%20%5B1%5D%7D").read == GetValue(b'{"a":[1]}')
    assert read("bytes", "keys/ab").read == GetValue(b"ab")
    assert read("points", "keys/" + to_base64(b"1,2"), encoding="base64").read == GetValue(b"1,2")
    assert read("counts", "keys/_-8", encoding="base64").read == GetValue(b"\xff\xef")


def test_each_kind_of_store_has_its_reads() -> None:
    assert read("windows", "keys/a", start_ms="20").read == GetWindow(b"a", 20)
    assert read("windows", "keys/a/windows", from_ms="5", limit="7").read == Fetch(b"a", 5, None, False, 7)
    assert read("sessions", "keys/a/windows", to_ms="9", reverse="true").read == Fetch(b"a", 0, 9, True, 100)
    assert read("versions", "keys/a").read == GetVersion(b"a", None)
    assert read("versions", "keys/a", as_of_ms="3").read == GetVersion(b"a", 3)
    assert read("versions", "keys/a/versions", to_ms="3").read == GetVersions(b"a", None, 3, 100)
    assert read("counts", "entries", first="a", last="b").read == Scan(b"a", b"b\0", False, 100)
    assert read("counts", "entries", prefix="ab", after=to_base64(b"abc")).read == Scan(
        b"ab", b"ac", False, 100, b"abc"
    )
    assert read("windows", "entries", from_ms="1").read == Scan(None, None, False, 100, None, 1, None)
    assert read("counts", "count").read is None


def test_positions_and_partitions_come_along() -> None:
    position = '{"t":{"0":5}}'
    assert read("counts", "keys/a", position).at_least == Position.from_json(position)
    assert read("counts", "keys/a", at_least=position).at_least == Position.from_json(position)
    asked = read("counts", "keys/a", partitions="2,0", timeout_ms="250")
    assert (asked.partitions, asked.timeout_s) == ((2, 0), 0.25)


@pytest.mark.parametrize(
    ("store", "path", "parameters", "kind", "told"),
    [
        (
            "numbers",
            "keys/seven",
            {},
            InvalidQuery,
            "'seven' is no key of store numbers, whose serde is long",
        ),
        ("numbers", "keys/99999999999999999999", {}, InvalidQuery, "out of the range"),
        ("documents", "keys/%7B", {}, InvalidQuery, "no key of store documents"),
        ("points", "keys/1", {}, InvalidQuery, "expected the key's bytes in base64"),
        ("counts", "keys/*", {"encoding": "base64"}, InvalidQuery, "is not base64"),
        ("counts", "keys/a", {"encoding": "hex"}, InvalidQuery, "expected plain or base64"),
        ("counts", "keys/a", {"limt": "1"}, InvalidQuery, "unknown parameters for this query: limt"),
        ("counts", "entries", {"limit": "1001"}, InvalidQuery, "a whole number from 1 to 1000"),
        ("counts", "entries", {"limit": "²"}, InvalidQuery, "a whole number from 1 to 1000"),
        ("counts", "entries", {"prefix": "a", "first": "b"}, InvalidQuery, "not both"),
        ("counts", "entries", {"partitions": "a"}, InvalidQuery, "whole numbers, separated"),
        ("counts", "entries", {"at_least": "[]"}, InvalidQuery, "the position"),
        ("counts", "keys", {}, InvalidQuery, "a store has no path /keys"),
        ("windows", "keys/a", {}, InvalidQuery, "expected start_ms"),
        ("sessions", "keys/a", {}, UnsupportedQuery, "has several values"),
        ("counts", "keys/a/windows", {}, UnsupportedQuery, "key-value store counts has no windows"),
        ("counts", "keys/a/versions", {}, UnsupportedQuery, "has no versions"),
        ("versions", "entries", {}, UnsupportedQuery, "can only be queried by key"),
        ("windows", "entries", {"first": "a"}, UnsupportedQuery, "ranges of keys"),
    ],
)
def test_what_is_wrong_is_named(
    store: str, path: str, parameters: dict[str, str], kind: type[ViewError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        read(store, path, **parameters)


def test_rows_are_shown_as_plain_values_or_as_bytes() -> None:
    row = Row("a", {"n": 1}, 5, None, None, b"a")
    spec = STORES["versions"].spec
    assert entry_of(row, spec, "plain") == {
        "key": "a",
        "value": {"n": 1},
        "timestamp_ms": 5,
        "valid_to_ms": None,
    }
    shown = entry_of(row._replace(window=Window(1, 2)), spec, "base64")
    assert base64.b64decode(shown["value"] + "==") == b'{"n":1}'
    assert shown["window"] == {"start_ms": 1, "end_ms": 2}
    with pytest.raises(UnsupportedQuery, match="complex has no JSON form"):
        encode({"value": 1j})
    assert from_base64(to_base64(bytes(range(256))), "x") == bytes(range(256))


def test_the_catalog_knows_what_a_store_depends_on() -> None:
    app = App("deep", key=string, value=string)
    counts = app.stream("in").group_by_key().count(store="counts")
    by_letter = counts.group_by(lambda word, n: (word[0], n), key=string, value=long)
    sums = by_letter.sum(store="sums")
    sums.group_by(lambda letter, n: ("all", n), key=string, value=long).sum(store="total")
    app.table("other", store="other")
    topology = app.topology()
    found = Catalog(topology)
    first, second = (topology.topic(name) for name in topology.repartitions)
    assert found.find("counts").upstream == {"in": ()}
    assert found.find("sums").upstream == {"in": (first,)}
    assert found.find("total").upstream == {"in": (first, second)}
    assert found.find("other").upstream == {"other": ()}
    assert [found.find(name).keys_are_placed for name in ("counts", "sums", "total")] == [False, True, True]
