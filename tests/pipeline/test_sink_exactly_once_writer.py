"""Commit and abort as Spark calls them on the driver, on a checkpoint made by hand. No Spark session."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.types import StringType, StructField, StructType

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition as Partition
from penstock.client.errors import ClientError
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.client.producing.transactor import Transactor
from penstock.client.settings import ConfigError
from penstock.protocol.records import Record, encode_batch
from penstock.spark.sink.checkpoint import CheckpointError
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.exactly_once import ExactlyOnceStreamWriter, driver_id
from penstock.spark.sink.options import parse_sink
from penstock.spark.sink.publisher import MarkerMismatch, RunFenced
from penstock.spark.sink.staged import Run, Stage, StagedBatchMissing, TaskStaged
from to_the_end import TO_THE_END
from waiting import wait_until

SCHEMA = StructType([StructField("value", StringType()), StructField("topic", StringType())])


class Query:
    """A checkpoint as Spark writes it, and tasks that have staged; every call is made on a fresh writer."""

    def __init__(self, servers: str, checkpoint: Path, topic: str, cluster: Cluster) -> None:
        self.query_id = str(uuid.uuid4())
        self.checkpoint = checkpoint
        self.topic = topic
        self.cluster = cluster
        self._options = {"kafka.bootstrap.servers": servers, "delivery": "exactly-once"}
        self._options |= {"checkpointLocation": str(checkpoint), "topic": topic}
        (checkpoint / "offsets").mkdir(parents=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": self.query_id}))

    @property
    def writer(self) -> ExactlyOnceStreamWriter:
        return ExactlyOnceStreamWriter(parse_sink(self._options), SCHEMA)

    def plan(self, batch_id: int, *sources: dict[str, object]) -> None:
        """Write Spark's entry in the offset log."""
        lines = ["v1", "{}", *map(json.dumps, sources)]
        (self.checkpoint / "offsets" / str(batch_id)).write_text("\n".join(lines))

    def stage(self, batch_id: int, *values: str, run: str = "run", inline_bytes: int = 1000) -> TaskStaged:
        writer = self.writer
        stage = Stage(writer._checkpoint().staging.child(str(batch_id)), "0-1", inline_bytes)
        for value in values:
            data = bytearray(encode_batch([Record(0, 1, None, value.encode())], transactional=True))
            stage.add(EncodedBatch(self.topic, 0, data))
        return stage.finish(Run(self.query_id, run, batch_id), len(values))

    def run(self, batch_id: int, *values: str, run: str = "run", inline_bytes: int = 1000) -> None:
        self.plan(batch_id)
        self.writer.commit([self.stage(batch_id, *values, run=run, inline_bytes=inline_bytes)], batch_id)

    def staged(self) -> list[str]:
        staging = self.checkpoint / "penstock" / "staging"
        return sorted(str(path.relative_to(staging)) for path in staging.rglob("*") if path.is_file())

    def offset(self, group_id: str, partition: Partition) -> int | None:
        group = ConsumerGroup(self.cluster, group_id)
        found = self.cluster.retry(lambda: group.committed([partition])).get(partition)
        return None if found is None else found.offset


@pytest.fixture
def cluster(servers: str) -> Iterator[Cluster]:
    with Cluster(ClientConfig.from_properties({"bootstrap.servers": servers})) as cluster:
        yield cluster


@pytest.fixture
def query(servers: str, make_topic: Callable[..., str], tmp_path: Path, cluster: Cluster) -> Query:
    return Query(servers, tmp_path / "checkpoint", make_topic(), cluster)


@pytest.fixture
def values(query: Query, servers: str) -> Callable[[], list[str]]:
    def read() -> list[str]:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "unused",
                "isolation.level": "read_committed",
            }
            | TO_THE_END
        )
        consumer.assign([TopicPartition(query.topic, 0, 0)])
        found = []
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append(message.value().decode())
        assert message is not None, "a transaction is open"
        consumer.close()
        return found

    return read


