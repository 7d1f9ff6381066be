"""The topologies of kafka_streams/Oracle.java written with penstock.streams, under the same names."""

from __future__ import annotations

from collections.abc import Callable

from penstock.streams import App, string

CASES: dict[str, Callable[[App], object]] = {}


def _case(name: str) -> Callable[[Callable[[App], object]], Callable[[App], object]]:
    def register(build: Callable[[App], object]) -> Callable[[App], object]:
        CASES[name] = build
        return build

    return register


def build(name: str) -> App:
    """A fresh application with the topology of this name."""
    app = App("app", key=string, value=string)
    CASES[name](app)
    return app


@_case("stateless")
def stateless(app: App) -> None:
    stream = app.stream("in")
    (
        stream.filter(lambda k, v: v is not None and v != "0")
        .filter_not(lambda k, v: v == "1")
        .map_values(lambda v: v + v)
        .flat_map(lambda k, v: [(k, v), (v, k)])
        .select_key(lambda k, v: v)
        .peek(lambda k, v: None)
        .to("out")
    )
    stream.foreach(lambda k, v: None)
    stream.merge(app.stream("other")).flat_map_values(lambda v: [] if v is None else [v, v]).to("merged")


@_case("split")
def split(app: App) -> None:
    branches = app.stream("in").split(
        {"zero": lambda k, v: v == "0", "small": lambda k, v: v is not None and v < "3"},
        default="rest",
        name="by-",
    )
    branches["zero"].to("zeros")
    branches["small"].to("small")
    branches["rest"].to("rest")


@_case("split without a name")
def split_without_a_name(app: App) -> None:
    branches = app.stream("in").split({"zero": lambda k, v: v == "0"}, default="rest")
    branches["zero"].to("zeros")
    branches["rest"].to("rest")


@_case("global table")
def global_table(app: App) -> None:
    app.global_table("cities")
    app.stream("in").to("out")


@_case("word count")
def word_count(app: App) -> None:
    words = app.stream("in").flat_map_values(lambda v: [] if v is None else [v, "all"])
    words.group_by(lambda k, v: v).count(store="counts").to_stream().to("out")


@_case("count")
def count(app: App) -> None:
    app.stream("in").group_by_key().count().to_stream().to("out")


@_case("named count")
def named_count(app: App) -> None:
    counts = app.stream("in").group_by_key().count(name="counting", store="counts")
    counts.to_stream(name="changes").to("out", name="sink")


@_case("rekeyed reduce")
def rekeyed_reduce(app: App) -> None:
    stream = app.stream("in").map(lambda k, v: (v, k))
    stream.group_by_key().reduce(lambda x, y: x if x > y else y + "!").to_stream().to("out")


@_case("named grouping")
def named_grouping(app: App) -> None:
    grouped = app.stream("in").group_by(lambda k, v: v, name="by-value")
    grouped.count(store="counts").to_stream().to("counts")
    grouped.reduce(lambda x, y: x + y, store="joined").to_stream().to("joined")


@_case("aggregate that deletes")
def aggregate_that_deletes(app: App) -> None:
    grouped = app.stream("in").group_by_key()
    grouped.aggregate(lambda: "", lambda k, v, a: None if v == "0" else a + v).to_stream().to("out")


@_case("cogroup")
def cogroup(app: App) -> None:
    both = app.stream("in").group_by_key().cogroup(lambda k, v, a: f"{a}+{v}")
    both = both.cogroup(app.stream("other").group_by_key(), lambda k, v, a: None if v == "0" else f"{a}-{v}")
    table = both.aggregate(lambda: "")
    table.to_stream().to("out")
    table.group_by(lambda k, v: (v[-1:] or None, k)).count().to_stream().to("counts")


@_case("named cogroup")
def named_cogroup(app: App) -> None:
    both = app.stream("in").group_by(lambda k, v: v).cogroup(lambda k, v, a: a + v)
    both = both.cogroup(app.stream("other").group_by_key(), lambda k, v, a: v)
    both.aggregate(lambda: "", store="both", name="together").to_stream().to("out")


@_case("repartition")
def repartition(app: App) -> None:
    app.stream("in").repartition().to("out")


@_case("named repartition")
def named_repartition(app: App) -> None:
    again = app.stream("in").select_key(lambda k, v: v).repartition(name="again")
    again.group_by_key().count(store="counts").to_stream().to("out")


@_case("table")
def table(app: App) -> None:
    app.table("in").to_stream().to("out")


@_case("stored table")
def stored_table(app: App) -> None:
    app.table("in", store="rows").to_stream().to("out")


@_case("named table")
def named_table(app: App) -> None:
    app.table("in", name="rows").to_stream().to("out")


@_case("table filter")
def table_filter(app: App) -> None:
    app.table("in").filter(lambda k, v: v >= "2").map_values(lambda v: v + v).to_stream().to("out")


@_case("stored table filter")
def stored_table_filter(app: App) -> None:
    small = app.table("in").filter_not(lambda k, v: v >= "2", store="small")
    small.map_values(lambda k, v: k + v, with_key=True, store="mapped").to_stream().to("out")


@_case("table group")
def table_group(app: App) -> None:
    app.table("in").group_by(lambda k, v: (v, k)).count().to_stream().to("out")


@_case("table group of a filter")
def table_group_of_a_filter(app: App) -> None:
    rows = app.table("in").filter(lambda k, v: v != "1").map_values(lambda v: v + "x")
    grouped = rows.group_by(lambda k, v: (None if v == "2x" else v, k))
    grouped.aggregate(lambda: "", lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}").to_stream().to(
        "out"
    )


@_case("named table group")
def named_table_group(app: App) -> None:
    grouped = app.table("in").group_by(lambda k, v: (v, k), name="by-value")
    reduced = grouped.reduce(
        lambda x, y: f"{x}+{y}", lambda x, y: f"{x}-{y}", name="reducing", store="reduced"
    )
    reduced.to_stream().to("out")


@_case("group of a group")
def group_of_a_group(app: App) -> None:
    counts = app.stream("in").group_by_key().count()
    counts.group_by(lambda k, n: (None if n == 0 else str(n), k), value=string).count().to_stream().to("out")


@_case("to table")
def to_table(app: App) -> None:
    app.stream("in").to_table().to_stream().to("out")


@_case("rekeyed to table")
def rekeyed_to_table(app: App) -> None:
    rows = app.stream("in").select_key(lambda k, v: v).to_table(store="rows")
    rows.filter(lambda k, v: v != "1").to_stream().to("out")


@_case("versioned table")
def versioned_table(app: App) -> None:
    rows = app.table("in", store="rows", history="50 ms")
    rows.group_by(lambda k, v: (v, k)).count().to_stream().to("out")


@_case("several topics")
def several_topics(app: App) -> None:
    app.stream(["other", "in"]).to(lambda k, v, record: "out")


@_case("parts")
def parts(app: App) -> None:
    app.stream("in").to("out")
    app.stream("other").group_by_key().count().to_stream().to("counts")
