"""The demo's input, made difficult: the reports and changes, and the order in which they arrive.

Reports of flights arrive late and are corrected; planes, airlines, airports and weather change while the
application runs. Records are ordered by the time of sending; a record's timestamp is the flight's scheduled
departure. A seed determines everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.demo.data import Frames, flight_reports, weather_rows
from penstock.demo.topics import Topics
from penstock.protocol.murmur2 import partition_for_key

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# The shares of flights that are reported some time after their departure, or after their hour has closed.
DELAYED, DELAYED_MS = 0.24, (10 * MINUTE_MS, 5 * HOUR_MS)
VERY_LATE, VERY_LATE_MS = 0.01, (8 * HOUR_MS, 2 * DAY_MS)
# The shares of flights that are reported again with another delay, and of those with another plane or
# destination; that are withdrawn, and of those that are reported once more.
CORRECTED, OTHER_PLANE, OTHER_DESTINATION = 0.04, 0.3, 0.1
TAKEN_BACK, REPORTED_ANEW = 0.015, 0.4
CORRECTION_MS = (30 * MINUTE_MS, 3 * DAY_MS)
# The shares of a table's rows that exist only from some time on, are changed, are deleted; and of the deleted
# those that are restored.
NEW, CHANGED, DELETED, RESTORED = 0.1, 0.2, 0.05, 0.5


class Record(NamedTuple):
    """One message before it is sent; a `value` of None is a tombstone."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """The records in the order of sending; `corrections` counts reports that replace or withdraw others."""

    records: list[Record]
    flights: int
    corrections: int
    updates: int


def build_scenario(frames: Frames, topics: Topics, partitions: int, seed: int) -> Scenario:
    """Build all records to send.

    Flights are partitioned by their airline, so that the order of one partition decides which reports are
    late for an airline's hour; all other records are partitioned by key, as in Kafka.
    """
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    reports = flight_reports(frames.flights)
    first = reports.assign(sent_ms=reports["timestamp_ms"] + _delays_ms(len(reports), rng), deleted=False)
    later = _corrections(first, frames, rng)
    sent = pd.concat([first, later], ignore_index=True)
    begin_ms, end_ms = int(sent["sent_ms"].min()), int(reports["timestamp_ms"].max())
    flights = _messages(
        sent,
        topics.flights,
        ["sched_dep", *_fields(reports)],
        sent["carrier"].str.encode("utf-8"),
        partitions,
    )
    parts = [flights]
    updates = 0
    for topic, rows in _tables(frames, topics, begin_ms, end_ms).items():
        changed = _changes(rows, begin_ms, end_ms, rng)
        updates += len(changed)
        columns = [name for name in rows if name not in ("key", "timestamp_ms", "sent_ms")]
        every = pd.concat([rows.assign(deleted=False), changed], ignore_index=True)
        parts.append(_messages(every, topic, columns, every["key"].str.encode("utf-8"), partitions))
    whole = pd.concat(parts, ignore_index=True).sort_values("sent_ms", kind="stable")
    columns = ["topic", "partition", "key", "value", "timestamp_ms"]
    records = list(map(Record, *(whole[name].tolist() for name in columns)))
    return Scenario(records, len(first), len(later), updates)


def _fields(reports: pd.DataFrame) -> list[str]:
    return [name for name in reports if name not in ("sched_dep", "key", "timestamp_ms")]


def _between(span_ms: tuple[int, int], count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(*span_ms, size=count)


def _delays_ms(count: int, rng: np.random.Generator) -> np.ndarray:
    """The time from each flight's departure to its report."""
    import numpy as np

    chance = rng.random(count)
    delays_ms = np.where(chance < DELAYED, _between(DELAYED_MS, count, rng), 0)
    return np.where(chance > 1 - VERY_LATE, _between(VERY_LATE_MS, count, rng), delays_ms)


