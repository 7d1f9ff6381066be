"""Apache Kafka Streams as the oracle: the same topologies, the same records, the same results and
descriptions.

Compared record by record: what goes to each output topic (bytes and timestamps, in order), what the
changelogs of the stores say, and the texts of ``describe()``, with all names.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from kafka_node import run_java
from kafka_streams_cases import CASES, build
from maven_jars import jars_of
from penstock.streams import TopologyTest

ORACLE = Path(__file__).with_name("kafka_streams")
RECORDS = 200
Row = tuple[str, str | None, str | None, int]
Sent = tuple[str, bytes | None, bytes | None, int]

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def _rows(name: str) -> list[Row]:
    """Few keys and values, time that mostly goes forward, nulls among both."""
    app, generator = build(name), random.Random(name)
    topics = [topic for topic in ("in", "other") if topic in app.topology().source_topics()]
    rows: list[Row] = []
    now_ms = 0
    for _ in range(RECORDS):
        now_ms += generator.choice([0, 1, 10, 30])
        key = generator.choice(["a", "b", "c", "d", None])
        value = generator.choice(["0", "1", "2", "3", None])
        late_ms = generator.choice([0, 0, 0, 5, 40, 200])
        rows.append((generator.choice(topics), key, value, max(0, now_ms - late_ms)))
    return rows


def _script() -> str:
    lines = ["describe"]
    for name in CASES:
        lines.append(f"case\t{name}")
        lines += [
            f"pipe\t{topic}\t{'~' if key is None else key}\t{'~' if value is None else value}\t{timestamp}"
            for topic, key, value, timestamp in _rows(name)
        ]
    return "\n".join(lines) + "\n"


class Answers:
    """What the oracle printed."""

    def __init__(self, text: str) -> None:
        self.descriptions: dict[str, str] = {}
        self.sent: dict[str, list[list[Sent]]] = {}
        described, _, ran = text.partition("case ")
        for part in described.split("=== ")[1:]:
            name, _, description = part.partition("\n")
            self.descriptions[name] = description
        for part in ran.split("case "):
            name, *pipes = part.split("pipe\n")
            self.sent[name.strip()] = [[_sent(line) for line in pipe.splitlines()] for pipe in pipes]


def _sent(line: str) -> Sent:
    topic, key, value, timestamp = line.split("\t")
    return topic, _bytes(key), _bytes(value), int(timestamp)


def _bytes(text: str) -> bytes | None:
    return None if text == "~" else bytes.fromhex(text)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    libs = jars_of(ORACLE / "pom.xml", "kafka-streams-4.3.1")
    script = tmp_path_factory.mktemp("oracle") / "script.txt"
    script.write_text(_script())
    return Answers(run_java(libs, str(ORACLE / "Oracle.java"), str(script)))


@pytest.mark.parametrize("name", CASES)
def test_the_description_is_that_of_kafka_streams(answers: Answers, name: str) -> None:
    assert build(name).describe() == answers.descriptions[name]


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_changelogs_are_those_of_kafka_streams(answers: Answers, name: str) -> None:
    app = build(name)
    topology, test = app.topology(), TopologyTest(app)
    compared = 0
    for number, (row, sent) in enumerate(zip(_rows(name), answers.sent[name], strict=True)):
        topic, key, value, timestamp = row
        test.input(topic).pipe(key, value, timestamp=timestamp)
        ours: dict[str, list[tuple]] = defaultdict(list)
        for output, records in test._written.items():
            while records:
                _, _, output_key, output_value, output_timestamp, _ = records.popleft()
                if output not in topology.source_topics():
                    ours[output].append((output_key, output_value, output_timestamp))
        theirs: dict[str, list[tuple]] = defaultdict(list)
        changelogs: dict[str, dict[bytes | None, tuple]] = defaultdict(dict)
        for sent_topic, *record in sent:
            if sent_topic.endswith("-changelog"):
                changelogs[sent_topic][record[0]] = (record[1], None if record[1] is None else record[2])
            elif not sent_topic.endswith("-repartition"):
                theirs[sent_topic].append(tuple(record))
        assert dict(ours) == dict(theirs), f"record {number}: {row}"
        assert _changes(test) == dict(changelogs), f"record {number}: {row}"
        compared += len(theirs) + len(changelogs)
    assert compared > RECORDS / 4


def _changes(test: TopologyTest) -> dict[str, dict[bytes, tuple]]:
    """The changelog records that the tasks' deltas make: value and timestamp by topic and key."""
    found: dict[str, dict[bytes, tuple]] = defaultdict(dict)
    for task in test._tasks.values():
        specs = {spec.name: spec for spec in task.part.stores}
        for store, delta in task.take_deltas().items():
            if store in specs and specs[store].logged:
                for key, value in delta.items():
                    record = specs[store].to_changelog(key, value)
                    if record is not None:
                        topic = test._topology.changelog_topic(store)
                        found[topic][record.key] = (record.value, record.timestamp_ms)
    return dict(found)
