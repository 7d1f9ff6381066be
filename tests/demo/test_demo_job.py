"""The whole demo on some real days: a real node and a real Spark, which is killed during the run.

The long run kills the node as well.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from long_run import IS_LONG
from penstock.demo.chaos import Kill
from penstock.demo.job import CHART_NAME, LOG_NAME, Options, Outcome, run
from penstock.demo.topics import Topics, TopicsExist, create_topics
from penstock.demo.view import View
from penstock.testing import Cluster

DAYS = 4
KILLS = (Kill("application", 0.4, 0.5), *([Kill("node", 0.7, 0.2)] if IS_LONG else []))


@pytest.fixture(scope="module")
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def outcome(shown: io.StringIO, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    output = tmp_path_factory.mktemp("demo")
    view = View(Console(file=shown, force_terminal=False, width=120))
    with Cluster() as cluster:

        def restart_node() -> None:
            cluster.kill()
            cluster.start()

        options = Options(
            cluster.bootstrap_servers, Topics("days"), output, seed=3, days=DAYS, kills=KILLS, lag_max=2_000
        )
        try:
            return run(options, view, restart_node)
        finally:
            if (output / LOG_NAME).exists():  # shown by pytest if the test fails
                shutil.copyfileobj((output / LOG_NAME).open(), shown)
                print(shown.getvalue()[-6_000:])


@pytest.mark.longer
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_kills_change_nothing(outcome: Outcome, shown: io.StringIO) -> None:
    assert [comparison.differences for comparison in outcome.comparisons] == [[], [], [], []]
    assert outcome.correct
    assert outcome.scenario.flights == 3_614
    assert outcome.starts == 2
    text = shown.getvalue()
    assert text.count("kill -9") == len(KILLS)
    for step in ("4 days of reports", "application started again", "records processed", "chart drawn"):
        assert step in text
    assert outcome.chart.name == Path(CHART_NAME).name
    assert outcome.chart.read_bytes().startswith(b"\x89PNG")


def test_topics_of_another_run_are_left_alone(penstock_cluster: Cluster) -> None:
    create_topics(penstock_cluster.bootstrap_servers, Topics("once"), 1)
    with pytest.raises(TopicsExist, match="once"):
        create_topics(penstock_cluster.bootstrap_servers, Topics("once"), 1)
