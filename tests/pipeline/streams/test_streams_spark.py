"""Applications on Spark and a node agree with TopologyTest, continue after a restart, and report errors.

PENSTOCK_STREAMS_SPARK=all runs every operator and the rarer settings too; each run of an application takes
two or three seconds.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource
from streams_cases import OPERATORS, Row, answers_of, app_of, comparable, rows_of
from streams_node import Node

from penstock.spark.sink.ownership import CheckpointOutdated
from penstock.spark.streams.running import application as runtime
from penstock.spark.streams.running.checkpoint import CheckpointMismatch
from penstock.spark.streams.running.failures import ApplicationFailed
from penstock.spark.streams.running.preparation import InternalTopicMismatch, MissingTopics
from penstock.spark.streams.running.reset import CheckpointOfAnother, reset
from penstock.streams import App, Processor, Record, TopologyTest, json, raw, string, tumbling
from penstock.testing import Cluster

TIMEOUT_S = 60
GUIDE = Path(__file__).parents[3] / "docs" / "streams-running.md"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


@pytest.fixture
def node() -> Iterator[Node]:
    with Cluster() as cluster:
        yield Node(cluster.bootstrap_servers)


def drain(app: App, node: Node, checkpoint: Path, spark: Any, **settings: Any) -> None:
    """Run the application until all is read."""
    running = app.start(
        bootstrap_servers=node.servers, checkpoint=checkpoint, spark=spark, until="drained", **settings
    )
    try:
        assert running.wait(TIMEOUT_S)
    finally:
        if running.is_running:
            running.stop()


EVERYTHING = os.environ.get("PENSTOCK_STREAMS_SPARK") == "all"
everything = pytest.mark.skipif(not EVERYTHING, reason="PENSTOCK_STREAMS_SPARK=all runs it")

SAMPLED = ("table group of a filter", pytest.param("stream-table join", marks=pytest.mark.long))
"""The gate runs an operator with a repartition topic behind state, the long run also one with two inputs."""


@pytest.mark.parametrize("case", OPERATORS if EVERYTHING else SAMPLED)
def test_an_operator_on_spark_sends_what_the_test_driver_sends(
    case: str, node: Node, spark: Any, tmp_path: Path
) -> None:
    rows = rows_of(case)
    app = app_of(case)
    topology = app.topology()
    owned = {topology.topic(name) for name in topology.repartitions}
    node.create(1, *topology.source_topics().keys() - owned, *topology.globals)
    node.write(rows)
    drain(app, node, tmp_path / "checkpoint", spark)
    expected = answers_of(case, rows)
    assert expected
    found = {topic: node.read(topic) for topic in expected}
    assert comparable(case, found) == comparable(case, expected)


def counting_app(name: str = "counting", **settings: Any) -> App:
    app = App(name, key=string, value=string, **settings)
    app.stream("words").group_by_key().count(store="counts").to_stream().to("totals")
    return app


def words(count: int, keys: int = 10, start_ms: int = 1000) -> list[Row]:
    return [("words", b"key-%d" % (n % keys), b"word", start_ms + n) for n in range(count)]


def totals(node: Node) -> dict[bytes | None, int]:
    return {key: int.from_bytes(value or b"") for key, value, _ in node.read("totals")}


def test_state_group_and_changelog_go_on_together(node: Node, spark: Any, tmp_path: Path) -> None:
    """Over several partitions and batches, a checkpoint continues, and a new one restores the changelogs."""
    node.create(3, "words")
    some_at_a_time = {"maxOffsetsPerTrigger": "40"}
    for run, checkpoint in enumerate(["one", "one", "two"], 1):
        node.write(words(100))
        drain(counting_app(), node, tmp_path / checkpoint, spark, options=some_at_a_time)
        assert totals(node) == {b"key-%d" % n: 10 * run for n in range(10)}
        assert node.lag("counting", "words") == 0
    # Every count once: nothing was processed twice, and nothing was left out.
    assert sorted(int.from_bytes(value or b"") for _, value, _ in node.read("totals")) == sorted(
        n for n in range(1, 31) for _ in range(10)
    )
    changelog = {
        key: int.from_bytes(value or b"") for key, value, _ in node.read("counting-counts-changelog")
    }
    assert changelog == totals(node)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "counting-counts-changelog")
    admin = node.admin
    config = admin.describe_configs([resource])[resource].result(30)
    assert config["cleanup.policy"].value == "compact"


@pytest.mark.parametrize(
    "broker", ["penstock", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])]
)
def test_a_later_start_with_another_checkpoint_goes_on_and_the_earlier_one_ends(
    broker: str, request: pytest.FixtureRequest, spark: Any, tmp_path: Path
) -> None:
    node = (
        Node(request.getfixturevalue("kafka_servers"))
        if broker == "kafka"
        else request.getfixturevalue("node")
    )
    one, two, three = tmp_path / "one", tmp_path / "two", tmp_path / "three"
    settings = {"bootstrap_servers": node.servers, "spark": spark}
    node.create(2, "words")
    node.write(words(40))
    earlier = counting_app().start(checkpoint=one, **settings)
    try:
        earlier.wait_until_read()
        with counting_app().start(checkpoint=two, **settings) as later:
            node.write(words(40))
            later.wait_until_read()
            replaced = (
                r"RunFenced: this driver of the application counting, on \S+ with the checkpoint \S+/one, "
                r"was replaced by a later one, started [-\d]+ [:\d]+ UTC on \S+ with the checkpoint \S+/two"
            )
            with pytest.raises(ApplicationFailed, match=replaced):
                earlier.wait(TIMEOUT_S)
            assert later.is_running
        with pytest.raises(
            CheckpointOutdated, match=r"has continued with another checkpoint .*/one: \S*/two"
        ):
            counting_app().start(checkpoint=one, **settings)
    finally:
        earlier.query.stop()
    node.write(words(20))
    drain(counting_app(), node, three, spark)
    # Every count once, in order: nothing was processed twice, and nothing was left out.
    sent: dict[bytes | None, list[int]] = defaultdict(list)
    for key, value, _ in node.read("totals"):
        sent[key].append(int.from_bytes(value or b""))
    assert sent == {b"key-%d" % n: list(range(1, 11)) for n in range(10)}
    assert node.lag("counting", "words") == 0


@everything
def test_a_checkpoint_of_the_time_before_applications_had_a_transactional_id_goes_on(
    node: Node, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create(1, "words")
    node.write(words(20))
    with monkeypatch.context() as former:
        former.setattr(runtime, "_claim", lambda *_: None)
        drain(counting_app(), node, tmp_path / "c", spark)
    node.write(words(20))
    drain(counting_app(), node, tmp_path / "c", spark)
    assert sorted(int.from_bytes(value or b"") for _, value, _ in node.read("totals")) == sorted(
        n for n in range(1, 5) for _ in range(10)
    )


class Reminder(Processor[str, str, str, str]):
    """A processor that forwards a record once the time of day is some time past the record's time."""

    def process(self, record: Record[str, str]) -> None:
        self.context.set_timer(record.key, self.context.wall_clock_ms + 300, "wall")

    def on_timer(self, key: str, time_ms: int, kind: str) -> None:
        self.context.forward(Record(key, "time is up", time_ms))


