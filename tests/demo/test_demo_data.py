"""The flights as reports: order, time zones, nulls; and the weather by its hours."""

from __future__ import annotations

import json

import pytest
from demo_runs import TOPICS

from penstock.demo.data import Frames, flight_reports, load_frames, weather_rows
from penstock.demo.scenario import build_scenario


@pytest.fixture(scope="module")
def year() -> Frames:
    return load_frames()


def test_the_whole_year_is_there(year: Frames) -> None:
    assert len(year.flights) == 336_776
    assert [len(year.airlines), len(year.airports), len(year.planes), len(year.weather)] == [
        16,
        1458,
        3322,
        26115,
    ]


def test_days_cut_the_year_by_new_yorks_calendar() -> None:
    days = load_frames(days=2).flights
    assert set(zip(days["month"], days["day"], strict=True)) == {(1, 1), (1, 2)}


def test_each_flight_has_a_key_of_its_own_and_the_time_of_its_departure(year: Frames) -> None:
    reports = flight_reports(year.flights)
    assert reports["key"].is_unique
    assert reports["timestamp_ms"].is_monotonic_increasing
    assert weather_rows(year.weather)["key"].is_unique


@pytest.mark.parametrize(
    ("month", "day", "departure"),
    [
        (1, 1, "2013-01-01T10:15:00Z"),  # 05:15 in New York, five hours behind
        (7, 1, "2013-07-01T09:00:00Z"),  # 05:00, four hours behind
    ],
)
def test_event_time_is_utc(year: Frames, month: int, day: int, departure: str) -> None:
    flights = year.flights
    first = flight_reports(flights[(flights["month"] == month) & (flights["day"] == day)]).iloc[0]
    assert first["sched_dep"] == departure
    assert first["key"].endswith(departure[:13])


def test_a_missing_value_is_null_and_minutes_are_whole() -> None:
    records = build_scenario(load_frames(days=2), TOPICS, 1, seed=1).records
    values = {record.key: record.value for record in records if record.topic == TOPICS.flights}
    delays = [json.loads(value)["dep_delay"] for value in values.values() if value is not None]
    assert None in delays
    assert {type(delay) for delay in delays} == {int, type(None)}
    assert json.loads(values[b"UA 1545 2013-01-01T10"] or b"")["dest"] == "IAH"