def test_tasks_are_published_in_their_order(query: Query, values: Callable[[], list[str]]) -> None:
    query.plan(0)
    reports = [query.stage(0, "a", "b"), query.stage(0), query.stage(0, "c", "d", inline_bytes=0)]
    assert len(query.staged()) == 1
    query.writer.commit(reports, 0)
    assert values() == ["a", "b", "c", "d"]
    assert query.staged() == []


def test_a_batch_is_skipped_when_it_comes_again(query: Query, values: Callable[[], list[str]]) -> None:
    query.run(0, "a")
    query.run(0, "a")
    query.run(0, "a", run="next", inline_bytes=0)
    query.run(1, "b", run="next")
    assert values() == ["a", "b"]
    assert query.staged() == []
    with pytest.raises(RunFenced):
        query.run(2, "c", run="run")


def test_only_groups_of_the_cluster_that_is_written_to_join(query: Query) -> None:
    ours = query.cluster.refresh([query.topic]).cluster_id
    groups = [f"g-{uuid.uuid4()}" for _ in range(3)]
    places = [{"id": groups[0], "cluster": ours}, {"id": groups[1], "cluster": "another"}]
    query.plan(0, *({query.topic: {"0": 7}, "@group": place} for place in [*places, {"id": groups[2]}]))
    query.writer.commit([query.stage(0, "a")], 0)
    partition = Partition(query.topic, 0)
    assert [query.offset(group, partition) for group in groups] == [7, None, 7]
    assert query.offset(f"penstock-sink-{query.query_id}", partition) == 1


def test_offsets_of_a_source_that_was_created_again_are_committed(
    query: Query, make_topic: Callable[..., str], admin: AdminClient
) -> None:
    """The driver's metadata is that of the former topic, with one partition."""
    source, group = make_topic(), f"g-{uuid.uuid4()}"
    query.plan(0, {source: {"0": 7}, "@group": {"id": group}})
    query.writer.commit([query.stage(0, "a")], 0)
    assert query.offset(group, Partition(source, 0)) == 7
    admin.delete_topics([source])[source].result(30)
    wait_until(lambda: source not in admin.list_topics(timeout=30).topics)
    make_topic(3, source)
    query.plan(1, {source: {"0": 1, "1": 2, "2": 3}, "@group": {"id": group}})
    query.writer.commit([query.stage(1, "b")], 1)
    query.cluster.refresh([source])
    assert [query.offset(group, Partition(source, number)) for number in range(3)] == [1, 2, 3]


def test_nothing_is_kept_before_the_first_row(query: Query, values: Callable[[], list[str]]) -> None:
    query.run(0)
    query.writer.commit([], 1)
    assert not (query.checkpoint / "penstock" / "sink.json").exists()
    query.run(2, "a")
    query.run(3)
    assert query.offset(f"penstock-sink-{query.query_id}", Partition(query.topic, 0)) == 4
    assert values() == ["a"]


def test_another_cluster_is_refused(query: Query) -> None:
    query.run(0, "a")
    state = query.checkpoint / "penstock" / "sink.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"cluster_id": "another"}))
    with pytest.raises(MarkerMismatch, match="has written to the cluster another so far"):
        query.run(1, "b")


def test_a_batch_that_another_driver_of_the_checkpoint_overtook_is_refused(query: Query) -> None:
    query.run(3, "a")
    report = query.stage(4, "b", run="second")
    query.run(4, "b")
    query.run(5, "c")
    advice = (
        "another driver .* has published batch 5 of the same checkpoint .* again with the same checkpoint"
    )
    with pytest.raises(RunFenced, match=advice):
        query.writer.commit([report], 4)
    query.run(6, "d", run="second")


def test_an_older_copy_of_a_checkpoint_is_refused(query: Query) -> None:
    query.run(3, "a")
    query.run(4, "b")
    query.run(5, "c")
    (query.checkpoint / "offsets" / "5").unlink()
    with pytest.raises(MarkerMismatch, match=r"older copy.*start with a new checkpoint"):
        query.run(4, "b")
    query.plan(5, {query.topic: {"0": 7}})
    with pytest.raises(MarkerMismatch, match=r"older copy.*start with a new checkpoint"):
        query.run(4, "b")


