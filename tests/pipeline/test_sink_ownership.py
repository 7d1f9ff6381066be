"""Drivers of one streams application with checkpoints of their own: the last one that started writes."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from sink_publishing import committed_values, connect, nothing_is_open

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import CommittedOffset, ConsumerGroup
from penstock.client.producing.producer import ProducerConfig
from penstock.client.producing.transactor import Transactor
from penstock.protocol.records import Record, encode_batch
from penstock.spark.sink import ownership as owning
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.marker import MarkerDamaged
from penstock.spark.sink.ownership import CheckpointOutdated, Driver, Entry, Ownership, RunFenced
from penstock.spark.sink.publisher import Content, Outcome, Publication, Publisher
from waiting import wait_until

TIMEOUT_MS = 60_000


class Application:
    """An application with its own topic, and a group that records how far it has read."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.name = f"app-{uuid.uuid4()}"
        self.topic = f"topic-{self.name}"
        self.input = TopicPartition(self.topic, 7)  # an offset may be of any partition

    def driver(self, checkpoint: str, topic: str | None = None) -> Driver:
        start_id = uuid.uuid4().hex
        return Driver(self.name, start_id, topic or self.topic, f"host-of-{checkpoint}", f"/{checkpoint}")

    def ownership(self, cluster: Cluster, driver: Driver) -> Ownership:
        return Ownership(cluster, driver, TIMEOUT_MS)

    def publisher(self, cluster: Cluster, query_id: str, driver: Driver | None) -> Publisher:
        """A publisher; without a driver, one from before applications had a transactional id of their own."""
        owned = None if driver is None else self.ownership(cluster, driver)
        name = "former" if driver is None else driver.start_id[:12]
        return Publisher(cluster, ProducerConfig(), query_id, self.topic, TIMEOUT_MS, name, owned)

    def start(self, cluster: Cluster, checkpoint: str, goes_on: bool = False) -> Publisher:
        """Start a driver that claims the application; the checkpoint's name is also the id of its query."""
        driver = self.driver(checkpoint)
        query_id = self.query_id(checkpoint)
        self.ownership(cluster, driver).claim(query_id if goes_on else None)
        return self.publisher(cluster, query_id, driver)

    def query_id(self, checkpoint: str) -> str:
        return f"{self.name}-{checkpoint}"

    def batch(
        self, batch_id: int, value: bytes, before_the_last: Callable[[], object] = lambda: None
    ) -> Publication:
        """A publication of two records with this value."""

        def records() -> Iterator[EncodedBatch]:
            record = Record(0, 1, None, value)
            yield EncodedBatch(self.topic, 0, bytearray(encode_batch([record], transactional=True)))
            before_the_last()
            yield EncodedBatch(self.topic, 0, bytearray(encode_batch([record], transactional=True)))

        content = Content([TopicPartition(self.topic, 0)], records, {self.name: {self.input: batch_id + 1}})
        return Publication(batch_id, "run", f"entry-{batch_id}", must_be_known=False, content=content)

    def expect(self, *values: bytes) -> None:
        [found] = committed_values(self.servers, self.topic, 1)
        assert found == [value for value in values for _ in range(2)]

    def group_offset(self, cluster: Cluster) -> int:
        group = ConsumerGroup(cluster, self.name)
        return cluster.retry(lambda: group.committed([self.input]))[self.input].offset


@pytest.fixture
def app(either_servers: str) -> Application:
    app = Application(either_servers)
    admin = AdminClient({"bootstrap.servers": either_servers})
    config = {"retention.ms": "-1"}
    [created] = admin.create_topics([NewTopic(app.topic, 8, 1, config=config)]).values()
    created.result(60)
    wait_until(lambda: app.topic in admin.list_topics(timeout=60).topics)
    return app


@pytest.fixture
def cluster(app: Application) -> Iterator[Cluster]:
    with connect(app.servers) as cluster:
        yield cluster


def test_the_later_driver_writes_and_the_earlier_one_says_who_has_replaced_it(
    app: Application, cluster: Cluster
) -> None:
    one = app.start(cluster, "one")
    assert one.publish(app.batch(0, b"one-0")) is Outcome.PUBLISHED
    assert app.group_offset(cluster) == 1
    two = app.start(cluster, "two")
    replaced = (
        rf"this driver of the application {app.name}, on host-of-one with the checkpoint /one, was replaced "
        r"by a later one, started 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC on host-of-two with the checkpoint /two"
    )
    with pytest.raises(RunFenced, match=replaced):
        one.publish(app.batch(1, b"one-1"))
    with pytest.raises(RunFenced, match=replaced):
        one.recover()
    assert two.publish(app.batch(0, b"two-0")) is Outcome.PUBLISHED
    assert two.publish(app.batch(1, b"two-1")) is Outcome.PUBLISHED
    two.recover()
    app.expect(b"one-0", b"two-0", b"two-1")
    assert app.group_offset(cluster) == 2


