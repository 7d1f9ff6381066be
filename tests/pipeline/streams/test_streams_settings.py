"""The default settings with which an application is started."""

from __future__ import annotations

from dataclasses import replace

from penstock.spark.launching.profiles import PROFILES
from penstock.spark.streams.blocks.layout import LAYOUT
from penstock.spark.streams.planning.options import source_options, with_defaults
from penstock.streams import App, string


def app(*, has_state: bool) -> App:
    app = App("settings", key=string, value=string)
    words = app.stream("words")
    if has_state:
        words.group_by_key().count(store="counts")
    else:
        words.to("copies")
    return app


def test_batches_are_limited_where_tasks_hold_their_records_in_memory() -> None:
    steady = PROFILES["steady"]
    assert with_defaults(steady, app(has_state=True).topology(), {}) == {"maxOffsetsPerTrigger": "1000000"}
    assert with_defaults(steady, app(has_state=False).topology(), {}) == {}


def test_what_is_given_counts_before_profile_and_default_in_any_case_of_letters() -> None:
    topology = app(has_state=True).topology()
    given = {"maxoffsetspertrigger": "7"}
    assert with_defaults(PROFILES["low-latency"], topology, given) == {"maxPartitions": "1"} | given
    assert with_defaults(PROFILES["low-latency"], topology, {})["maxOffsetsPerTrigger"] == "50000"


def test_an_application_chooses_what_happens_to_damaged_batches() -> None:
    chosen = {"subscribe": "t", "damagedBatches": "skip"}
    for given, expected in ((chosen, "skip"), ({"subscribe": "t"}, "fail")):
        source = source_options("localhost:9092", given, {}, 2)
        assert source.layout == replace(LAYOUT, damaged_batches=expected)