def test_reports_that_do_not_belong_here_are_refused(query: Query) -> None:
    query.plan(0)
    report = query.stage(0, "a")
    with pytest.raises(TypeError, match="task 1 reported NoneType, expected TaskStaged"):
        query.writer.commit([report, None], 0)
    with pytest.raises(CheckpointError, match=f"expected batch 1 of query {query.query_id}"):
        query.writer.commit([report], 1)
    with pytest.raises(CheckpointError, match=r"the offset log of .* has no batch 5"):
        query.writer.commit([query.stage(5, "a")], 5)
    (query.checkpoint / "metadata").unlink()
    with pytest.raises(ConfigError, match="no file 'metadata'"):
        query.writer.commit([report], 0)


def test_a_batch_whose_file_is_gone_is_not_published_in_part(
    query: Query, values: Callable[[], list[str]]
) -> None:
    query.plan(0)
    reports = [query.stage(0, "a"), query.stage(0, "b", inline_bytes=0)]
    (query.checkpoint / "penstock" / "staging" / query.staged()[0]).unlink()
    with pytest.raises(StagedBatchMissing):
        query.writer.commit(reports, 0)
    assert values() == []
    query.run(0, "a", "b")
    assert values() == ["a", "b"]


def leave_open(query: Query) -> None:
    """Leave the state of a commit that dies before EndTxn."""
    transactor = Transactor(query.cluster, f"penstock-sink-{query.query_id}", 60_000)
    transactor.begin()
    marker = query.writer._publisher(query.cluster, query.query_id, query.writer._checkpoint().state())
    found = marker.marker()
    assert found is not None
    transactor.commit_offsets(marker.group_id, {Partition(query.topic, 0): found.to_offset()})


def is_open(query: Query) -> bool:
    state = query.writer._checkpoint().state()
    return query.writer._publisher(query.cluster, query.query_id, state)._look()[0]


def test_abort_ends_what_a_dead_commit_left_open(query: Query, values: Callable[[], list[str]]) -> None:
    query.run(0, "a")
    leave_open(query)
    report = query.stage(1, "b", inline_bytes=0)
    assert is_open(query)
    query.writer.abort([report, None], 1)
    assert not is_open(query)
    assert query.staged() == []
    query.writer.abort([None], 1)
    assert values() == ["a"]


def test_abort_of_a_leftover_leaves_its_successor_alone(query: Query) -> None:
    query.run(0, "a", run="old")
    query.run(1, "b", run="new")
    leave_open(query)
    query.writer.abort([query.stage(1, "b", run="old")], 1)
    assert is_open(query)
    query.writer.recover()
    assert not is_open(query)


def test_abort_never_hides_the_error_before_it(query: Query) -> None:
    query.run(0, "a")
    writer = query.writer
    (query.checkpoint / "penstock" / "sink.json").write_text("{")
    with pytest.raises(CheckpointError):
        writer.recover()
    writer.abort([query.stage(1, "b")], 1)


def test_abort_after_a_success_undoes_nothing(query: Query, values: Callable[[], list[str]]) -> None:
    query.plan(0)
    report = query.stage(0, "a")
    query.writer.commit([report], 0)
    query.writer.abort([report], 0)
    query.run(0, "a", run="next")
    assert values() == ["a"]


def test_recover_needs_no_checkpoint_yet(tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "delivery": "exactly-once"}
    with pytest.raises(ConfigError, match="needs the option 'checkpointLocation'"):
        ExactlyOnceStreamWriter(parse_sink(options), SCHEMA)
    options["checkpointLocation"] = str(tmp_path / "not" / "there")
    ExactlyOnceStreamWriter(parse_sink(options), SCHEMA).recover()


def test_a_driver_is_known_by_its_block_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "blockmgr-8c9e6e4a-1f5a-4d0e-9d5f-0123456789ab"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"/data/1/{name},/data/2/blockmgr-{uuid.uuid4()}")
    assert driver_id() == "0123456789ab"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/data/1,/data/2")
    assert driver_id() == ""


def test_a_cluster_out_of_reach_is_an_error(query: Query) -> None:
    query.run(0, "a")
    query._options |= {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "50"}
    with pytest.raises(ClientError, match="no server of the cluster can be reached"):
        query.run(1, "b")
