"""The expected results, computed by pandas from the log of the application's input.

This module is independent of `application.py`: they share only the rules, which are those of Kafka Streams.
It reads the whole log as any client does, and merges and groups frames.

- **Tables**: the last record of a key in its partition counts; a tombstone removes the key.
- **Hours**: the stream time of a partition is the greatest timestamp in it so far. A report is too late once
  stream time, its own timestamp included, has reached its hour's end plus the grace; an hour is final, and
  sent, when stream time at the end has reached the same point.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.demo.topics import Topics

if TYPE_CHECKING:
    import pandas as pd

    from penstock.demo.log import LogRecord

HOUR = 60 * 60 * 1000
GRACE = 6 * HOUR
REPORT = ["carrier", "tailnum", "origin", "dest", "sched_dep", "dep_delay"]
WEATHER = ["wind_speed", "visib"]
SUMS = ["flights", "cancelled", "delayed", "minutes"]


@dataclass(frozen=True, slots=True)
class Expected:
    """The results by topic, each indexed by its key; and counts of difficult flight reports in the input."""

    results: Mapping[str, pd.DataFrame]
    reports: int
    out_of_order: int
    too_late: int
    tombstones: int


def expected_results(logs: Mapping[str, Sequence[LogRecord]], topics: Topics) -> Expected:
    """Compute the results from ``logs``, the records of each input topic in the order of their partitions."""
    reports = _parsed(logs[topics.flights], REPORT)
    known = _latest(reports)
    planes = _latest(_parsed(logs[topics.planes], ["seats"]))
    airlines = _latest(_parsed(logs[topics.airlines], ["name"]))
    airports = _latest(_parsed(logs[topics.airports], ["name"]))
    weather = _latest(_parsed(logs[topics.weather], WEATHER))

    known["seats"] = known["tailnum"].map(planes["seats"]).fillna(0)
    known["hour"] = known["origin"] + " " + known["sched_dep"].str.slice(0, len("2013-01-01T10"))
    by_airline = _sums(known, "carrier", [*SUMS, "seats"])
    by_airline.insert(0, "airline", by_airline.index.map(airlines["name"]))
    by_destination = _sums(known, "dest", SUMS)
    by_destination.insert(0, "airport", by_destination.index.map(airports["name"]))
    by_hour = _sums(known, "hour", SUMS)
    by_hour = by_hour.join(weather[WEATHER])

    live = reports[~reports["deleted"]].copy()
    stream_time = live.groupby("partition")["timestamp_ms"].cummax()
    live["hour_ms"] = live["timestamp_ms"] // HOUR * HOUR
    too_late = live["hour_ms"] + HOUR + GRACE <= stream_time
    at_the_end = live["partition"].map(live.groupby("partition")["timestamp_ms"].max())
    counted = live[~too_late & (live["hour_ms"] + HOUR + GRACE <= at_the_end)].copy()
    counted["at"] = counted["carrier"] + " " + counted["hour_ms"].astype(str)
    return Expected(
        {
            topics.airline_delays: by_airline,
            topics.destination_delays: by_destination,
            topics.weather_delays: by_hour,
            topics.hours: _sums(counted, "at", SUMS),
        },
        reports=len(reports),
        out_of_order=int((live["timestamp_ms"] < stream_time).sum()),
        too_late=int(too_late.sum()),
        tombstones=int(reports["deleted"].sum()),
    )


def _parsed(log: Sequence[LogRecord], fields: list[str]) -> pd.DataFrame:
    """The fields of each value, with its record's key, partition, timestamp, and a flag for tombstones."""
    import pandas as pd

    values = json.loads(b"[" + b",".join(record.value or b"{}" for record in log) + b"]")
    frame = pd.DataFrame.from_records(values).reindex(columns=fields)
    frame["key"] = [record.key.decode() for record in log]
    frame["partition"] = [record.partition for record in log]
    frame["timestamp_ms"] = [record.timestamp_ms for record in log]
    frame["deleted"] = pd.Series([record.value is None for record in log], dtype=bool)
    return frame


def _latest(records: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table, by key."""
    last = records.drop_duplicates("key", keep="last")
    return last[~last["deleted"]].set_index("key")


def _sums(reports: pd.DataFrame, by: str, columns: list[str]) -> pd.DataFrame:
    delays = reports["dep_delay"]
    counted = reports.assign(
        flights=1, cancelled=delays.isna(), delayed=delays > 15, minutes=delays.fillna(0)
    )
    return counted.groupby(by)[columns].sum()
