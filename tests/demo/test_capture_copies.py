"""The demo of change data capture notices unequal copies, and changes lost or repeated in topics."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from penstock.demo.capture.copies import TopicContents, TopicReader, decoded, differences

UNAVAILABLE = "__debezium_unavailable_value"


def change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after}


def read(*changes: tuple[bytes | None, dict[str, Any]]) -> tuple[TopicContents, TopicReader]:
    contents = TopicContents()
    reader = TopicReader(contents)
    for key, each in changes:
        reader.take(key, each)
    return contents, reader


def test_changes_add_up_to_rows() -> None:
    contents, reader = read(
        (b"1", change("r", None, {"id": 1, "version": 4, "manual": "large"})),
        (b"1", change("u", None, {"id": 1, "version": 5, "manual": UNAVAILABLE})),
        (b"2", change("c", None, {"id": 2, "version": 1, "manual": "x"})),
        (b"1", change("d", {"id": 1}, None)),
        (b"3", change("c", None, {"id": 3, "version": 1, "manual": UNAVAILABLE})),  # the key has changed
        (b"2", change("d", {"id": 2}, None)),
    )
    assert reader.rows == {b"3": {"id": 3, "version": 1, "manual": "large"}}
    assert (contents.lost, contents.repeated, contents.records) == (0, 0, 6)
    reader.take(None, change("t", None, None))
    assert reader.rows == {}


def test_lost_and_repeated_changes_are_found() -> None:
    first = (b"1", change("c", None, {"version": 1}))
    second = (b"1", change("u", None, {"version": 2}))
    third = (b"1", change("u", None, {"version": 3}))
    assert read(first, second, third)[0].lost == 0
    assert read(first, third)[0].lost == 1
    assert read(first, second, second)[0].repeated == 1
    assert read((b"1", change("d", None, None)))[0].lost == 1


def test_every_difference_is_described() -> None:
    expected = {(1,): {"id": 1, "n": "a"}, (2,): {"id": 2, "n": "b"}, (3,): {"id": 3, "n": None}}
    found = {(1,): {"id": 1, "n": "a", "more": 1}, (2,): {"id": 2, "n": "c"}, (4,): {"id": 4}}
    assert differences(expected, expected) == []
    assert differences(found, expected) == [
        "(2,): n is 'c', not 'b'",
        "(3,) is missing",
        "(4,) should not be there",
    ]
    assert differences(found, expected, ["id"]) == ["(3,) is missing", "(4,) should not be there"]


def test_values_of_debezium_are_decoded() -> None:
    row = {"day": 1, "price": 7, "made": "2026-01-02T03:04:05.5Z", "name": "x", "stock": None}
    found = decoded(row)
    assert found["day"] == date(1970, 1, 2)
    assert found["price"] == Decimal(7)
    assert found["made"].isoformat() == "2026-01-02T03:04:05.500000+00:00"
    assert found["name"] == "x"