def test_a_running_application_tells_how_far_it_is_and_time_passes(
    node: Node, spark: Any, tmp_path: Path
) -> None:
    """The counts grow with each batch, and timers fire without records."""
    node.create(2, "words")
    node.write(words(50))
    app = counting_app()
    app.stream("words").process(Reminder, timers=True, key=string, value=string).to("reminders")
    with app.start(
        bootstrap_servers=node.servers,
        checkpoint=tmp_path / "c",
        spark=spark,
        tick=timedelta(milliseconds=100),
        options={"maxOffsetsPerTrigger": "30"},
    ) as running:
        deadline = time.monotonic() + TIMEOUT_S
        expected = {(b"key-%d" % n, b"time is up") for n in range(10)}
        while (found := {row[:2] for row in node.read("reminders")}) != expected:
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
        assert "KSTREAM-AGGREGATE" in running.describe()
        assert not running.wait(0.1)
        last = running.progress()
        assert last is not None
        assert last.lag.total == 0
        assert last.state_bytes > 0
        done = running.recent_progress()
        assert [batch.batch_id for batch in done] == list(range(len(done)))
        with_records = [batch for batch in done if batch.records]
        assert [batch.records for batch in with_records] == [30, 20]
        assert [batch.lag.total for batch in with_records] == [20, 0]
        assert {str(tp) for tp in with_records[0].lag.partitions} == {"words-0", "words-1"}
        for batch in with_records:
            assert batch.records_per_second == pytest.approx(1000 * batch.records / batch.batch_ms)
            assert batch.batch_ms >= batch.phases_ms["addBatch"] > 0
    assert not running.is_running
    assert totals(node) == {b"key-%d" % n: 5 for n in range(10)}


