"""The application and pandas get the same results from the hard input, without a broker and without Spark."""

from __future__ import annotations

from collections import Counter

import pytest
from demo_runs import TOPICS, logs_of, results_of

from penstock.demo.check import compare, hours_of, table_of
from penstock.demo.data import Frames, load_frames
from penstock.demo.expected import Expected, expected_results
from penstock.demo.log import LogRecord
from penstock.demo.scenario import Record, Scenario, build_scenario

DAYS = 5
PARTITIONS = 3


@pytest.fixture(scope="module")
def frames() -> Frames:
    return load_frames(DAYS)


@pytest.fixture(scope="module")
def scenario(frames: Frames) -> Scenario:
    return build_scenario(frames, TOPICS, PARTITIONS, seed=5)


@pytest.fixture(scope="module")
def expected(scenario: Scenario) -> Expected:
    return expected_results(logs_of(scenario.records), TOPICS)


@pytest.fixture(scope="module")
def found(scenario: Scenario) -> dict[str, list[LogRecord]]:
    return results_of(scenario.records, PARTITIONS)


@pytest.mark.parametrize("topic", TOPICS.results)
def test_the_application_agrees_with_pandas(topic: str, found: dict, expected: Expected) -> None:
    read = hours_of if topic == TOPICS.hours else table_of
    comparison = compare(topic, read(found[topic]), expected.results[topic])
    assert comparison.differences == []
    assert comparison.rows > 10


@pytest.fixture(scope="module", params=["lost", "twice"])
def damaged(request: pytest.FixtureRequest, scenario: Scenario) -> dict[str, list[LogRecord]]:
    """The results if the only report of a flight is lost, or counted a second time."""
    records = [record for record in scenario.records if record.topic == TOPICS.flights]
    times = Counter(record.key for record in records)
    alone = next(record for record in records if times[record.key] == 1)
    place = scenario.records.index(alone)
    again = [alone, Record(*alone[:2], alone.key + b" again", *alone[3:])] if request.param == "twice" else []
    return results_of([*scenario.records[:place], *again, *scenario.records[place + 1 :]], PARTITIONS)


@pytest.mark.parametrize("topic", TOPICS.results)
def test_a_record_that_is_lost_or_counted_twice_is_found(
    topic: str, damaged: dict[str, list[LogRecord]], expected: Expected
) -> None:
    """A result that is equal therefore counts each record once."""
    read = hours_of if topic == TOPICS.hours else table_of
    assert compare(topic, read(damaged[topic]), expected.results[topic]).differences


def test_the_input_is_hard(scenario: Scenario, expected: Expected) -> None:
    assert expected.out_of_order > 0.2 * expected.reports
    assert expected.too_late > 0.01 * expected.reports
    assert expected.tombstones > 0.01 * expected.reports
    tables = [record for record in scenario.records if record.topic != TOPICS.flights]
    assert sum(record.value is None for record in tables) > 100
    first_flight = next(i for i, record in enumerate(scenario.records) if record.topic == TOPICS.flights)
    assert sum(record.topic != TOPICS.flights for record in scenario.records[first_flight:]) > 1_000


def test_the_same_seed_gives_the_same_input(frames: Frames, scenario: Scenario) -> None:
    assert build_scenario(frames, TOPICS, PARTITIONS, seed=5) == scenario
    assert build_scenario(frames, TOPICS, PARTITIONS, seed=6) != scenario


def test_an_airlines_reports_are_in_one_partition(scenario: Scenario) -> None:
    """Otherwise the order in which partitions are read would decide which reports are late for an hour."""
    flights = [record for record in scenario.records if record.topic == TOPICS.flights]
    places = {(record.key[:2], record.partition) for record in flights}
    assert len(places) == len({airline for airline, _ in places}) > 10
