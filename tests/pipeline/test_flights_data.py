"""The flights as events: order, time zones, nulls; and rows as table records."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from penstock.spark.flights.data import (
    Frames,
    end_record,
    flight_records,
    load_frames,
    table_records,
)


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


def test_events_are_in_order_and_stamped_with_their_departure(year: Frames) -> None:
    records = flight_records(year.flights)
    assert len(records) == len(year.flights)
    assert all(one.timestamp_ms <= next_one.timestamp_ms for one, next_one in pairwise(records))


@pytest.mark.parametrize(
    ("month", "day", "departure"),
    [
        (1, 1, "2013-01-01T10:15:00Z"),  # 05:15 in New York, five hours behind
        (7, 1, "2013-07-01T09:00:00Z"),  # 05:00, four hours behind
    ],
)
def test_event_time_is_utc(year: Frames, month: int, day: int, departure: str) -> None:
    flights = year.flights
    first = flight_records(flights[(flights["month"] == month) & (flights["day"] == day)])[0]
    assert json.loads(first.value)["sched_dep"] == departure


def test_a_missing_value_is_null_and_minutes_are_whole(year: Frames) -> None:
    flights = year.flights
    cancelled = json.loads(flight_records(flights[flights["dep_time"].isna()].head(1))[0].value)
    assert cancelled["dep_time"] is None
    assert cancelled["dep_delay"] is None
    flown = flight_records(flights.head(1))[0]
    assert flown.key == "UA 1545"
    event = json.loads(flown.value)
    assert event["event"] == "flight"
    assert event["dep_delay"] == 2
    assert isinstance(event["dep_delay"], int)


def test_table_records_carry_every_column_exactly(year: Frames) -> None:
    records = table_records(year.weather.head(3), ["origin", "time_hour"])
    assert records[0].key == "EWR 2013-01-01T06:00:00Z"
    row = json.loads(records[0].value)
    assert row["wind_speed"] == year.weather["wind_speed"][0]
    assert row["wind_gust"] is None
    assert set(row) == set(year.weather.columns)


def test_the_end_event_carries_its_moment_and_nothing_else() -> None:
    record = end_record(1_388_541_540_000)
    assert json.loads(record.value) == {"event": "end", "sched_dep": "2014-01-01T01:59:00Z"}
    assert record.timestamp_ms == 1_388_541_540_000
