"""The demo's computation: one streams application, written as an example of a real one.

It reads the topic of flights in two ways at once. As a *stream*, each report is a fact at its time: every
airline's hours are sent once, when they close; reports later than `GRACE` are dropped. As a *table*, it is
the current knowledge: a new report of a flight replaces the last, a tombstone removes it, and every sum
follows, through each join and grouping.

    flights ─┬─ stream ─ by airline ─ hours, final ─────────────────────────────▶ hours
             └─ table ──┬─ by the plane that flew it ⟕ planes ─ by airline ⟕ airlines ─▶ airline-delays
                        ├─ by destination ⟕ airports ──────────────────────────▶ destination-delays
                        └─ by airport and hour ⟕ weather ───────────────────────▶ weather-delays
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from penstock.demo.topics import Topics
from penstock.streams import App, Windowed, json, string, tumbling

Row: TypeAlias = dict[str, Any]

GRACE: Final = "6 hours"
DELAYED_MINUTES: Final = 15
"""A departure is delayed if it is later than this, by the usual definition."""

_EMPTY: Final = {"flights": 0, "cancelled": 0, "delayed": 0, "minutes": 0}


def build(topics: Topics) -> App:
    """Build the application over these topics; its name is their prefix."""
    app = App(topics.prefix, key=string, value=json)
    reports = app.stream(topics.flights)
    known = reports.to_table(store="flights")

    hours = (
        reports.filter(lambda flight, report: report is not None)
        .group_by(lambda flight, report: report["carrier"], name="reports-by-airline")
        .windowed_by(tumbling("1 hour", grace=GRACE), emit="on_close")
        .aggregate(lambda: _EMPTY, add, store="hours")
    )
    hours.to_stream().map(_hour).to(topics.hours)

    planes = app.table(topics.planes, store="planes")
    flown = known.left_join(planes, with_seats, on=lambda flight, report: report["tailnum"], name="flown")
    airlines = (
        flown.group_by(lambda flight, flown: (flown["carrier"], flown), name="by-airline")
        .aggregate(lambda: _EMPTY, add, take, store="airline-sums")
        .left_join(app.table(topics.airlines, store="airlines"), named("airline"))
    )
    airlines.to_stream().to(topics.airline_delays)

    destinations = (
        known.group_by(lambda flight, report: (report["dest"], delay(report)), name="by-destination")
        .aggregate(lambda: _EMPTY, add, take, store="destination-sums")
        .left_join(app.table(topics.airports, store="airports"), named("airport"))
    )
    destinations.to_stream().to(topics.destination_delays)

    by_weather = (
        known.group_by(lambda flight, report: (weather_key(report), delay(report)), name="by-hour")
        .aggregate(lambda: _EMPTY, add, take, store="hour-sums")
        .left_join(app.table(topics.weather, store="weather"), with_weather)
    )
    by_weather.to_stream().to(topics.weather_delays)
    return app


def add(group: str, report: Row, sums: Row) -> Row:
    """Add one flight to the sums."""
    return _moved(report, sums, 1)


def take(group: str, report: Row, sums: Row) -> Any:
    """Remove one flight from the sums; return None, which deletes the group, if it was the last."""
    return _moved(report, sums, -1) if sums["flights"] > 1 else None


def _moved(report: Row, sums: Row, sign: int) -> Row:
    minutes = report["dep_delay"]  # null: the flight never left
    moved = {
        "flights": sums["flights"] + sign,
        "cancelled": sums["cancelled"] + sign * (minutes is None),
        "delayed": sums["delayed"] + sign * (minutes is not None and minutes > DELAYED_MINUTES),
        "minutes": sums["minutes"] + sign * (minutes or 0),
    }
    if "seats" in report:
        moved["seats"] = sums.get("seats", 0) + sign * report["seats"]
    return moved


def delay(report: Row) -> Row:
    """Only those fields of a report that the sums need, since it goes through a topic."""
    return {"dep_delay": report["dep_delay"]}


def with_seats(report: Row, plane: Row | None) -> Row:
    seats = 0 if plane is None else plane["seats"]
    return {"carrier": report["carrier"], "dep_delay": report["dep_delay"], "seats": seats}


def named(what: str) -> Any:
    """A joiner that adds the name of an airline or airport to its sums."""
    return lambda sums, row: {what: None if row is None else row["name"], **sums}


def with_weather(sums: Row, weather: Row | None) -> Row:
    known = weather or {"wind_speed": None, "visib": None}
    return {"wind_speed": known["wind_speed"], "visib": known["visib"], **sums}


def weather_key(report: Row) -> str:
    """``JFK 2013-01-01T10``: airport and hour, like the keys of the weather."""
    return f"{report['origin']} {report['sched_dep'][:13]}"


def _hour(at: Windowed[str], sums: Row) -> tuple[str, Row]:
    return at.key, {"hour_ms": at.window.start_ms, **sums}
