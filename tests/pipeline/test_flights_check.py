"""The comparison itself: it must see every kind of difference."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from penstock.spark.flights.check import COLUMN_TYPES, KEY, comparable, compare, result_frame
from penstock.spark.flights.data import load_frames
from penstock.spark.flights.expected import expected_delays


def row(hour: str = "2013-01-01T10:00:00Z", **fields: object) -> bytes:
    values: dict[str, object] = dict.fromkeys([*KEY, *COLUMN_TYPES])
    values |= {"hour": hour, "origin": "JFK", "carrier": "B6", "flights": 3, "delay_mean": 35 / 3}
    return json.dumps(values | fields).encode()


def differences(left: list[bytes], right: list[bytes]) -> list[str]:
    return compare("left", result_frame(left), "right", result_frame(right)).differences


def test_equal_results_in_any_order() -> None:
    one, other = row(), row(hour="2013-01-01T11:00:00Z")
    assert differences([one, other], [other, one]) == []
    assert differences([], []) == []


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"flights": 4}, "flights is 3 in left, 4 in right"),
        ({"delay_mean": 35 / 3 + 2e-15}, "delay_mean is"),
        ({"delay_mean": None}, "delay_mean is"),
        ({"airline": "JetBlue"}, "airline is <NA> in left, JetBlue in right"),
        ({"carrier": "UA"}, "not in right"),
    ],
)
def test_any_other_value_is_a_difference(fields: dict[str, object], found: str) -> None:
    assert any(found in line for line in differences([row()], [row(**fields)]))


def test_missing_and_repeated_rows_are_differences() -> None:
    key = "2013-01-01T10:00:00Z JFK B6"
    assert differences([row()], []) == [f"{key}: not in right"]
    assert differences([], [row()]) == [f"{key}: not in left"]
    assert differences([row(), row()], [row()]) == [f"{key}: more than once in left"]


def test_pandas_finds_the_known_worst_flight_of_the_year() -> None:
    delays = comparable(expected_delays(load_frames()))
    worst = delays.loc[delays["delay_max"].idxmax()]
    assert (worst["delay_max"], worst["worst_flight"], worst["airline"]) == (
        1301,
        51,
        "Hawaiian Airlines Inc.",
    )
    assert delays["flights"].sum() == 336_776
    assert delays["cancelled"].sum() == 8_255
    assert isinstance(delays, pd.DataFrame)