@everything
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_batch_of_many_windows_makes_no_record_late(
    guarantee: Any, node: Node, spark: Any, tmp_path: Path
) -> None:
    """One batch has all windows of each partition; their records meet in the repartition topic by time."""
    app = App("windowed", key=string, value=string)
    stream = app.stream("words")
    stream.group_by_key().count(store="counts")  # gives the part before the repartition topic state
    windows = stream.group_by(lambda key, value: value).windowed_by(tumbling("100 ms", grace="20 ms"))
    windows.count(store="windows").to_stream().map(lambda w, n: (str(w.window.start_ms), str(n))).to("out")
    node.create(4, "words")
    node.create(1, "out")
    node.write([("words", b"key-%d" % (n % 97), b"word", n) for n in range(1000)])
    drain(app, node, tmp_path / "checkpoint", spark, guarantee=guarantee, shuffle_partitions=2)
    last = {key: value for key, value, _ in node.read("out")}
    assert last == {b"%d" % start_ms: b"100" for start_ms in range(0, 1000, 100)}


@pytest.mark.long
def test_at_least_once(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(1, "words")
    for run, checkpoint in enumerate(["one", "one", "two"], 1):
        node.write(words(20))
        drain(counting_app(), node, tmp_path / checkpoint, spark, guarantee="at-least-once")
        assert totals(node) == {b"key-%d" % n: 2 * run for n in range(10)}
        assert node.lag("counting", "words") == 0


@everything
def test_a_changed_topology_keeps_named_stores(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(2, "words", "others")
    node.write(words(20))
    drain(counting_app(), node, tmp_path / "c", spark)
    changed = App("counting", key=string, value=string)
    changed.stream("others").group_by_key().count(store="others").to_stream().to("other-totals")
    changed.stream("words").peek(lambda k, v: None).group_by_key().count(store="counts").to_stream().to(
        "totals"
    )
    node.write([*words(20), ("others", b"a", b"b", 1)])
    drain(changed, node, tmp_path / "c", spark)
    assert totals(node) == {b"key-%d" % n: 4 for n in range(10)}
    assert node.read("other-totals") == [(b"a", (1).to_bytes(8), 1)]


@everything
def test_a_new_store_begins_empty_and_latest_begins_at_the_end(
    node: Node, spark: Any, tmp_path: Path
) -> None:
    node.create(1, "words")
    node.write(words(20))

    def app() -> App:
        app = App("late", key=string, value=string)
        app.stream("words", reset="latest").group_by_key().count(store="counts").to_stream().to("totals")
        return app

    drain(app(), node, tmp_path / "c", spark)
    assert totals(node) == {}
    node.write(words(10))
    drain(app(), node, tmp_path / "c", spark)
    assert totals(node) == {b"key-%d" % n: 1 for n in range(10)}


def refuse(key: str, value: str) -> tuple[str, str]:
    raise ValueError(f"not {value}:\n  never")


def failing_app(name: str, **settings: Any) -> App:
    app = App(name, key=string, value=string, **settings)
    app.stream("numbers", value=json).group_by_key().count(store="counts").to_stream().to("totals")
    app.stream("names").map(refuse).to("names-out")
    return app


NUMBER = ("numbers", b"a", b"[1", 5)
NAME = ("names", b"b", b"x", 6)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param(
            NUMBER,
            "RecordFailed: KSTREAM-SOURCE-0000000000 failed on the record of numbers-0 at offset 1: "
            "DecodeError: Input data was truncated",
            id="behind the shuffle",
        ),
        pytest.param(
            NAME,
            "RecordFailed: KSTREAM-MAP-0000000005 failed on the record of names-0 at offset 0: "
            "ValueError: not x:\n  never",
            id="on the map side",
            marks=everything,
        ),
    ],
)
def test_a_record_that_fails_stops_the_application_and_is_named(
    row: Row, message: str, node: Node, spark: Any, tmp_path: Path
) -> None:
    node.create(1, "numbers", "names")
    node.write([("numbers", b"a", b"1", 5), row])
    with pytest.raises(ApplicationFailed) as failed:
        drain(failing_app("failing"), node, tmp_path / "c", spark)
    assert str(failed.value) == message
    assert "Traceback" in failed.value.details
    # The failed batch has written nothing and committed nothing.
    assert node.read("totals") == []
    assert node.lag("failing", "numbers") == (2 if row is NUMBER else 1)


