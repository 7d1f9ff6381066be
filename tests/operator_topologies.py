"""One small topology for each operator with windows or joins: topics ``left`` and ``right`` in, ``out`` out.

`streams/kafka_streams/Operators.java` defines the same topologies under the same names.
"""

from collections.abc import Callable
from typing import Any

from penstock.streams import (
    App,
    Stream,
    Table,
    Windowed,
    hopping,
    sessions,
    sliding,
    string,
    tumbling,
    until_time_limit,
    until_window_closes,
)


def joined(one: str | None, other: str | None) -> str:
    return f"{_shown(one)}+{_shown(other)}"


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def foreign_key(key: str | None, value: str) -> str | None:
    """The text before the first colon, or None if that is "x"."""
    found = value.split(":")[0]
    return None if found == "x" else found


def windowed_key(windowed: Windowed[str], value: Any) -> str:
    return f"{windowed.key}@{windowed.window.start_ms}/{windowed.window.end_ms}"


def _joined_text(one: str, other: str) -> str:
    return one + other


def _left(app: App) -> Stream[str, str]:
    return app.stream("left", key=string, value=string)


def _right(app: App) -> Stream[str, str]:
    return app.stream("right", key=string, value=string)


def _table(app: App, topic: str) -> Table[str, str]:
    return app.table(topic, key=string, value=string)


def _kept(app: App) -> Table[str, str]:
    return app.table("left", key=string, value=string, store="left-store")


def _windows(app: App, windows: Any, emit: Any = "on_update") -> Table[Windowed[str], str]:
    grouped = _left(app).group_by_key().windowed_by(windows, emit=emit)
    return grouped.reduce(_joined_text)


def _windows_out(table: Table[Windowed[str], Any]) -> None:
    table.to_stream().map(lambda w, v: (windowed_key(w, v), v), key=string, value=string).to("out")


def _table_out(table: Table[str, str]) -> None:
    table.to_stream().to("out")


def _tumbling_counts(app: App) -> None:
    counts = _left(app).group_by_key().windowed_by(tumbling("10 ms", grace="5 ms")).count()
    counts.to_stream().map(
        lambda w, v: (windowed_key(w, v), None if v is None else str(v)), key=string, value=string
    ).to("out")


def _table_grouped(app: App) -> None:
    both = _table(app, "left").outer_join(_table(app, "right"), joined, value=string)
    grouped = both.group_by(lambda key, value: ("all", value), key=string, value=string)
    _table_out(grouped.reduce(lambda one, other: f"{one},{other}", lambda one, other: f"{one}-{other}"))


def _foreign(app: App, *, left: bool) -> None:
    one, other = _table(app, "left"), _table(app, "right")
    join = one.left_join if left else one.join
    _table_out(join(other, joined, on=foreign_key, value=string))


def _suppress_grouped(app: App) -> None:
    held = _kept(app).suppress(until_time_limit("10 ms"))
    texts = held.group_by(lambda key, value: ("all", value), key=string, value=string).aggregate(
        lambda: "", lambda key, new, text: f"{text}+{new}", lambda key, old, text: f"{text}-{old}"
    )
    _table_out(texts)


