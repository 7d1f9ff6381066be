"""Every operator with windows or joins against Kafka Streams itself: the same records give the same outputs.

Where the engine deviates on purpose (docs/streams.md names each case and why), a test shows both answers.
"""

import re
from itertools import groupby
from pathlib import Path

import pytest
from filelock import FileLock
from operator_cases import Row, answer, random_rows

from kafka_node import run_java
from maven_jars import cache_root, jars_of
from operator_topologies import TOPOLOGIES, application
from recorded_answers import recorded

pytestmark = pytest.mark.longer

ORACLE = Path(__file__).parent / "kafka_streams"
SEEDS = range(12)
Answer = list[tuple[str | None, str | None, int]]

# The topologies whose results differ for random records; weaker conditions hold for them.
LOSES_RESULTS = {"tumbling-close", "hopping-close", "sliding-close", "stream-before"}
REPEATS_UPDATES = {"sliding", "sliding-never-late"}
GUESSES_ALONE = {"stream-outer-grace"}
TAKES_BACK_OTHERS = {"suppress-grouped"}

# (topology, records, what Kafka Streams sends, what the engine sends)
DEVIATIONS: list[tuple[str, list[Row], Answer, Answer]] = [
    (  # a result that was due when stream time had advanced by more than the store's retention
        "tumbling-close",
        [("left", "a", "1", 0), ("left", "a", "2", 15), ("left", "a", "3", 40)],
        [("a@0/10", "1", 0)],
        [("a@0/10", "1", 0), ("a@10/20", "2", 15)],
    ),
    (  # a row that is deleted while its session is open
        "suppress-sessions",
        [("left", "a", "1", 0), ("left", "b", "2", 11), ("left", "a", "3", 6), ("left", "b", "4", 100)],
        [("a@0/0", "1", 0), ("a@6/6", "3", 6), ("b@11/11", "2", 11)],
        [("a@0/6", "13", 6), ("b@11/11", "2", 11)],
    ),
    (  # a session that is open, but no longer in the store
        "sessions",
        [("left", "a", "1", 0), ("left", "b", "2", 15), ("left", "a", "3", 0)],
        [("a@0/0", "1", 0), ("b@15/15", "2", 15), ("a@0/0", "3", 0)],
        [("a@0/0", "1", 0), ("b@15/15", "2", 15), ("a@0/0", "13", 0)],
    ),
    (  # a null value
        "tumbling",
        [("left", "a", None, 0), ("left", "a", "1", 1)],
        [("a@0/10", "1", 0), ("a@0/10", "2", 1)],
        [("a@0/10", "1", 1)],
    ),
    (  # a record that is late, within the grace, and before its partner
        "stream-outer-grace",
        [("right", "o", "x", 30), ("left", "a", "1", 15), ("right", "a", "2", 16), ("right", "o", "x", 100)],
        [("a", "1+null", 15), ("a", "1+2", 16), ("o", "null+x", 30)],
        [("a", "1+2", 16), ("o", "null+x", 30)],
    ),
    (  # a pair at the edge of a one-sided window
        "stream-before",
        [("right", "a", "1", 5), ("right", "a", "2", 15), ("left", "a", "3", 15)],
        [("a", "3+2", 15)],
        [("a", "3+1", 15), ("a", "3+2", 15)],
    ),
    (  # a group that loses "b", which it never had, instead of "a"
        "suppress-grouped",
        [("left", "k", "a", 0), ("left", "x", "x", 10), ("left", "k", "b", 11), ("left", "k", "c", 12),
         ("left", "y", "y", 30)],
        [("all", "+a", 0), ("all", "+a+x", 10), ("all", "+a+x-b+c", 12)],
        [("all", "+a", 0), ("all", "+a+x", 10), ("all", "+a+x-a+c", 12)],
    ),
]  # fmt: skip

NULL_KEY_IN_A_BUFFER = ("stream-versioned-grace", [("left", None, "1", 0)])


def rows_of(name: str, seed: int) -> list[Row]:
    """Random records; for sessions at even times, so that none is just at the edge of a closed one."""
    rows = random_rows(name, seed)
    if "sessions" in name:
        return [(topic, key, value, 2 * timestamp_ms) for topic, key, value, timestamp_ms in rows]
    return rows


def _field(text: str | None) -> str:
    return "\\N" if text is None else text


def script_of(cases: list[tuple[str, list[Row]]]) -> str:
    lines: list[str] = []
    for name, rows in cases:
        lines.append(f"case\t{name}")
        lines += [f"{topic}\t{_field(key)}\t{_field(value)}\t{at}" for topic, key, value, at in rows]
    return "\n".join(lines)


