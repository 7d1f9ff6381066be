"""The examples do what their first lines say; each runs in milliseconds, without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.app_file import load_app
from penstock.streams import App, TopologyTest

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 65
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z


def example(name: str) -> App:
    """The application as ``penstock streams run`` loads it."""
    app, _ = load_app(EXAMPLES / f"{name}.py")
    return app


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_each_is_under_a_page_and_says_which_topics_it_has(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LINES_MAX
    app = example(path.stem)
    assert app.name == path.stem.replace("_", "-")
    plan = app.describe()
    topics = {line.split("topics: [")[1].split("]")[0] for line in plan.splitlines() if "topics: [" in line}
    inputs = {topic for names in topics for topic in names.split(", ") if "-repartition" not in topic}
    assert inputs
    docstring = text.split('"""')[1]
    assert not [topic for topic in inputs if topic not in docstring]


def test_word_count() -> None:
    test = TopologyTest(example("word_count"), partitions=2)
    test.input("lines").pipe(None, "To be, or not to be")
    test.input("lines").pipe(None, "that's the question: to be")
    updates = test.output("word-counts").read_values()
    assert updates[:3] == [("to", 1), ("be", 1), ("or", 1)]
    assert dict(updates) == {"to": 3, "be": 3, "or": 1, "not": 1, "that's": 1, "the": 1, "question": 1}


def test_page_views_by_region() -> None:
    test = TopologyTest(example("page_views_by_region"))
    users, views = test.input("users"), test.input("views")
    users.pipe("ann", {"region": "Europe"}, timestamp=NOON)
    views.pipe("ann", {"page": "/"}, timestamp=NOON + 1 * SECOND)
    views.pipe("bob", {"page": "/"}, timestamp=NOON + 2 * SECOND)
    users.pipe("ann", {"region": "Asia"}, timestamp=NOON + 30 * SECOND)
    views.pipe("ann", {"page": "/cart"}, timestamp=NOON + 65 * SECOND)
    views.pipe("ann", {"page": "/late"}, timestamp=NOON + 59 * SECOND)
    views.pipe("ann", {"page": "/cart"}, timestamp=NOON + 70 * SECOND)
    views.pipe("ann", {"page": "/too-late"}, timestamp=NOON + 59 * SECOND)
    users.pipe("ann", None, timestamp=NOON + 71 * SECOND)
    views.pipe("ann", {"page": "/"}, timestamp=NOON + 72 * SECOND)
    noon, after = "2026-03-01T12:00:00Z", "2026-03-01T12:01:00Z"
    assert test.output("views-by-region").read_values() == [
        ("Europe", {"minute": noon, "views": 1}),
        ("somewhere", {"minute": noon, "views": 1}),
        ("Asia", {"minute": after, "views": 1}),
        ("Asia", {"minute": noon, "views": 1}),
        ("Asia", {"minute": after, "views": 2}),
        ("somewhere", {"minute": after, "views": 1}),
    ]


def test_fraud_by_probing() -> None:
    test = TopologyTest(example("fraud_detection"))
    payments = test.input("payments")
    for second in (0, 20, 40, 60, 110, 120):
        payments.pipe("c1", {"amount": 1, "country": "FR"}, timestamp=NOON + second * SECOND)
    for minute in range(0, 18, 3):  # as many payments, but never two within a minute
        payments.pipe("c2", {"amount": 1, "country": "FR"}, timestamp=NOON + minute * MINUTE)
    assert test.output("alerts").read_values() == [("c1", {"alert": "probing", "payments": 5})]


def test_fraud_in_two_places() -> None:
    test = TopologyTest(example("fraud_detection"))
    payments, alerts = test.input("payments"), test.output("alerts")

    def pay(card: str, country: str, at_ms: int, amount: int = 50) -> None:
        payments.pipe(card, {"amount": amount, "country": country}, timestamp=at_ms)

    pay("c1", "FR", NOON)
    pay("c1", "FR", NOON + 10 * MINUTE)
    pay("c1", "BR", NOON + 40 * MINUTE)
    pay("c1", "BR", NOON + 41 * MINUTE, amount=900)
    pay("c2", "FR", NOON + 42 * MINUTE)
    pay("c2", "BR", NOON + 42 * MINUTE + 2 * HOUR)  # time enough for a flight
    assert alerts.read_values() == [
        ("c1", {"alert": "blocked", "countries": ["FR", "BR"]}),
        ("c1", {"alert": "declined", "amount": 900}),
    ]
    pay("c2", "BR", NOON + 40 * MINUTE + 24 * HOUR)
    pay("c1", "BR", NOON + 41 * MINUTE + 24 * HOUR)
    assert alerts.read_values() == [("c1", {"alert": "released"})]
    payments.pipe_bytes(b"c3", b"{", timestamp=NOON + 48 * HOUR)
    assert len(test.output("payments-broken")) == 1


