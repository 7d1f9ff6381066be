"""Apache Kafka Streams as the oracle: equal topologies and records give equal results and descriptions.

The tests compare, record by record, the output topics (bytes and timestamps, in order), the changelogs of
the stores, and the texts of ``describe()``, with all names.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path

import pytest

from kafka_node import run_java
from kafka_streams_cases import CASES, build
from maven_jars import jars_of
from penstock.streams import App, TopologyTest
from penstock.topology.stores.state_stores import VersionedSpec
from recorded_answers import recorded

ORACLE = Path(__file__).with_name("kafka_streams")
RECORDS = 200
Row = tuple[str, str | None, str | None, int]
Sent = tuple[str, bytes | None, bytes | None, int]

pytestmark = [pytest.mark.longer, pytest.mark.timeout(300)]


def _rows(name: str) -> list[Row]:
    """Records with few keys and values, mostly increasing time, and nulls among keys and values."""
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
    """The output of the oracle."""

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
    def ask() -> str:
        libs = jars_of(ORACLE / "pom.xml", "kafka-streams-4.3.1")
        script = tmp_path_factory.mktemp("oracle") / "script.txt"
        script.write_text(_script())
        return run_java(libs, str(ORACLE / "Oracle.java"), str(script))

    return Answers(recorded(ORACLE / "oracle_answers.xz", _script(), ask))


@pytest.mark.parametrize("name", CASES)
def test_the_description_is_that_of_kafka_streams(answers: Answers, name: str) -> None:
    assert _comparable(build(name).describe()) == _comparable(answers.descriptions[name])


def _comparable(description: str) -> str:
    """Sort neighbours (Kafka Streams' own order depends on hashes), and remove the addresses of functions."""
    lines = re.sub(r"extractor class: [^)]*", "extractor class: function", description).split("\n")
    for at, line in enumerate(lines):
        arrow, names = line[:10], line[10:]
        if arrow in ("      --> ", "      <-- "):
            lines[at] = arrow + ", ".join(sorted(names.split(", ")))
    return "\n".join(lines)


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_changelogs_are_those_of_kafka_streams(answers: Answers, name: str) -> None:
    app = build(name)
    test, read = TopologyTest(app), set(app.topology().source_topics())
    kept: dict[str, set[bytes | None]] = defaultdict(set)
    compared = 0
    for number, (row, sent) in enumerate(zip(_rows(name), answers.sent[name], strict=True)):
        topic, key, value, timestamp = row
        test.input(topic).pipe(key, value, timestamp=timestamp)
        ours: dict[str, list[tuple]] = {}
        for output, records in test._written.items():
            if records and (output not in read or output.endswith("-repartition")):
                ours[output] = [record[2:5] for record in records]
            records.clear()
        theirs: dict[str, list[tuple]] = defaultdict(list)
        changelogs: dict[str, dict[bytes | None, tuple]] = defaultdict(dict)
        our_changelogs = _changes(test)
        for sent_topic, *record in sent:
            if not sent_topic.endswith("-changelog"):
                theirs[sent_topic].append(tuple(record))
            elif _is_needed(app, sent_topic, record, kept[sent_topic], test):
                changelogs[sent_topic][record[0]] = (record[1], None if record[1] is None else record[2])
        assert ours == dict(theirs), f"record {number}: {row}"
        assert our_changelogs == dict(changelogs), f"record {number}: {row}"
        for changelog, changes in our_changelogs.items():
            for changed, (new, _) in changes.items():
                (kept[changelog].discard if new is None else kept[changelog].add)(changed)
        compared += len(theirs) + len(changelogs)
    assert compared > RECORDS / 4


def _is_needed(app: App, topic: str, record: list, kept: set[bytes | None], test: TopologyTest) -> bool:
    """Return whether our changelog must have the record.

    Kafka Streams' changelogs also contain deletions of absent rows, and puts that a versioned store refused.
    """
    (spec,) = (s for s in app.topology().stores.values() if app.topology().changelog_topic(s.name) == topic)
    if isinstance(spec, VersionedSpec):
        (task,) = (task for task in test._tasks.values() if spec.name in task.stores)
        return record[2] >= task.stores[spec.name].data.latest_ms - spec.history_retention_ms
    return record[1] is not None or record[0] in kept


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
                        timestamp = None if record.value is None else record.timestamp_ms
                        topic = test._topology.changelog_topic(store)
                        found[topic][record.key] = (record.value, timestamp)
    return dict(found)
