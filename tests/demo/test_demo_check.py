"""The comparison itself: it must find every kind of difference."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from demo_runs import TOPICS, logs_of

from penstock.demo.check import compare, hours_of, table_of
from penstock.demo.data import flight_reports, load_frames
from penstock.demo.expected import expected_results
from penstock.demo.log import LogRecord
from penstock.demo.scenario import Record


def row(key: str = "JFK", **fields: object) -> LogRecord:
    values: dict[str, object] = {"airport": "Kennedy", "flights": 3, "minutes": None}
    return LogRecord(0, key.encode(), json.dumps(values | fields).encode(), 0)


def differences(found: list[LogRecord], expected: list[LogRecord]) -> list[str]:
    return compare("topic", table_of(found), table_of(expected)).differences


def test_equal_results_in_any_order() -> None:
    one, other = row(), row("EWR", minutes=2)
    assert differences([one, other], [other, one]) == []
    assert differences([row("EWR"), row(), other], [one, other]) == []
    assert differences([], []) == []


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (row(flights=4), "JFK: flights is 3, expected 4"),
        (row(minutes=1), "JFK: minutes is None, expected 1"),
        (row(airport=None), "JFK: airport is Kennedy, expected None"),
        (row(seats=1), "field seats: missing"),
        (row("LGA"), "JFK: not expected"),
    ],
)
def test_any_other_value_is_a_difference(record: LogRecord, said: str) -> None:
    assert said in differences([row()], [record])


def test_missing_and_deleted_rows_are_differences() -> None:
    gone = LogRecord(0, b"JFK", None, 0)
    assert differences([row()], []) == ["JFK: not expected"]
    assert differences([], [row()]) == ["JFK: missing"]
    assert differences([row(), gone], [row()]) == ["JFK: missing"]
    assert differences([gone, row()], [row()]) == []


def test_an_hour_that_was_sent_twice_is_a_difference() -> None:
    hour = LogRecord(0, b"B6", b'{"hour_ms": 3600000, "flights": 2}', 0)
    expected = pd.DataFrame({"flights": [2]}, index=["B6 3600000"])
    assert compare("hours", hours_of([hour]), expected).equal
    assert compare("hours", hours_of([hour, hour]), expected).differences == ["B6 3600000: more than once"]


def report(key: str, minute: int, **fields: object) -> Record:
    values = {"sched_dep": "2013-01-01T10:00:00Z", "carrier": "B6", "tailnum": "N1", "origin": "JFK"}
    sent = json.dumps({**values, "dest": "IAH", "dep_delay": 20, **fields}).encode()
    return Record(TOPICS.flights, 0, key.encode(), sent, minute * 60_000)


def test_pandas_goes_by_the_rules() -> None:
    """The result depends on two rules: which record of a table counts, and which is late for its hour."""
    grace = 6 * 60
    records = [
        Record(TOPICS.airlines, 0, b"B6", b'{"name": "JetBlue"}', 0),
        Record(TOPICS.airports, 0, b"IAH", None, 0),
        Record(TOPICS.planes, 0, b"N1", b'{"seats": 100}', 0),
        Record(TOPICS.planes, 0, b"N1", b'{"seats": 200}', 0),
        Record(TOPICS.weather, 0, b"JFK 2013-01-01T10", b'{"wind_speed": 9.5, "visib": 10.0}', 0),
        report("a", 10),
        report("b", 60 + grace - 1),
        report("c", 20),  # just in time
        report("d", 60 + grace),  # closes the first hour
        report("e", 30),  # too late for it, but in the other results
        report("a", 10, dep_delay=None, tailnum=None),  # too late, and cancelled now
        Record(TOPICS.flights, 0, b"d", None, 0),
    ]
    expected = expected_results(logs_of(records), TOPICS)
    hours = expected.results[TOPICS.hours].to_dict("index")
    assert hours == {"B6 0": {"flights": 2, "cancelled": 0, "delayed": 2, "minutes": 40}}
    known = {"flights": 4, "cancelled": 1, "delayed": 3, "minutes": 60}
    results = {topic: found.to_dict("index") for topic, found in expected.results.items()}
    assert results[TOPICS.airline_delays] == {"B6": {"airline": "JetBlue", **known, "seats": 600}}
    (destination,) = results[TOPICS.destination_delays].values()
    assert pd.isna(destination.pop("airport"))
    assert destination == known
    assert results[TOPICS.weather_delays] == {
        "JFK 2013-01-01T10": {**known, "wind_speed": 9.5, "visib": 10.0}
    }
    assert (expected.reports, expected.too_late, expected.tombstones) == (7, 2, 1)


def test_pandas_finds_the_known_sums_of_january() -> None:
    reports = flight_reports(load_frames(31).flights)
    records = [
        Record(TOPICS.flights, 0, key.encode(), line.encode(), at)
        for key, line, at in zip(
            reports["key"],
            reports.drop(columns=["key", "timestamp_ms"]).to_json(orient="records", lines=True).splitlines(),
            reports["timestamp_ms"],
            strict=True,
        )
    ]
    logs = {**dict.fromkeys(TOPICS.inputs, ()), **logs_of(records)}
    expected = expected_results(logs, TOPICS)
    airlines = expected.results[TOPICS.airline_delays]
    assert airlines["flights"].sum() == 27_004
    assert airlines["cancelled"].sum() == 521
    assert expected.out_of_order == expected.too_late == 0