def _corrections(first: pd.DataFrame, frames: Frames, rng: np.random.Generator) -> pd.DataFrame:
    """Further reports of some flights, after the first ones."""
    import pandas as pd

    corrected = first.sample(frac=CORRECTED, random_state=rng)
    count = len(corrected)
    corrected = corrected.assign(
        dep_delay=corrected["dep_delay"] + rng.integers(-10, 30, count),
        tailnum=corrected["tailnum"].where(
            rng.random(count) >= OTHER_PLANE, rng.choice(frames.planes["tailnum"], count)
        ),
        dest=corrected["dest"].where(
            rng.random(count) >= OTHER_DESTINATION, rng.choice(first["dest"].unique(), count)
        ),
        sent_ms=corrected["sent_ms"] + _between(CORRECTION_MS, count, rng),
    )
    gone = first.sample(frac=TAKEN_BACK, random_state=rng)
    gone = gone.assign(sent_ms=gone["sent_ms"] + _between(CORRECTION_MS, len(gone), rng), deleted=True)
    again = gone.sample(frac=REPORTED_ANEW, random_state=rng)
    again = again.assign(sent_ms=again["sent_ms"] + _between(CORRECTION_MS, len(again), rng), deleted=False)
    return pd.concat([corrected, gone, again], ignore_index=True)


def _tables(frames: Frames, topics: Topics, begin_ms: int, end_ms: int) -> dict[str, pd.DataFrame]:
    """The initial rows of each table; all tables but the weather exist before the first flight."""
    weather = weather_rows(frames.weather)
    weather = weather[weather["timestamp_ms"].between(begin_ms - HOUR_MS, end_ms)]
    weather = weather.assign(sent_ms=weather["timestamp_ms"])
    rows = {
        topics.airlines: frames.airlines.assign(key=frames.airlines["carrier"]),
        topics.airports: frames.airports[["faa", "name"]].assign(key=frames.airports["faa"]),
        topics.planes: frames.planes[["tailnum", "manufacturer", "model", "seats"]].assign(
            key=frames.planes["tailnum"]
        ),
    }
    there = {topic: table.assign(timestamp_ms=begin_ms, sent_ms=begin_ms) for topic, table in rows.items()}
    return there | {topics.weather: weather}


def _changes(rows: pd.DataFrame, begin_ms: int, end_ms: int, rng: np.random.Generator) -> pd.DataFrame:
    """Updates and tombstones of a table's rows, at any time of the run; some rows begin with a tombstone.

    There is at least one row of each kind, even in a small table.
    """
    import numpy as np
    import pandas as pd

    def some(share: float, of: pd.DataFrame) -> pd.DataFrame:
        picked = of.sample(max(1, round(share * len(of))), random_state=rng)
        sent_ms = np.maximum(
            picked["sent_ms"], rng.integers(begin_ms, max(end_ms, begin_ms + 1), len(picked))
        )
        return picked.assign(sent_ms=sent_ms, timestamp_ms=sent_ms, deleted=False)

    absent = rows.sample(max(1, round(NEW * len(rows))), random_state=rng)
    changed = some(CHANGED, rows)
    for column, change in (("name", " (renamed)"), ("seats", 7), ("wind_speed", 3.5), ("visib", -0.5)):
        if column in changed:
            changed[column] = changed[column] + change
    gone = some(DELETED, rows).assign(deleted=True)
    return pd.concat(
        [absent.assign(deleted=True), some(1.0, absent), changed, gone, some(RESTORED, gone)],
        ignore_index=True,
    )


def _messages(
    rows: pd.DataFrame, topic: str, columns: list[str], partition_keys: pd.Series, partitions: int
) -> pd.DataFrame:
    """Convert rows to the key, value and partition of messages."""
    import numpy as np
    import pandas as pd

    lines = rows[columns].to_json(orient="records", lines=True).splitlines()
    values = np.array([line.encode() for line in lines], object)
    values[rows["deleted"].to_numpy(bool)] = None
    placed = {key: partition_for_key(key, partitions) for key in partition_keys.unique()}
    return pd.DataFrame(
        {
            "topic": topic,
            "partition": partition_keys.map(placed),
            "key": rows["key"].str.encode("utf-8"),
            "value": values,
            "timestamp_ms": rows["timestamp_ms"],
            "sent_ms": rows["sent_ms"],
        }
    )
