"""The state of applications that a Spark worker process keeps in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from streams_without_spark import plan_of

from penstock.spark.streams.tasks import worker
from penstock.spark.streams.tasks.worker import worker_for
from penstock.streams import App, string


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    worker._workers.clear()
    yield
    worker._workers.clear()


def started(name: str, checkpoint: str) -> str:
    """The plan of a start; each start has a new one."""
    app = App(name, key=string, value=string)
    app.stream("words").group_by_key().count(store="counts")
    plan = plan_of(app, {"words": 1})
    return replace(plan, sink=replace(plan.sink, checkpoint=checkpoint)).to_text()


def test_a_start_is_the_same_for_every_batch_and_lets_go_of_the_one_before() -> None:
    one, other, elsewhere = started("one", "a"), started("other", "b"), started("one", "c")
    kept = worker_for(one)
    assert worker_for(one) is kept
    known = worker_for(other), worker_for(elsewhere)
    again = started("one", "a")
    assert worker_for(again) is not kept
    assert set(worker._workers) == {other, elsewhere, again}
    assert (worker_for(other), worker_for(elsewhere)) == known


def test_of_many_applications_those_used_last_are_kept() -> None:
    texts = [started(f"app-{number}", "a") for number in range(10)]
    for text in texts[:8]:
        worker_for(text)
    first = worker_for(texts[0])
    for text in texts[8:]:
        worker_for(text)
    assert set(worker._workers) == {texts[0], *texts[3:]}
    assert worker_for(texts[0]) is first
