"""The part of a topology that leads to one stage computes just the records of that stage."""

from __future__ import annotations

from penstock.streams import App, Stream, Table, TopologyTest, json, long, string
from penstock.topology.plans.pruning import records_of
from penstock.topology.stores.state_stores import KeyValueSpec


def shop() -> tuple[App, dict[str, Stream | Table]]:
    app = App("shop", key=string, value=string)
    orders, users = app.stream("orders"), app.table("users", store="users")
    joined = orders.left_join(users, lambda order, user: f"{order} of {user}")
    branches = orders.split({"tea": lambda key, value: value == "tea"}, default="rest")
    counts = branches["rest"].group_by_key().count(store="counts")
    app.stream("clicks", value=json).group_by_key().count(store="clicks").to_stream().to("clicked")
    joined.to("joined")
    by_value = orders.group_by(lambda key, value: value).count(store="by-value")
    return app, {"joined": joined, "tea": branches["tea"], "counts": counts, "by value": by_value}


def answer(app: App) -> list[tuple[object, object]]:
    test = TopologyTest(app)
    for topic, key, value in [
        ("orders", "ann", "tea"),
        ("users", "ann", "Ann"),
        ("orders", "ann", "rice"),
        ("orders", "bob", "milk"),
        ("orders", "ann", "milk"),
    ]:
        if topic in app.topology().source_topics():
            test.input(topic).pipe(key, value)
    return test.output("stage").read_values()


def test_a_stage_alone_has_the_records_that_it_has_in_the_application() -> None:
    expected = {
        "joined": [
            ("ann", "tea of None"),
            ("ann", "rice of Ann"),
            ("bob", "milk of None"),
            ("ann", "milk of Ann"),
        ],
        "tea": [("ann", "tea")],
        "counts": [("ann", 1), ("bob", 1), ("ann", 2)],
        "by value": [("tea", 1), ("rice", 1), ("milk", 1), ("milk", 2)],
    }
    topics = {
        "joined": {"orders", "users"},
        "tea": {"orders"},
        "counts": {"orders"},
        "by value": {"orders", "shop-by-value-repartition"},
    }
    for name in expected:
        app, stages = shop()
        stage, whole = stages[name], app.topology()
        described = app.describe()
        is_table = isinstance(stage, Table)
        value = long if is_table else string
        alone = App("shop", key=string, value=string)
        alone._builder.topology = records_of(
            whole, stage.handle.node, "stage", string, value, is_table=is_table
        )
        assert answer(alone) == expected[name]
        assert alone.topology().source_topics().keys() == topics[name]
        assert app.describe() == described


def test_its_stores_have_no_changelogs() -> None:
    app, stages = shop()
    part = records_of(app.topology(), stages["counts"].handle.node, "stage", string, long, is_table=True)
    [store] = part.stores.values()
    assert isinstance(store, KeyValueSpec)
    assert (store.name, store.logged) == ("counts", False)
    assert app.topology().stores["counts"].logged
    assert part.internal_topics({"orders": 1}) == {}
