"""All steps of a query but Spark itself, compared with an interpreter that takes one record at a time.

The steps are packed blocks, the shuffle, changing workers, and state as a log; the interpreter takes records
in the order (timestamp, offset).
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams_without_spark import Simulation

from operator_topologies import Rekeyed, application, in_the_value
from penstock.protocol.murmur2 import partition_for_key
from penstock.streams import App, json, long, string, vectorised
from reference_interpreter import INTERPRETERS, Row, Sent, foreign_join

PARTITIONS = 2
EXAMPLES = int(os.environ.get("PENSTOCK_ORACLE_EXAMPLES", "15"))
Batch = list[Row]

NOT_REKEYED = ("stream-versioned", "stream-versioned-grace")
"""Operators whose tables can't be made from a stream, or whose records may have no key."""


@st.composite
def records(draw: st.DrawFn, nulls: bool) -> list[Row]:
    """Records in the order in which they were written: out of order by time, some of them late."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    now_ms = rng.choice([0, 3, 50])
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 50))):
        now_ms += rng.choice([0, 0, 1, 1, 2, 3, 5, 11, 16, 40])
        back_ms = rng.choice([0, 0, 0, 1, 3, 6, 10, 14, 25])
        value = None if nulls and rng.random() < 0.25 else str(rng.randrange(100))
        rows.append((rng.choice(["left", "right"]), rng.choice("abcd"), value, max(0, now_ms - back_ms)))
    return rows


def run(app: App, rows: list[Row], rng: random.Random, *, rekeyed: bool = False) -> tuple[list[Batch], list]:
    """The records of each batch in the order of its tasks, and those sent to ``out`` in each key's order."""
    topology = app.topology()
    inputs = {"left", "right"} & topology.source_topics().keys()
    simulation = Simulation(app, dict.fromkeys(inputs, PARTITIONS), rng, workers=3)
    written: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for topic, key, value, timestamp_ms in rows:
        if topic in inputs:
            sent_key = rng.choice("xyz") if rekeyed else key
            sent = in_the_value(key or "", value) if rekeyed else value
            assert sent_key is not None
            key_bytes, value_bytes = sent_key.encode(), None if sent is None else sent.encode()
            simulation.write(topic, key_bytes, value_bytes, timestamp_ms)
            at = topic, partition_for_key(key_bytes, PARTITIONS)
            written[at].append((topic, key, value, timestamp_ms))
    batches = list(_batches(simulation, written, rng.choice([1, 3, 10, 100])))
    return batches, simulation.written("out")


def _batches(
    simulation: Simulation, written: dict[tuple[str, int], list[Row]], max_rows: int
) -> Iterator[Batch]:
    while True:
        before = dict(simulation.read)
        if not simulation.batch(max_rows):
            return
        taken = []
        for at, log in written.items():
            now_ms = [-1] * PARTITIONS
            for offset in range(before.get(at, 0), simulation.read.get(at, 0)):
                row = log[offset]
                task = task_of(row)
                # A partition's records keep their order: the time of each is the greatest so far.
                now_ms[task] = max(now_ms[task], row[3])
                taken.append((task, now_ms[task], *at, offset, row))
        yield [row for *_, row in sorted(taken, key=lambda entry: entry[:5])]


def interpreted(name: str, batches: list[Batch]) -> list[Sent]:
    """The records that the oracle sends, one record at a time."""
    interpreters = [INTERPRETERS[name]() for _ in range(PARTITIONS)]
    return [sent for batch in batches for row in batch for sent in interpreters[task_of(row)](row)]


def task_of(row: Row) -> int:
    """The task in which the operator under test takes a record."""
    return partition_for_key((row[1] or "").encode(), PARTITIONS)


def by_key(sent: list[Any]) -> dict[Any, list[Any]]:
    """The values and timestamps of each key, in their order."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for key, value, timestamp_ms in sent:
        found[key].append((value, timestamp_ms))
    return dict(found)


def table(sent: list[Any]) -> dict[Any, Any]:
    """The last value of each key: the topic read as a table."""
    last = {key: value for key, value, _ in sent}
    return {key: value for key, value in last.items() if value is not None}


def as_text(sent: list[tuple[bytes | None, bytes | None, int]]) -> list[Sent]:
    return [(_text(key), _text(value), timestamp_ms) for key, value, timestamp_ms in sent]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


CASES = [(name, False) for name in INTERPRETERS]
CASES += [(name, True) for name in INTERPRETERS if name not in NOT_REKEYED]


@pytest.mark.parametrize(("name", "rekeyed"), CASES)
def test_a_query_sends_what_the_oracle_sends(name: str, rekeyed: bool) -> None:
    """Every update is compared, in the order of each key, so the final tables agree as well."""
    nulls = name.startswith(("table", "suppress-time", "suppress-rows", "stream-table", "stream-versioned"))

    @settings(max_examples=EXAMPLES)
    @given(records(nulls), st.integers(0, 2**32))
    def agree(rows: list[Row], seed: int) -> None:
        app = application(name, rekeyed)
        batches, sent = run(app, rows, random.Random(seed), rekeyed=rekeyed)
        expected = interpreted(name, batches)
        found = as_text(sent)
        if name == "sliding-never-late":  # the order of one record's windows is undefined
            assert Counter(found) == Counter(expected)
            assert table(found) == table(expected)
        else:
            assert by_key(found) == by_key(expected)

    agree()


# Aggregates that send a key's last update of a batch: some of the oracle's updates, and always the last one.


@vectorised(pa.string())
def total(key: str, values: pa.Array, aggregate: int) -> int:
    return aggregate + sum(map(int, values.to_pylist()))


def counts(grouped: Any) -> Any:
    return grouped.count(cached=True)


def totals(grouped: Any) -> Any:
    return grouped.aggregate(lambda: 0, total, value=long)


def one_by_one(batches: list[Batch], take: Callable[[int, str], int]) -> list[Sent]:
    """Each update of an aggregate of the left topic's values, with the greatest timestamp so far."""
    kept: dict[str | None, tuple[int, int]] = {}
    sent: list[Sent] = []
    for _, key, value, at_ms in (row for batch in batches for row in batch if row[0] == "left"):
        if value is not None:
            aggregate, latest_ms = kept.get(key, (0, 0))
            kept[key] = take(aggregate, value), max(latest_ms, at_ms)
            sent.append((key, str(kept[key][0]), kept[key][1]))
    return sent


