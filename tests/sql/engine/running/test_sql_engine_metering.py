"""Statistics of topics, computed from a host's periodic reports on its queries."""

from __future__ import annotations

from penstock.sql.engine.running.host import QueryActivity
from penstock.sql.engine.running.topic_statistics import Meter

START_MS = 1_700_000_000_000


def sampled(*samples: tuple[int, dict[str, QueryActivity]]) -> Meter:
    """A meter with these samples, each at a time in seconds."""
    meter = Meter("log")
    for at_s, activity in samples:
        meter.sample(activity, START_MS + 1000 * at_s)
    return meter


def test_what_was_before_the_first_look_is_not_counted() -> None:
    meter = sampled(
        (0, {"q": QueryActivity({"a": 1000}, {"b": 500})}),
        (10, {"q": QueryActivity({"a": 1200, "late": 7}, {"b": 500, "log": 3})}),
    )
    assert meter.statistics("a") == (
        "consumer-messages-per-sec:        20 consumer-total-messages:       200 "
        "    last-message: 2023-11-14T22:13:30.000Z"
    )
    assert (
        meter.statistics("b")
        == "messages-per-sec:         0   total-messages:         0     last-message:       n/a"
    )
    assert "consumer-total-messages:         7 " in meter.statistics("late")
    assert "consumer-failed-messages:         3 " in meter.failures("a")
    assert meter.statistics("nothing") == meter.failures("nothing") == ""
    assert Meter(None).failures("a") == ""


def test_several_queries_add_up_and_those_that_are_gone_do_not_count() -> None:
    both = {"q": QueryActivity({"a": 0}, {}), "r": QueryActivity({"a": 0}, {})}
    later = {"q": QueryActivity({"a": 10}, {}), "r": QueryActivity({"a": 5}, {})}
    assert "consumer-total-messages:        15 " in sampled((0, both), (1, later)).statistics("a")
    alone = {"r": later["r"]}
    assert "consumer-total-messages:         5 " in sampled((0, both), (1, later), (2, alone)).statistics("a")


def test_the_rate_is_that_of_half_a_minute_and_what_is_read_again_is_counted_once() -> None:
    def at(offset: int) -> dict[str, QueryActivity]:
        return {"q": QueryActivity({"a": offset}, {})}

    meter = sampled((0, at(0)), (5, at(900)), (10, at(300)), (15, at(900)), (40, at(1000)), (60, at(1000)))
    told = meter.statistics("a")
    assert "consumer-total-messages:      1000 " in told
    assert "consumer-messages-per-sec:         0 " in told