def test_a_driver_that_is_replaced_in_the_middle_of_a_batch_has_written_nothing(
    app: Application, cluster: Cluster
) -> None:
    one = app.start(cluster, "one")
    one.publish(app.batch(0, b"one-0"))
    seen: list[int] = []

    def replace_it() -> None:
        with connect(app.servers) as other:
            app.start(other, "two")
            # Stable at once: the earlier driver's transaction is aborted, and the group's offset stays.
            seen.append(app.group_offset(other))
            wait_until(lambda: nothing_is_open(other, [app.topic], 1))

    with pytest.raises(RunFenced, match="was replaced by a later one"):
        one.publish(app.batch(1, b"one-1", replace_it))
    assert seen == [1]
    app.expect(b"one-0")


def test_a_driver_that_is_replaced_just_before_it_fences_all_others_writes_nothing(
    app: Application, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = app.start(cluster, "one")
    one.publish(app.batch(0, b"one-0"))
    begin = one._transactor.begin

    def begin_late() -> object:
        monkeypatch.undo()
        with connect(app.servers) as other:
            app.start(other, "two")
        return begin()

    monkeypatch.setattr(one._transactor, "begin", begin_late)
    with pytest.raises(RunFenced, match="was replaced by a later one"):
        one.publish(app.batch(1, b"one-1"))
    app.expect(b"one-0")
    assert app.group_offset(cluster) == 1


def test_what_a_dead_driver_left_open_is_settled_by_a_start_with_another_checkpoint(
    app: Application, cluster: Cluster
) -> None:
    one = app.start(cluster, "one")
    one.publish(app.batch(0, b"one-0"))
    transactor = Transactor(cluster, one._transactor.transactional_id, TIMEOUT_MS)
    transactor.begin()
    transactor.commit_offsets(app.name, {app.input: CommittedOffset(2)})
    with connect(app.servers, default_api_timeout_ms="10000") as other:
        two = app.start(other, "two")
        assert app.group_offset(other) == 1
        assert two.publish(app.batch(0, b"two-0")) is Outcome.PUBLISHED
    app.expect(b"one-0", b"two-0")


def test_a_checkpoint_that_was_left_behind_is_refused_and_disturbs_nobody(
    app: Application, cluster: Cluster
) -> None:
    one = app.start(cluster, "one")
    one.publish(app.batch(0, b"one-0"))
    two = app.start(cluster, "two")
    # So far the application has not continued with another checkpoint.
    again = app.start(cluster, "one", goes_on=True)
    assert again.publish(app.batch(0, b"one-0")) is Outcome.WAS_PUBLISHED
    with pytest.raises(RunFenced):
        two.publish(app.batch(0, b"two-0"))
    two = app.start(cluster, "two")

    def refused() -> None:
        with connect(app.servers) as other, pytest.raises(CheckpointOutdated) as raised:
            app.start(other, "one", goes_on=True)
        assert f"{app.name} has continued with another checkpoint since it used /one: /two" in str(
            raised.value
        )

    begun: list[None] = []
    two.publish(app.batch(0, b"two-0"))
    two.publish(app.batch(1, b"two-1", lambda: (refused(), begun.append(None))))
    assert len(begun) == 1
    assert app.start(cluster, "two", goes_on=True).publish(app.batch(2, b"two-2")) is Outcome.PUBLISHED
    assert app.start(cluster, "three").publish(app.batch(0, b"three-0")) is Outcome.PUBLISHED
    app.expect(b"one-0", b"two-0", b"two-1", b"two-2", b"three-0")


def test_of_drivers_that_start_at_once_one_is_the_owner(app: Application, cluster: Cluster) -> None:
    def start(name: str) -> Driver:
        with connect(app.servers) as own:
            driver = app.driver(name)
            app.ownership(own, driver).claim(None)
            return driver

    with ThreadPoolExecutor(2) as threads:
        drivers = list(threads.map(start, ("one", "two")))
    found = []
    for driver in drivers:
        try:
            app.ownership(cluster, driver).require()
            found.append(driver)
        except RunFenced:
            continue
    assert len(found) == 1
    owner = app.ownership(cluster, drivers[0]).owner()
    assert owner is not None
    assert owner.start_id == found[0].start_id
    assert owner.claims >= len(drivers)


def test_a_checkpoint_of_the_time_before_goes_on(app: Application, cluster: Cluster) -> None:
    """The old marker and a dead driver's open transaction are under the query's transactional id."""
    query_id = app.query_id("one")
    former = app.publisher(cluster, query_id, None)
    former.publish(app.batch(0, b"one-0"))
    left = Transactor(cluster, former.group_id, TIMEOUT_MS)
    left.begin()
    marker = former.marker()
    assert marker is not None
    left.commit_offsets(former.group_id, {TopicPartition(app.topic, 0): marker.to_offset()})
    with connect(app.servers, default_api_timeout_ms="10000") as other:
        one = app.start(other, "one", goes_on=True)
        assert one.recover()
        with pytest.raises(RunFenced, match=r"this driver \(former\) of the query was replaced"):
            former.publish(app.batch(1, b"one-1"))
        assert one.publish(app.batch(0, b"one-0")) is Outcome.WAS_PUBLISHED
        assert one.publish(app.batch(1, b"one-1")) is Outcome.PUBLISHED
    app.expect(b"one-0", b"one-1")


def test_a_driver_of_the_time_before_is_fenced_in_the_middle_of_a_batch(
    app: Application, cluster: Cluster
) -> None:
    former = app.publisher(cluster, app.query_id("one"), None)
    former.publish(app.batch(0, b"one-0"))

    def replace_it() -> None:
        with connect(app.servers) as other:
            assert app.start(other, "one", goes_on=True).recover()

    with pytest.raises(RunFenced, match=r"this driver \(former\) of the query was replaced"):
        former.publish(app.batch(1, b"one-1", replace_it))
    app.expect(b"one-0")


def test_a_driver_of_the_time_before_that_begins_while_it_is_replaced_is_fenced_as_well(
    app: Application, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former driver reads the marker after its id was taken, before it has the new driver's entry."""
    former = app.publisher(cluster, app.query_id("one"), None)
    former.publish(app.batch(0, b"one-0"))
    take_over = Publisher._take_over
    outcomes: list[object] = []

    def replace_it() -> None:
        with connect(app.servers) as other:
            one = app.start(other, "one", goes_on=True)

            def and_is_overtaken(publisher: Publisher) -> None:
                monkeypatch.setattr(Publisher, "_take_over", take_over)
                with connect(app.servers) as third:
                    late = app.publisher(third, app.query_id("one"), None)
                    late._transactor.begin()
                    before = late.marker()
                    take_over(publisher)
                    assert before is not None
                    late._transactor.commit_offsets(
                        late.group_id, {TopicPartition(app.topic, 0): replace(before, batch_id=1).to_offset()}
                    )
                    outcomes.append(late._transactor)

            monkeypatch.setattr(Publisher, "_take_over", and_is_overtaken)
            assert one.recover()
            outcomes.append(one.publish(app.batch(1, b"one-1")))

    replace_it()
    assert outcomes[1] is Outcome.PUBLISHED
    app.expect(b"one-0", b"one-1")


def test_an_entry_that_was_forgotten_is_written_again_by_whoever_comes_first(
    app: Application, cluster: Cluster
) -> None:
    one = app.start(cluster, "one")
    one.publish(app.batch(0, b"one-0"))
    two = app.start(cluster, "two")
    group_id = app.ownership(cluster, app.driver("any")).group_id
    wait_until(lambda: deleted(app.servers, group_id))
    assert two.publish(app.batch(0, b"two-0")) is Outcome.PUBLISHED
    with pytest.raises(RunFenced):
        one.publish(app.batch(1, b"one-1"))
    app.expect(b"one-0", b"two-0")


def deleted(servers: str, group_id: str) -> bool:
    admin = AdminClient({"bootstrap.servers": servers})
    try:
        admin.delete_consumer_groups([group_id])[group_id].result(60)
    except KafkaException:  # Apache Kafka: a transaction that was answered may not be over
        return False
    return True


def test_an_entry_is_renewed_before_it_expires(
    app: Application, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = app.start(cluster, "one")
    own = app.ownership(cluster, app.driver("any"))

    def written() -> int:
        found = own.owner()
        assert found is not None
        assert found.query_id == app.query_id("one")
        return found.written_ms

    one.publish(app.batch(0, b"one-0"))
    first = written()
    one.publish(app.batch(1, b"one-1"))
    assert written() == first
    monkeypatch.setattr(owning, "RENEW_MS", -1)
    one.publish(app.batch(2, b"one-2"))
    assert written() > first


def test_the_entry_is_found_where_another_topology_has_written_it(app: Application, cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": app.servers})
    admin.create_topics([NewTopic(f"other-{app.topic}", 1, 1)])[f"other-{app.topic}"].result(60)
    one = app.start(cluster, "one")
    other = app.driver("two", f"other-{app.topic}")
    app.ownership(cluster, other).claim(None)
    with pytest.raises(RunFenced):
        one.publish(app.batch(0, b"one-0"))
    three = app.driver("three")
    assert app.ownership(cluster, three).claim(None).claims == 3
    with pytest.raises(RunFenced):
        app.ownership(cluster, other).require()


def test_what_somebody_else_committed_is_no_entry(app: Application, cluster: Cluster) -> None:
    own = app.ownership(cluster, app.driver("one"))
    group = ConsumerGroup(cluster, own.group_id)
    cluster.retry(lambda: group.commit({own.partition: CommittedOffset(5, metadata="by hand")}))
    with pytest.raises(MarkerDamaged, match=r"its offset 5 was committed by another program: .*'by hand'"):
        own.claim(None)


def test_an_entry_fits_into_the_metadata_of_an_offset() -> None:
    driver = Driver("shop", "s" * 32, "topic", "h" * 5000, "ü" * 5000)
    own = Ownership.__new__(Ownership)
    own.driver = driver
    entry = own._successor(None, None).of_query("q" * 36)
    committed = entry.to_offset()
    assert len(committed.metadata.encode()) < 4096, "offset.metadata.max.bytes"
    assert Entry.from_offset(committed, "group") == entry