def test_metrics_pipeline() -> None:
    test = TopologyTest(example("metrics_pipeline"))
    samples, minutes, hot = test.input("samples"), test.output("host-minutes"), test.output("hot-services")
    for second, cpu in ((0, 25), (30, 75), (61, 50), (59, 98)):  # the last is late, within the grace
        samples.pipe("web-1", {"cpu": cpu, "requests": 10}, timestamp=NOON + second * SECOND)
    assert minutes.read_values() == []
    samples.pipe("web-2", {"cpu": 50, "requests": 7}, timestamp=NOON + 65 * SECOND)
    samples.pipe("web-1", {"cpu": 0, "requests": 1}, timestamp=NOON + 58 * SECOND)  # too late
    noon, after = "2026-03-01T12:00:00Z", "2026-03-01T12:01:00Z"
    assert minutes.read_values() == [
        ("web-1", {"minute": noon, "cpu_mean": 66.0, "cpu_max": 98, "requests": 30})
    ]
    test.advance_stream_time(NOON + 10 * MINUTE)
    assert minutes.read_values() == [
        ("web-1", {"minute": after, "cpu_mean": 50.0, "cpu_max": 50, "requests": 10}),
        ("web-2", {"minute": after, "cpu_mean": 50.0, "cpu_max": 50, "requests": 7}),
    ]
    assert hot.read_values() == []
    samples.pipe("db-1", {"cpu": 97, "requests": 1}, timestamp=NOON + 10 * MINUTE)
    test.advance_stream_time(NOON + 12 * MINUTE)
    assert hot.read_values() == [("db", {"cpu": 97.0, "until": "2026-03-01T12:11:00Z"})]


def test_what_is_no_sample_harms_no_other() -> None:
    test = TopologyTest(example("metrics_pipeline"))
    broken = test.output("samples-broken")
    test.input("samples").pipe_bytes(b"web-1", b"not a sample", timestamp=NOON)
    assert len(broken.read_all()) == 1
    test.input("samples").pipe("web-1", {"cpu": 30}, timestamp=NOON)
    test.input("samples").pipe("web-1", {"cpu": 40, "requests": 2}, timestamp=NOON)
    test.advance_stream_time(NOON + 10 * MINUTE)
    (letter,) = broken.read_all()
    assert b"no requests" in (letter.header("__streams.errors.message") or b"")
    ((_, minute),) = test.output("host-minutes").read_values()
    assert minute == {"minute": "2026-03-01T12:00:00Z", "cpu_mean": 40.0, "cpu_max": 40, "requests": 2}


def test_order_events() -> None:
    test = TopologyTest(example("order_events"))
    events, owed, parcels = test.input("order-events"), test.output("owed"), test.output("parcels")

    def tell(order: str, event: str, **more: object) -> None:
        events.pipe(order, {"event": event, **more})

    tell("A-1", "placed", customer="ann", items={"tea": 450, "cup": 1200})
    tell("A-2", "placed", customer="ann", items={"rice": 300})
    tell("A-1", "removed", item="cup")
    assert owed.read_table() == {"ann": 750}
    tell("A-1", "shipped")  # before it is paid
    tell("A-1", "paid")
    tell("A-1", "shipped")
    tell("A-2", "forgotten")
    assert owed.read_table() == {"ann": 0}
    assert parcels.read_values() == [("A-1", {"to": "ann", "items": ["tea"]})]
    assert test.store("orders").get("A-2") is None
    orders = test.output("orders").read_values()
    assert orders[-1] == ("A-2", None)
    assert dict(orders)["A-1"] == {"state": "shipped", "customer": "ann", "items": {"tea": 450}}
    (refused,) = test.output("order-events-refused").read_all()
    assert b"it can't be shipped" in (refused.header("__streams.errors.message") or b"")
