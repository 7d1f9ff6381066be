"""Applications for each operator, records for them, and the results of TopologyTest."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafka_streams_cases import CASES
from penstock.streams import (
    App,
    Processor,
    Record,
    TopologyTest,
    hopping,
    key_value_store,
    long,
    sessions,
    sliding,
    string,
    tumbling,
    until_window_closes,
)

Row = tuple[str, bytes | None, bytes | None, int]
"""``(topic, key, value, timestamp_ms)``."""


def _joined(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


def _left(app: App) -> Any:
    return app.stream("in")


def _windowed(windows: Any) -> Callable[[App], None]:
    def build(app: App) -> None:
        counts = _left(app).group_by_key().windowed_by(windows).count(store="windows")
        counts.to_stream(lambda key, value: f"{key.key}@{key.window.start_ms}").map_values(str).to("out")

    return build


def _suppressed(app: App) -> None:
    counts = _left(app).group_by_key().windowed_by(tumbling("20 ms", grace="5 ms")).count(store="windows")
    final = counts.suppress(until_window_closes())
    final.to_stream(lambda key, value: f"{key.key}@{key.window.start_ms}").map_values(str).to("out")


def _stream_join(app: App) -> None:
    _left(app).join(app.stream("other"), _joined, within="15 ms", value=string).to("out")


def _table_join(app: App) -> None:
    app.table("in", store="one").left_join(app.table("other", store="two"), _joined).to_stream().to("out")


def _enriched(app: App) -> None:
    _left(app).left_join(app.table("other", store="rows"), _joined, value=string).to("out")


def _globally(app: App) -> None:
    rows = app.global_table("other", store="rows")
    _left(app).left_join(rows, _joined, on=lambda k, v: v, value=string).to("out")


def _by_foreign_key(app: App) -> None:
    rows = app.table("other", store="rows")
    app.table("in", store="one").left_join(rows, _joined, on=lambda k, v: v).to_stream().to("out")


class Silence(Processor[str, str, str, str]):
    """A processor that reports a key after 20 ms of stream time without a record."""

    def process(self, record: Record[str, str]) -> None:
        self.context.store("seen").put(record.key, record.timestamp_ms, record.timestamp_ms)
        self.context.set_timer(record.key, record.timestamp_ms + 20)

    def on_timer(self, key: str, time_ms: int, kind: str) -> None:
        seen_ms = self.context.store("seen").get(key)
        if seen_ms + 20 <= time_ms:
            self.context.forward(Record(key, f"silent since {seen_ms}", time_ms))


def _timed(app: App) -> None:
    seen = key_value_store("seen", key=string, value=long)
    _left(app).process(Silence, stores=[seen], timers=True, key=string, value=string).to("out")


MERGED = ("stateless", "several topics")
"""Parts without state that read several topics: the order among the topics is undefined."""

EVENTUAL = ("foreign-key join",)
"""Results that pass through two topics: the order of updates is undefined, the last one per key is not."""

OPERATORS: dict[str, Callable[[App], object]] = CASES | {
    "tumbling": _windowed(tumbling("10 ms", grace="20 ms")),
    "hopping": _windowed(hopping("10 ms", advance="4 ms", grace="7 ms")),
    "sliding": _windowed(sliding("10 ms", grace="8 ms")),
    "sessions": _windowed(sessions("6 ms", grace="9 ms")),
    "suppress": _suppressed,
    "stream join": _stream_join,
    "table join": _table_join,
    "stream-table join": _enriched,
    "foreign-key join": _by_foreign_key,
    "global join": _globally,
    "timers": _timed,
}


def app_of(case: str, name: str = "app") -> App:
    app = App(name, key=string, value=string)
    OPERATORS[case](app)
    return app


def rows_of(case: str, count: int = 60, keys: str = "abcd") -> list[Row]:
    """Rows in the order in which tasks read them, with nulls; global tables come first and stay unchanged."""
    topology, rng = app_of(case).topology(), random.Random(case)
    topics = [topic for topic in ("in", "other") if topic in topology.source_topics()]
    rows: list[Row] = []
    for topic in topology.globals:
        rows += [(topic, b"%d" % n, b"row %d" % n, 0) for n in range(3)]
    now_ms = 1
    for _ in range(count):
        now_ms += rng.choice([1, 2, 5, 10, 30])
        key = rng.choice([*keys, None]) if case in CASES else rng.choice(keys)
        value = rng.choice(["0", "1", "2", "3", None]) if case in CASES else rng.choice("0123")
        row = (None if key is None else key.encode(), None if value is None else value.encode())
        rows.append((rng.choice(topics), *row, now_ms))
    return rows


def answers_of(case: str, rows: list[Row], partitions: int = 1) -> dict[str, list[tuple]]:
    """The (key, value, timestamp) of each topic's records, in order, without the application's own topics."""
    app = app_of(case)
    test = TopologyTest(app, partitions=partitions)
    for topic, key, value, timestamp_ms in rows:
        test.input(topic).pipe_bytes(key, value, timestamp=timestamp_ms)
    owned = set(app.topology().source_topics()) | set(app.topology().globals)
    return {
        topic: [(record[2], record[3], record[4]) for record in records]
        for topic, records in test._written.items()
        if topic not in owned and records
    }


def comparable(case: str, sent: dict[str, list[tuple]]) -> dict[str, object]:
    """The records sent to each topic, without their order where it is undefined: see `MERGED`, `EVENTUAL`."""
    if case in EVENTUAL:
        return {topic: {key: value for key, value, _ in rows} for topic, rows in sent.items()}
    if case in MERGED:
        return {topic: sorted(rows, key=repr) for topic, rows in sent.items()}
    return dict(sent)