def ask_kafka_streams(script: str, directory: Path) -> str:
    """The output of Kafka Streams for all cases, which one process runs."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "kafka-streams.lock"):
        libs = jars_of(ORACLE / "pom.xml", "kafka-streams-4.3.1")
    path = directory / "cases.txt"
    path.write_text(script)
    return run_java(libs, str(ORACLE / "Operators.java"), str(path), str(directory / "state"))


def parsed(printed: str, count: int) -> tuple[list[Answer], list[str]]:
    """The records that Kafka Streams sends in each case, and its plan."""
    answers: list[Answer] = []
    plans: list[str] = []
    for line in printed.splitlines():
        kind, *fields = line.split("\t")
        if kind == "case":
            answers.append([])
        elif kind == "error":
            answers[-1].append(("error", fields[0], -1))
        elif kind == "plan":
            plans.append(fields[0].replace("\\n", "\n"))
        elif kind == "out":
            key, value = (None if field == "\\N" else field for field in fields[:2])
            answers[-1].append((key, value, int(fields[2])))
    assert len(answers) == count, printed[-2000:]
    return answers, plans


Asked = dict[tuple[str, int], Answer]
Plans = dict[str, str]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Asked, Plans]:
    """Its answers by topology and seed, with the deviations numbered from -1 downwards; and its plans."""
    keys = [(name, seed) for name in TOPOLOGIES for seed in SEEDS]
    cases = [(name, rows_of(name, seed)) for name, seed in keys]
    for number, (name, rows, _, _) in enumerate(DEVIATIONS):
        keys.append((name, -1 - number))
        cases.append((name, rows))
    keys.append((NULL_KEY_IN_A_BUFFER[0], -100))
    cases.append(NULL_KEY_IN_A_BUFFER)
    script = script_of(cases)
    printed = recorded(
        ORACLE / "operator_answers.xz",
        script,
        lambda: ask_kafka_streams(script, tmp_path_factory.mktemp("operators")),
    )
    answers, plans = parsed(printed, len(cases))
    names = [name for name, _ in keys]
    return dict(zip(keys, answers, strict=True)), dict(zip(names, plans, strict=True))


@pytest.fixture(scope="module")
def kafka_streams(asked: tuple[Asked, Plans]) -> Asked:
    return asked[0]


def in_order(plan: str) -> str:
    """The plan with stores and neighbours sorted: Kafka Streams' own order depends on hashes."""

    def sort(match: re.Match[str]) -> str:
        return match[1] + ", ".join(sorted(match[2].split(", ")))

    return re.sub(r"(stores: \[|--> |<-- )([^\]\n]*)", sort, plan)


def without_repeats(sent: Answer) -> Answer:
    return [update for update, _ in groupby(sent)]


def pairs_of(sent: Answer) -> Answer:
    return [update for update in sent if "null" not in str(update[1])]


def without_absent(sent: Answer) -> Answer:
    """Remove the deletions of absent rows."""
    there: set[str | None] = set()
    kept = []
    for update in sent:
        key, value, _ = update
        if value is not None or key in there:
            kept.append(update)
        (there.discard if value is None else there.add)(key)
    return kept


def is_subsequence(part: Answer, whole: Answer) -> bool:
    rest = iter(whole)
    return all(update in rest for update in part)


@pytest.mark.parametrize("name", sorted(set(TOPOLOGIES) - TAKES_BACK_OTHERS))
def test_the_engine_sends_what_kafka_streams_sends(name: str, kafka_streams: Asked) -> None:
    for seed in SEEDS:
        found, expected = answer(name, rows_of(name, seed)), kafka_streams[name, seed]
        if name in LOSES_RESULTS:
            assert is_subsequence(expected, found), seed
        elif name in REPEATS_UPDATES:
            assert without_repeats(found) == without_repeats(expected), seed
        elif name == "foreign":  # every change of a row gets an answer here, even if it has no partner
            assert without_absent(found) == without_absent(expected), seed
            assert is_subsequence(expected, found), seed
        elif name in GUESSES_ALONE:
            assert is_subsequence(pairs_of(expected), pairs_of(found)), seed
        else:
            assert found == expected, seed


@pytest.mark.parametrize("name", [name for name in TOPOLOGIES if "global" not in name])
def test_the_plan_is_that_of_kafka_streams(name: str, asked: tuple[Asked, Plans]) -> None:
    """The plan includes all names of nodes, stores and topics."""
    assert in_order(application(name).describe()) == in_order(asked[1][name])


@pytest.mark.parametrize("number", range(len(DEVIATIONS)))
def test_where_the_engine_deviates_it_does_so_on_purpose(number: int, kafka_streams: Asked) -> None:
    name, rows, expected_there, expected_here = DEVIATIONS[number]
    assert kafka_streams[name, -1 - number] == expected_there
    assert answer(name, rows) == expected_here


def test_a_null_key_may_go_to_a_left_join_with_grace(kafka_streams: Asked) -> None:
    name, rows = NULL_KEY_IN_A_BUFFER
    assert kafka_streams[name, -100] == [("error", "StreamsException", -1)]
    assert answer(name, rows) == [(None, "1+null", 0)]