def test_records_that_fail_go_to_the_dead_letter_topic_as_in_a_topology_test(
    node: Node, spark: Any, tmp_path: Path
) -> None:
    node.create(1, "numbers", "names")
    rows: list[Row] = [NUMBER, ("numbers", b"a", b"1", 7), NAME]
    node.write(rows)
    drain(failing_app("failing", dead_letter="dead"), node, tmp_path / "c", spark)
    test = TopologyTest(failing_app("failing", dead_letter="dead"))
    for topic, key, value, timestamp_ms in rows:
        test.input(topic).pipe_bytes(key, value, timestamp=timestamp_ms)
    expected = [
        (record.key, record.value, record.timestamp_ms, by_name(record.headers))
        for record in test.output("dead", key=raw, value=raw).read_all()
    ]
    found = [(m.key(), m.value(), m.timestamp()[1], by_name(m.headers())) for m in node.messages("dead")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {headers["__streams.errors.offset"] for *_, headers in found} == {b"0"}
    assert totals(node) == {b"a": 1}


def by_name(headers: Any) -> dict[str, bytes]:
    """The headers without the stack, which depends on the process in which the record failed."""
    found = dict(headers)
    assert found.pop("__streams.errors.stacktrace").startswith(b"Traceback")
    return found


@everything
def test_what_does_not_fit_is_named_before_anything_runs(node: Node, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(MissingTopics, match=r"counting reads topics that don't exist at .*: words"):
        drain(counting_app(), node, tmp_path / "a", spark)
    node.create(2, "words")
    node.create(3, "counting-counts-changelog")
    with pytest.raises(
        InternalTopicMismatch, match=r"counting-counts-changelog has 3 partitions, expected 2"
    ):
        drain(counting_app(), node, tmp_path / "a", spark)
    drain(counting_app("another"), node, tmp_path / "b", spark)
    with pytest.raises(CheckpointMismatch, match="belongs to the application another, not to third"):
        drain(counting_app("third"), node, tmp_path / "b", spark)
    stateless = App("another", key=string, value=string)
    stateless.stream("words").to("totals")
    with pytest.raises(CheckpointMismatch, match="of a topology with state, and the new one has none"):
        drain(stateless, node, tmp_path / "b", spark)


@everything
def test_topologies_without_state_keep_the_order_of_each_partition(
    node: Node, spark: Any, tmp_path: Path
) -> None:
    node.create(2, "words")
    node.write(words(200))
    app = App("mapped", key=string, value=string)
    app.stream("words").map_values(lambda word: word + "!").to("loud")
    drain(app, node, tmp_path / "c", spark, options={"minPartitions": "4", "maxPartitions": "8"})
    sent = node.read("loud")
    assert len(sent) == 200
    for n in range(10):
        times = [timestamp_ms for key, value, timestamp_ms in sent if key == b"key-%d" % n]
        assert times == sorted(times)
        assert len(times) == 20


def test_the_guide_s_examples(
    node: Node, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The examples run with the topic that they read, and the active session."""
    text = GUIDE.read_text().replace("127.0.0.1:9092", node.servers).replace("/var/lib/shop", str(tmp_path))
    example, watching = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "__main__"}
    node.create(1, "clicks")
    node.write([("clicks", b"ann", b"x", n) for n in range(3)])
    exec(compile(example, str(GUIDE), "exec"), names)
    assert "records=" in capsys.readouterr().out
    assert [value for _, value, _ in node.read("clicks-by-user")] == [n.to_bytes(8) for n in (1, 2, 3)]
    node.write([("clicks", b"ann", b"x", 4)])
    watching = watching.replace("9464", "0").replace("running.wait()", "running.wait_until_read()")
    exec(compile(watching, str(GUIDE), "exec"), names)
    assert "1 records in" in capsys.readouterr().out
    assert node.read("clicks-by-user")[-1][1] == (4).to_bytes(8)


@everything
def test_reset_takes_an_application_back_to_its_beginning(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(1, "words")
    node.write(words(20))
    drain(counting_app(), node, tmp_path / "c", spark)
    with pytest.raises(CheckpointOfAnother, match="checkpoint of the application counting, not of another"):
        reset(counting_app("another").topology(), bootstrap_servers=node.servers, checkpoint=tmp_path / "c")
    done = reset(counting_app().topology(), bootstrap_servers=node.servers, checkpoint=tmp_path / "c")
    assert done.deleted_topics == ("counting-counts-changelog",)
    assert not (tmp_path / "c").exists()
    drain(counting_app(), node, tmp_path / "c", spark)
    assert sorted(int.from_bytes(value or b"") for _, value, _ in node.read("totals")) == sorted([1, 2] * 20)
