"""Applications on Spark and a node: they agree with TopologyTest, continue from where they were,
and say what is wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource
from streams_cases import Row, answers_of, app_of, rows_of
from streams_node import Node

from penstock.spark.streams.preparation import InternalTopicMismatch, MissingTopics
from penstock.spark.streams.reset import CheckpointOfAnother, reset
from penstock.spark.streams.running import ApplicationFailed, CheckpointMismatch
from penstock.streams import App, Processor, Record, json, string
from penstock.testing import Cluster

TIMEOUT_S = 60
GUIDE = Path(__file__).parents[2] / "docs" / "streams-running.md"

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


SAMPLED = (
    "split",
    "word count",
    "table group of a filter",
    "rekeyed to table",
    "versioned table",
    "hopping",
    "sessions",
    "suppress",
    "stream join",
    "table join",
    "stream-table join",
    "global join",
)


@pytest.mark.parametrize("case", SAMPLED)
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
    assert {topic: node.read(topic) for topic in expected} == expected


def counting_app(name: str = "counting", **settings: Any) -> App:
    app = App(name, key=string, value=string, **settings)
    app.stream("words").group_by_key().count(store="counts").to_stream().to("totals")
    return app


def words(count: int, keys: int = 10, start_ms: int = 1000) -> list[Row]:
    return [("words", b"key-%d" % (n % keys), b"word", start_ms + n) for n in range(count)]


def totals(node: Node) -> dict[bytes | None, int]:
    return {key: int.from_bytes(value or b"") for key, value, _ in node.read("totals")}


def test_state_group_and_changelog_go_on_together(node: Node, spark: Any, tmp_path: Path) -> None:
    """Over several partitions: a checkpoint continues, and a new one is rebuilt from the changelogs."""
    node.create(3, "words")
    for run, checkpoint in enumerate(["one", "one", "two", "two"], 1):
        node.write(words(100))
        drain(counting_app(), node, tmp_path / checkpoint, spark)
        assert totals(node) == {b"key-%d" % n: 10 * run for n in range(10)}
        assert node.committed("counting", "words") >= 100 * run
    # Every count once: nothing was processed twice, and nothing was left out.
    assert sorted(int.from_bytes(value or b"") for _, value, _ in node.read("totals")) == sorted(
        n for n in range(1, 41) for _ in range(10)
    )
    changelog = {
        key: int.from_bytes(value or b"") for key, value, _ in node.read("counting-counts-changelog")
    }
    assert changelog == totals(node)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "counting-counts-changelog")
    admin = node.admin
    config = admin.describe_configs([resource])[resource].result(30)
    assert config["cleanup.policy"].value == "compact"


def test_a_running_application_tells_how_far_it_is(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(2, "words")
    node.write(words(50))
    with counting_app().start(
        bootstrap_servers=node.servers, checkpoint=tmp_path / "c", spark=spark
    ) as running:
        running.wait_until_read()
        node.write(words(30))
        running.wait_until_read()
        progress = running.progress()
        assert progress is not None
        assert progress.lag.total == 0
        assert progress.batch_ms > 0
        assert progress.state_bytes > 0
        assert "KSTREAM-AGGREGATE" in running.describe()
        assert totals(node) == {b"key-%d" % n: 8 for n in range(10)}
        assert not running.wait(0.1)
    assert not running.is_running


def test_at_least_once(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(1, "words")
    node.write(words(20))
    drain(counting_app(), node, tmp_path / "c", spark, guarantee="at-least-once")
    assert totals(node) == {b"key-%d" % n: 2 for n in range(10)}


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


class Reminder(Processor[str, str, str, str]):
    """Sends a record on when the time of day is past its time by a while."""

    def process(self, record: Record[str, str]) -> None:
        self.context.set_timer(record.key, self.context.wall_clock_ms + 300, "wall")

    def on_timer(self, key: str, time_ms: int, kind: str) -> None:
        self.context.forward(Record(key, "time is up", time_ms))


def test_time_passes_for_timers_without_records(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(2, "words")
    app = App("timed", key=string, value=string)
    app.stream("words").process(Reminder, timers=True, key=string, value=string).to("reminders")
    running = app.start(
        bootstrap_servers=node.servers,
        checkpoint=tmp_path / "c",
        spark=spark,
        tick=timedelta(milliseconds=100),
    )
    with running:
        node.write(words(5))
        deadline = time.monotonic() + TIMEOUT_S
        while len(found := node.read("reminders")) < 5 and time.monotonic() < deadline:
            time.sleep(0.2)
    assert sorted((key, value) for key, value, _ in found) == [
        (b"key-%d" % n, b"time is up") for n in range(5)
    ]


def test_failures_stop_the_application_by_name(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(1, "words")
    app = App("failing", key=string, value=json)
    app.stream("words").group_by_key().count(store="counts").to_stream().to("totals")
    node.write([("words", b"a", b"[1", 5)])
    with pytest.raises(
        ApplicationFailed, match=r"RecordFailed: KSTREAM-SOURCE-\d+ failed on .* words-0 at offset 0"
    ):
        drain(app, node, tmp_path / "c", spark)


def test_failed_records_go_to_the_dead_letter_topic(node: Node, spark: Any, tmp_path: Path) -> None:
    node.create(1, "words")
    app = App("failing", key=string, value=json, dead_letter="dead")
    app.stream("words").group_by_key().count(store="counts").to_stream().to("totals")
    node.write([("words", b"a", b"[1", 5), ("words", b"a", b"1", 6)])
    drain(app, node, tmp_path / "c", spark)
    assert node.read("dead") == [(b"a", b"[1", 5)]
    assert totals(node) == {b"a": 1}


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
    with pytest.raises(CheckpointMismatch, match="of a topology with state, and now there is none"):
        drain(stateless, node, tmp_path / "b", spark)


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


def test_the_guide_s_example(
    node: Node, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the topic that it reads, and the active session."""
    [example] = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    example = example.replace("127.0.0.1:9092", node.servers).replace("/var/lib/shop", str(tmp_path))
    node.create(1, "clicks")
    node.write([("clicks", b"ann", b"x", n) for n in range(3)])
    exec(compile(example, str(GUIDE), "exec"), {"__name__": "__main__"})
    assert "records=" in capsys.readouterr().out
    assert [value for _, value, _ in node.read("clicks-by-user")] == [n.to_bytes(8) for n in (1, 2, 3)]


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