def is_subsequence(few: list[Any], many: list[Any]) -> bool:
    rest = iter(many)
    return all(one in rest for one in few)


@pytest.mark.parametrize("rekeyed", [False, True])
@pytest.mark.parametrize(
    ("build", "take"),
    [(counts, lambda count, value: count + 1), (totals, lambda sum_so_far, value: sum_so_far + int(value))],
)
def test_cached_aggregates_send_some_of_the_oracles_updates(
    build: Callable[[Any], Any], take: Callable[[int, str], int], rekeyed: bool
) -> None:
    @settings(max_examples=2 * EXAMPLES)
    @given(records(nulls=True), st.integers(0, 2**32))
    def agree(rows: list[Row], seed: int) -> None:
        app = (Rekeyed if rekeyed else App)("cached", key=string, value=string)
        table_of = build(app.stream("left").group_by_key())
        table_of.to_stream().map_values(str, value=string).to("out")
        batches, sent = run(app, rows, random.Random(seed), rekeyed=rekeyed)
        found, expected = by_key(as_text(sent)), by_key(one_by_one(batches, take))
        assert found.keys() == expected.keys()
        for key, updates in found.items():
            assert is_subsequence(updates, expected[key])
            assert updates[-1] == expected[key][-1]

    agree()


# Operators behind repartition topics of their own: the order in which records of several tasks meet there
# is undefined, so only the final tables are compared.


def last_rows(batches: list[Batch]) -> dict[str | None, str]:
    return table(
        [(key, value, at) for batch in batches for topic, key, value, at in batch if topic == "left"]
    )


def counts_of_values(app: App) -> None:
    rows = app.table("left", store="rows")
    rows.group_by(lambda key, value: (value[0], key)).count(store="counts").to_stream().to("out")


def sums_by_parity(app: App) -> None:
    counts = app.stream("left").filter(lambda key, value: value is not None).group_by_key().count()
    grouped = counts.group_by(lambda key, n: (key in "ab", n), key=json, value=long)
    grouped.sum(store="sums").to_stream().to("out")


def counted(batches: list[Batch]) -> dict[bytes, bytes]:
    found = Counter(value[0] for value in last_rows(batches).values())
    seen = {value[0] for batch in batches for topic, _, value, _ in batch if topic == "left" and value}
    return {first.encode(): long.serialize(found[first]) for first in seen}


def summed(batches: list[Batch]) -> dict[bytes, bytes]:
    rows = [key or "" for batch in batches for topic, key, value, _ in batch if topic == "left" and value]
    found = Counter(key in "ab" for key in rows)
    return {json.serialize(group): long.serialize(count) for group, count in found.items()}


def foreign(left: bool) -> Callable[[list[Batch]], dict[bytes, bytes]]:
    def joined(batches: list[Batch]) -> dict[bytes, bytes]:
        rows = [row for batch in batches for row in batch]
        return {key.encode(): value.encode() for key, value in foreign_join(rows, left).items()}

    return joined


def _built(build: Callable[[App], None]) -> Callable[[], App]:
    def app() -> App:
        made = App("regrouped", key=string, value=string)
        build(made)
        return made

    return app


REGROUPED: dict[str, tuple[Callable[[], App], Callable[[list[Batch]], dict[bytes, bytes]]]] = {
    "count of a table": (_built(counts_of_values), counted),
    "sums of counts": (_built(sums_by_parity), summed),
    "foreign": (lambda: application("foreign"), foreign(left=False)),
    "foreign-left": (lambda: application("foreign-left"), foreign(left=True)),
}


@pytest.mark.parametrize("name", REGROUPED)
def test_regrouped_tables_end_as_they_must(name: str) -> None:
    make, answer = REGROUPED[name]

    @settings(max_examples=EXAMPLES)
    @given(records(nulls=True), st.integers(0, 2**32))
    def agree(rows: list[Row], seed: int) -> None:
        if name.startswith("foreign"):
            rows = [(t, k, None if v is None else f"{'abcx'[int(v) % 4]}:{v}", at) for t, k, v, at in rows]
        batches, sent = run(make(), rows, random.Random(seed))
        assert table(sent) == answer(batches)

    agree()
