"""What the pipeline must find, computed by pandas from the original frames.

Written apart from `pipeline.py` and sharing nothing with it but the thresholds' meaning: it never sees an
event, takes New York's wall clock for the time, and merges and groups with pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.flights.data import Frames

if TYPE_CHECKING:
    import pandas as pd


def expected_delays(frames: Frames) -> pd.DataFrame:
    """Return one row per hour, origin and carrier, with the columns of the delays topic."""
    flights = _enriched(frames)
    keys = ["hour", "origin", "carrier"]
    departed = flights[flights["dep_delay"].notna()]
    summary = flights.groupby(keys).agg(
        airport=("airport", "first"),
        airline=("airline", "first"),
        flights=("flight", "size"),
        seats=("seats", "sum"),
        bad_weather=("bad_weather", "sum"),
    )
    delays = departed.groupby(keys)["dep_delay"].agg(["size", "sum"])
    summary = summary.join(delays)
    summary["delayed"] = flights[flights["dep_delay"] > 15].groupby(keys).size()
    summary["delayed"] = summary["delayed"].fillna(0)
    summary["cancelled"] = summary["flights"] - summary["size"].fillna(0)
    summary["delay_mean"] = summary["sum"] / summary["size"]
    by_delay = departed.sort_values(["dep_delay", "flight", "destination"])
    worst = by_delay.drop_duplicates(keys, keep="last").set_index(keys)
    summary["delay_max"] = worst["dep_delay"]
    summary["worst_flight"] = worst["flight"]
    summary["worst_destination"] = worst["destination"]
    return summary.rename(columns={"sum": "delay_sum"}).drop(columns="size").reset_index()


def _enriched(frames: Frames) -> pd.DataFrame:
    import pandas as pd

    flights = frames.flights
    wall_clock = pd.to_datetime(flights[["year", "month", "day", "hour"]])
    hours = wall_clock.dt.tz_localize("America/New_York").dt.tz_convert("UTC")
    flights = flights.assign(hour=hours.dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    flights = flights.merge(frames.airlines.rename(columns={"name": "airline"}), on="carrier", how="left")
    names = frames.airports.set_index("faa")["name"]
    flights["airport"] = flights["origin"].map(names)
    flights["destination"] = flights["dest"].map(names).fillna(flights["dest"])
    flights["seats"] = flights["tailnum"].map(frames.planes.set_index("tailnum")["seats"])
    weather = frames.weather
    bad = (weather["precip"] > 0) | (weather["visib"] < 3) | (weather["wind_speed"] >= 25)
    bad_hours = pd.MultiIndex.from_frame(weather.loc[bad, ["origin", "time_hour"]])
    flights["bad_weather"] = pd.MultiIndex.from_frame(flights[["origin", "hour"]]).isin(bad_hours)
    return flights