TEN_FIVE = tumbling("10 ms", grace="5 ms")
TOPOLOGIES: dict[str, Callable[[App], None]] = {
    "tumbling": _tumbling_counts,
    "hopping": lambda app: _windows_out(_windows(app, hopping("10 ms", advance="4 ms", grace="7 ms"))),
    "sliding": lambda app: _windows_out(_windows(app, sliding("10 ms", grace="8 ms"))),
    "sliding-never-late": lambda app: _windows_out(_windows(app, sliding("10 ms", grace="10 minutes"))),
    "sessions": lambda app: _windows_out(_windows(app, sessions("6 ms", grace="9 ms"))),
    "tumbling-close": lambda app: _windows_out(_windows(app, TEN_FIVE, "on_close")),
    "hopping-close": lambda app: _windows_out(
        _windows(app, hopping("10 ms", advance="4 ms", grace="5 ms"), "on_close")
    ),
    "sliding-close": lambda app: _windows_out(_windows(app, sliding("10 ms", grace="5 ms"), "on_close")),
    "sessions-close": lambda app: _windows_out(_windows(app, sessions("6 ms", grace="5 ms"), "on_close")),
    "suppress-close": lambda app: _windows_out(_windows(app, TEN_FIVE).suppress(until_window_closes())),
    "suppress-sessions": lambda app: _windows_out(
        _windows(app, sessions("6 ms", grace="5 ms")).suppress(until_window_closes())
    ),
    "suppress-time": lambda app: _table_out(_kept(app).suppress(until_time_limit("10 ms"))),
    "suppress-rows": lambda app: _table_out(_kept(app).suppress(until_time_limit("50 ms", max_rows=2))),
    "suppress-grouped": _suppress_grouped,
    "stream-inner": lambda app: (
        _left(app).join(_right(app), joined, within="10 ms", grace="6 ms", value=string).to("out")
    ),
    "stream-left": lambda app: (
        _left(app).left_join(_right(app), joined, within="10 ms", value=string).to("out")
    ),
    "stream-outer": lambda app: (
        _left(app).outer_join(_right(app), joined, within="10 ms", value=string).to("out")
    ),
    "stream-outer-grace": lambda app: (
        _left(app).outer_join(_right(app), joined, within="10 ms", grace="8 ms", value=string).to("out")
    ),
    "stream-before": lambda app: (
        _left(app).join(_right(app), joined, within="10 ms", after="0 ms", value=string).to("out")
    ),
    "stream-table": lambda app: _left(app).join(_table(app, "right"), joined, value=string).to("out"),
    "stream-table-left": lambda app: (
        _left(app).left_join(_table(app, "right"), joined, value=string).to("out")
    ),
    "stream-versioned": lambda app: (
        _left(app)
        .left_join(
            app.table("right", key=string, value=string, store="versions", history="1 second"),
            joined,
            value=string,
        )
        .to("out")
    ),
    "stream-versioned-grace": lambda app: (
        _left(app)
        .left_join(
            app.table("right", key=string, value=string, store="versions", history="1 second"),
            joined,
            grace="10 ms",
            value=string,
        )
        .to("out")
    ),
    "table-inner": lambda app: _table_out(
        _table(app, "left").join(_table(app, "right"), joined, value=string)
    ),
    "table-left": lambda app: _table_out(
        _table(app, "left").left_join(_table(app, "right"), joined, value=string)
    ),
    "table-outer": lambda app: _table_out(
        _table(app, "left").outer_join(_table(app, "right"), joined, value=string)
    ),
    "table-grouped": _table_grouped,
    "foreign": lambda app: _foreign(app, left=False),
    "foreign-left": lambda app: _foreign(app, left=True),
    "global": lambda app: (
        _left(app)
        .join(app.global_table("right", key=string, value=string), joined, on=foreign_key, value=string)
        .to("out")
    ),
    "global-left": lambda app: (
        _left(app)
        .left_join(app.global_table("right", key=string, value=string), joined, on=foreign_key, value=string)
        .to("out")
    ),
}


def application(name: str, rekeyed: bool = False) -> App:
    """An application with the topology of this name; ``rekeyed`` puts it behind repartition topics."""
    app = (Rekeyed if rekeyed else App)("oracle", key=string, value=string)
    TOPOLOGIES[name](app)
    return app


class Rekeyed(App):
    """A builder whose streams and tables take their keys from the values, where `in_the_value` put them."""

    def stream(self, topic: Any, **serdes: Any) -> Stream[Any, Any]:
        return super().stream(topic, **serdes).map(_from_the_value, key=string, value=string)

    def table(self, topic: str, **how: Any) -> Table[Any, Any]:
        return self.stream(topic).to_table(store=how.get("store"))


def in_the_value(key: str, value: str | None) -> str:
    """Combine a key and a value, which may be null, into one value."""
    return f"{key}={'' if value is None else value}"


def _from_the_value(key: str | None, text: str) -> tuple[str, str | None]:
    key, _, value = text.partition("=")
    return key, value or None
