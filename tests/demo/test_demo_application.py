"""What the application finds in the hard input is what pandas finds, without a broker and without Spark."""

from __future__ import annotations

import pytest
from demo_runs import TOPICS, logs_of, results_of

from penstock.demo.check import compare, hours_of, table_of
from penstock.demo.data import load_frames
from penstock.demo.expected import Expected, expected_results
from penstock.demo.log import LogRecord
from penstock.demo.scenario import Record, Scenario, build_scenario

DAYS = 5
PARTITIONS = 3


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return build_scenario(load_frames(DAYS), TOPICS, PARTITIONS, seed=5)


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


@pytest.mark.parametrize("topic", TOPICS.results)
def test_a_record_that_is_lost_or_counted_twice_is_found(
    topic: str, scenario: Scenario, expected: Expected
) -> None:
    """So equality says that each counts once. Those looked at are first reports that nothing follows."""
    read = hours_of if topic == TOPICS.hours else table_of
    records = [record for record in scenario.records if record.topic == TOPICS.flights]
    keys = [record.key for record in records]
    alone = next(record for record in records if keys.count(record.key) == 1)
    again = Record(*alone[:2], alone.key + b" again", *alone[3:])
    place = scenario.records.index(alone)
    for changed in (
        scenario.records[:place] + scenario.records[place + 1 :],
        [*scenario.records[:place], again, *scenario.records[place:]],
    ):
        found = read(results_of(changed, PARTITIONS)[topic])
        assert compare(topic, found, expected.results[topic]).differences


def test_the_input_is_hard(scenario: Scenario, expected: Expected) -> None:
    assert expected.out_of_order > 0.2 * expected.reports
    assert expected.too_late > 0.01 * expected.reports
    assert expected.tombstones > 0.01 * expected.reports
    tables = [record for record in scenario.records if record.topic != TOPICS.flights]
    assert sum(record.value is None for record in tables) > 100
    first_flight = next(i for i, record in enumerate(scenario.records) if record.topic == TOPICS.flights)
    assert sum(record.topic != TOPICS.flights for record in scenario.records[first_flight:]) > 1_000


def test_the_same_seed_gives_the_same_input(scenario: Scenario) -> None:
    assert build_scenario(load_frames(DAYS), TOPICS, PARTITIONS, seed=5) == scenario
    assert build_scenario(load_frames(DAYS), TOPICS, PARTITIONS, seed=6) != scenario


def test_an_airlines_reports_are_in_one_partition(scenario: Scenario) -> None:
    """What is late for an hour would depend on how partitions are read otherwise."""
    flights = [record for record in scenario.records if record.topic == TOPICS.flights]
    places = {(record.key[:2], record.partition) for record in flights}
    assert len(places) == len({airline for airline, _ in places}) > 10
