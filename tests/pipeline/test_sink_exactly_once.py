"""The publisher against real brokers, killed at every request, cut off, fenced or timed out: exactly once.

A proxy in front of the broker kills the publishing process when a certain request passes, before it reaches
the broker or after, so that the publisher needs no code for the test. With PENSTOCK_CLUSTERS=1 one of the
brokers is Apache Kafka with the first version of transactions (`make soak-streams`).
"""

import multiprocessing
import os
import signal
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from sink_publishing import (
    PARTITIONS,
    SOURCE,
    SOURCE_GROUP,
    TOPICS,
    committed_values,
    connect,
    nothing_is_open,
    publication,
    publish,
    publisher,
    records_of,
    values_of,
)

from kafka_node import KafkaNode
from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, ServerError, TransactionLost, UnknownPartition
from penstock.client.groups.consumer_group import CommittedOffset, ConsumerGroup
from penstock.client.producing.producer import ProducerConfig
from penstock.client.producing.transactor import Transactor
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.protocol.records import Record, encode_batch
from penstock.spark.sink import publisher as publishing
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.marker import Marker, MarkerDamaged
from penstock.spark.sink.options import AppVersion
from penstock.spark.sink.publisher import (
    Content,
    MarkerMismatch,
    MarkerMissing,
    Outcome,
    Publisher,
    RunFenced,
    publish_once,
)
from penstock.spark.sink.repeatable import publish_version
from penstock.testing import Cluster
from waiting import wait_until
from wire_proxy import Fate, Request, WireProxy

SAFE_DOWNGRADE = 2
NODE = {"transaction.state.log.num.partitions": "2"}
SOON_MISSED = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""A short session timeout: Apache Kafka readmits no broker before its session expires, by default 9 s."""
TARGETS = [
    "penstock",
    pytest.param("penstock-tv1", marks=pytest.mark.long),
    pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long]),
    pytest.param("kafka-tv1", marks=[pytest.mark.kafka, pytest.mark.long]),
]


class Target(NamedTuple):
    """A broker behind a proxy, with the topics in it; `kill` and `start` are the broker's."""

    proxy: WireProxy
    kill: Callable[[], None]
    start: Callable[[], object]
    is_version_1: bool
    is_kafka: bool

    @property
    def servers(self) -> str:
        return self.proxy.bootstrap_servers


@pytest.fixture(scope="module", params=TARGETS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    kind: str = request.param
    with WireProxy() as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap_servers}"}
        node: Cluster | KafkaNode
        if kind.startswith("kafka"):
            libs: Path = request.getfixturevalue("kafka_libs")
            node = KafkaNode(libs, tmp_path_factory.mktemp("kafka"), config=advertised | SOON_MISSED)
        else:
            node = Cluster(NODE | advertised)
        with node:
            proxy.target = node.bootstrap_servers
            if kind.endswith("tv1"):
                downgrade(proxy.bootstrap_servers)
            yield Target(proxy, node.kill, node.start, kind.endswith("tv1"), kind.startswith("kafka"))


@pytest.fixture
def target(broker: Target) -> Iterator[Target]:
    """The broker with empty topics, and a proxy that lets everything pass again."""
    admin = AdminClient({"bootstrap.servers": broker.servers})
    topics = [NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"}) for topic in TOPICS]
    for created in admin.create_topics([*topics, NewTopic(SOURCE.topic, 1, 1)]).values():
        created.result(60)
    # Apache Kafka answers before its broker has learnt of the topics from its controller.
    wait_until(lambda: {*TOPICS, SOURCE.topic} <= set(admin.list_topics(timeout=60).topics))
    yield broker
    broker.proxy.decide = lambda _: Fate.PASS
    for deleted in admin.delete_topics([*TOPICS, SOURCE.topic]).values():
        deleted.result(60)
    wait_until(lambda: not {*TOPICS, SOURCE.topic} & set(admin.list_topics(timeout=60).topics))


@pytest.fixture
def query_id() -> str:
    return str(uuid.uuid4())


def downgrade(servers: str) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE
    )
    request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])
    with connect(servers) as cluster:
        response = cluster.retry(lambda: cluster.call_any(request, UpdateFeaturesResponse))
    assert response.error_code == 0, response.error_message


def expect_exactly(target: Target, batch_ids: list[int]) -> None:
    """Check that each partition has these batches once, in order, and the group has the end of the last."""
    for topic in TOPICS:
        assert committed_values(target.servers, topic) == [values_of(batch_ids)] * PARTITIONS
    with connect(target.servers) as cluster:
        committed = cluster.retry(lambda: ConsumerGroup(cluster, SOURCE_GROUP).committed([SOURCE]))
    assert committed[SOURCE].offset == 10 * (batch_ids[-1] + 1)


def requests_of_a_batch(target: Target, query_id: str, batch_id: int) -> list[Request]:
    """The requests with which a fresh process publishes a batch, in order."""
    seen: list[Request] = []

    def note(request: Request) -> Fate:
        if is_ours(request):
            seen.append(request)
        return Fate.PASS

    target.proxy.decide = note
    assert publish(target.servers, query_id, batch_id, "first") is Outcome.PUBLISHED
    target.proxy.decide = lambda _: Fate.PASS
    return seen


def is_ours(request: Request) -> bool:
    """Whether the client sent it: Apache Kafka's brokers send themselves requests through the proxy, too."""
    return request.client_id == ClientConfig(servers=()).client_id


class Place(NamedTuple):
    """A request by its key and occurrence: the first, second … with this key that a process sends."""

    key: ApiKey
    occurrence: int


def places_in(requests: list[Request]) -> list[Place]:
    counts: Counter[int] = Counter()
    places = []
    for request in requests:
        places.append(Place(ApiKey(request.api_key), counts[request.api_key]))
        counts[request.api_key] += 1
    return places


END = Place(ApiKey.END_TXN, 0)


def kill_at(target: Target, query_id: str, batch_id: int, run_id: str, place: Place, fate: Fate) -> bool:
    """Publish in another process, and kill it with SIGKILL when this request reaches the proxy.

    Return whether it did: some requests are repeated until the broker is ready, and how often varies.
    """
    return kill(target, lambda: publish(target.servers, query_id, batch_id, run_id), place, fate)


def kill(target: Target, run: Callable[[], object], place: Place, fate: Fate) -> bool:
    process = multiprocessing.get_context("fork").Process(target=run)
    seen: list[Request] = []
    pid_is_known = threading.Event()

    def decide(request: Request) -> Fate:
        if not is_ours(request):
            return Fate.PASS
        seen.append(request)
        if places_in(seen)[-1] != place:
            return Fate.PASS
        assert pid_is_known.wait(60)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        return fate

    target.proxy.decide = decide
    process.start()
    pid_is_known.set()
    process.join(30)
    target.proxy.decide = lambda _: Fate.PASS
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def test_a_process_killed_at_any_request_leaves_the_batch_to_the_next_run(
    target: Target, query_id: str
) -> None:
    places = places_in(requests_of_a_batch(target, query_id, 0))
    assert END in places
    batch_id = 0
    outcomes: dict[tuple[ApiKey, Fate], set[Outcome]] = defaultdict(set)
    for place in places:
        for fate in (Fate.CUT_BEFORE, Fate.PASS):
            batch_id += 1
            was_killed = kill_at(target, query_id, batch_id, f"killed-{batch_id}", place, fate)
            outcome = publish(target.servers, query_id, batch_id, f"successor-{batch_id}")
            if was_killed:
                outcomes[place.key, fate].add(outcome)
            else:
                assert outcome is Outcome.WAS_PUBLISHED
    first = {Outcome.PUBLISHED}
    for key in (ApiKey.OFFSET_FETCH, ApiKey.INIT_PRODUCER_ID, ApiKey.TXN_OFFSET_COMMIT, ApiKey.PRODUCE):
        assert outcomes[key, Fate.CUT_BEFORE] == outcomes[key, Fate.PASS] == first
    assert outcomes[ApiKey.END_TXN, Fate.CUT_BEFORE] == first
    assert Outcome.WAS_PUBLISHED in outcomes[ApiKey.END_TXN, Fate.PASS]
    expect_exactly(target, list(range(batch_id + 1)))


def test_without_a_look_at_the_marker_the_same_kill_doubles_the_batch(
    target: Target, query_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(target.servers, query_id, 0, "first")
    assert kill_at(target, query_id, 1, "killed", END, Fate.PASS)
    with connect(target.servers) as cluster:
        wait_until(lambda: publisher(cluster, query_id).marker().batch_id == 1)
    monkeypatch.setattr(Publisher, "_was_published", lambda *_: False)
    assert publish(target.servers, query_id, 1, "successor") is Outcome.PUBLISHED
    assert committed_values(target.servers, TOPICS[0])[0] == values_of([0, 1, 1])


def test_a_connection_cut_at_any_request_is_no_matter(target: Target, query_id: str) -> None:
    requests = requests_of_a_batch(target, query_id, 0)
    batch_id = 0
    for place in range(len(requests)):
        for fate in (Fate.CUT_BEFORE, Fate.CUT_AFTER):
            batch_id += 1
            places = iter(range(10_000))

            def decide(request: Request, places=places, place=place, fate=fate) -> Fate:
                return fate if is_ours(request) and next(places) == place else Fate.PASS

            target.proxy.decide = decide
            publish(target.servers, query_id, batch_id, "first")
            target.proxy.decide = lambda _: Fate.PASS
    expect_exactly(target, list(range(batch_id + 1)))


def test_the_protocol_is_the_one_that_the_cluster_has_finalized(target: Target, query_id: str) -> None:
    newest: dict[ApiKey, int] = {}
    for request in requests_of_a_batch(target, query_id, 0):
        key = ApiKey(request.api_key)
        newest[key] = max(newest.get(key, 0), request.api_version)
    announced = {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN} & newest.keys()
    assert len(announced) == (2 if target.is_version_1 else 0)
    assert (newest[ApiKey.PRODUCE] <= 11) == target.is_version_1
    assert (newest[ApiKey.END_TXN] <= 4) == target.is_version_1
    assert (newest[ApiKey.TXN_OFFSET_COMMIT] <= 4) == target.is_version_1


def test_a_later_run_fences_the_earlier_one_in_the_middle_of_a_batch(target: Target, query_id: str) -> None:
    publish(target.servers, query_id, 0, "old")

    def overtaken() -> Iterator[object]:
        yield from list(records_of(1))[:3]
        assert publish(target.servers, query_id, 1, "new") is Outcome.PUBLISHED
        yield from list(records_of(1))[3:]

    with connect(target.servers) as cluster:
        zombie = publisher(cluster, query_id)
        with pytest.raises(RunFenced, match="run old of the query was replaced by run new"):
            zombie.publish(publication(1, "old", records=overtaken))
        with pytest.raises(RunFenced):
            zombie.publish(publication(2, "old"))
        publish(target.servers, query_id, 2, "new")
        wait_until(lambda: nothing_is_open(cluster))
    expect_exactly(target, [0, 1, 2])


def test_a_leftover_does_not_disturb_the_run_that_is_publishing(target: Target, query_id: str) -> None:
    """The leftover learns from the marker that it was replaced, before it takes the transactional id."""
    publish(target.servers, query_id, 0, "old")
    publish(target.servers, query_id, 1, "new")
    disturbed: list[ClientError] = []
    begun = 0

    def records() -> Iterator[object]:
        nonlocal begun
        begun += 1
        try:
            publish(target.servers, query_id, 2, "old")
        except ClientError as error:
            disturbed.append(error)
        yield from records_of(2)

    with connect(target.servers) as cluster:
        publisher(cluster, query_id).publish(publication(2, "new", records=records))
    assert [type(error) for error in disturbed] == [RunFenced]
    assert begun == 1
    expect_exactly(target, [0, 1, 2])


def test_a_new_driver_fences_the_one_before_when_it_begins(target: Target, query_id: str) -> None:
    """Fencing precedes any publishing, or both could continue, each ahead of the other's checkpoint."""
    with connect(target.servers) as cluster:
        old = publisher(cluster, query_id, driver_id="old")
        new = publisher(cluster, query_id, driver_id="new")
        assert not old.recover()
        old.publish(publication(0, "run-old"))
        wait_until(lambda: not old.recover())  # Apache Kafka answers EndTxn before the transaction is over
        assert new.recover()
        wait_until(lambda: not new.recover())
        found = new.marker()
        assert found is not None
        assert (found.batch_id, found.run_id, found.driver_id) == (0, "run-old", "new")
        replaced = r"this driver \(old\) .* was replaced by a later one \(new\).* after batch 0"
        with pytest.raises(RunFenced, match=replaced):
            old.publish(publication(1, "run-old"))
        with pytest.raises(RunFenced, match=replaced):
            old.recover()
        assert new.publish(publication(1, "run-new")) is Outcome.PUBLISHED
        assert publisher(cluster, query_id).publish(publication(2, "unknown driver")) is Outcome.PUBLISHED
        with pytest.raises(RunFenced):
            old.publish(publication(3, "run-old-again"))
        wait_until(lambda: nothing_is_open(cluster))
    expect_exactly(target, [0, 1, 2])


def test_a_new_driver_fences_the_one_before_in_the_middle_of_a_batch(target: Target, query_id: str) -> None:
    with connect(target.servers) as cluster, connect(target.servers) as other:
        old = publisher(cluster, query_id, driver_id="old")
        new = publisher(other, query_id, driver_id="new")
        old.publish(publication(0, "run-old"))

        def records() -> Iterator[object]:
            yield from list(records_of(1))[:3]
            assert new.recover()
            yield from list(records_of(1))[3:]

        with pytest.raises(RunFenced, match=r"this driver \(old\)"):
            old.publish(publication(1, "run-old", records=records))
        assert new.publish(publication(1, "run-new")) is Outcome.PUBLISHED
        wait_until(lambda: nothing_is_open(cluster))
    expect_exactly(target, [0, 1])


def test_what_a_crash_left_open_is_ended_before_the_next_batch_runs(target: Target, query_id: str) -> None:
    publish(target.servers, query_id, 0, "first")
    assert kill_at(target, query_id, 1, "killed", END, Fate.CUT_BEFORE)
    with connect(target.servers) as cluster:
        assert not nothing_is_open(cluster)
        assert publisher(cluster, query_id).recover()
        wait_until(lambda: nothing_is_open(cluster))
    assert publish(target.servers, query_id, 1, "next") is Outcome.PUBLISHED
    expect_exactly(target, [0, 1])


def test_a_publisher_whose_transaction_was_ended_by_others_begins_anew(target: Target, query_id: str) -> None:
    publish(target.servers, query_id, 0, "run")
    begun = 0

    def records() -> Iterator[object]:
        nonlocal begun
        begun += 1
        if begun == 1:
            yield next(records_of(1))
            with connect(target.servers) as other:
                assert publisher(other, query_id).recover()
            yield from list(records_of(1))[1:]
        else:
            yield from records_of(1)

    with connect(target.servers) as cluster:
        assert (
            publisher(cluster, query_id).publish(publication(1, "run", records=records)) is Outcome.PUBLISHED
        )
    assert begun == 2
    expect_exactly(target, [0, 1])


def test_a_batch_that_takes_longer_than_the_timeout_is_told(
    target: Target, query_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "ATTEMPTS_MAX", 1)
    with connect(target.servers) as cluster:
        slow = publisher(cluster, query_id, timeout_ms=500)

        def records() -> Iterator[object]:
            yield next(records_of(0))
            # Apache Kafka checks for expired transactions every ten seconds; an InitProducerId ends them too.
            time.sleep(1)
            with connect(target.servers) as other:
                publisher(other, query_id).recover()
            yield from list(records_of(0))[1:]

        with pytest.raises(TransactionLost) as raised:
            slow.publish(publication(0, "run", records=records))
        assert "transaction.timeout.ms' (500 ms)" in "".join(raised.value.__notes__)
        assert slow.publish(publication(0, "run")) is Outcome.PUBLISHED
    expect_exactly(target, [0])


def test_a_broker_down_for_longer_than_the_transaction_may_last(target: Target, query_id: str) -> None:
    """In the middle of a batch the publisher waits, finds its transaction aborted, and starts again."""
    publish(target.servers, query_id, 0, "run")
    begun = 0

    def records() -> Iterator[object]:
        nonlocal begun
        begun += 1
        yield next(records_of(1))
        if begun == 1:
            target.kill()
            restart = threading.Timer(2.0, target.start)
            restart.start()
        yield from list(records_of(1))[1:]

    with connect(target.servers) as cluster:
        slow = publisher(cluster, query_id, timeout_ms=1000)
        assert slow.publish(publication(1, "run", records=records)) is Outcome.PUBLISHED
    expect_exactly(target, [0, 1])


def test_an_unknown_outcome_is_settled_by_the_next_attempt(target: Target, query_id: str) -> None:
    """The broker receives EndTxn, or does not, and then is down for longer than the publisher waits."""
    if target.is_kafka and target.is_version_1:
        pytest.skip("as with version 2, and half a minute")
    publish(target.servers, query_id, 0, "run")
    for batch_id, fate in ((1, Fate.CUT_BEFORE), (2, Fate.CUT_AFTER)):
        killed = threading.Event()

        def kill(killed=killed) -> None:
            target.kill()
            killed.set()

        def decide(request: Request, fate=fate, killed=killed, kill=kill) -> Fate:
            if request.api_key != ApiKey.END_TXN or killed.is_set():
                return Fate.PASS
            if fate is Fate.CUT_BEFORE:
                kill()
            return fate

        def kill_when_it_is_over(kill=kill) -> None:
            if target.is_kafka:
                await_markers(target, query_id)
            kill()

        target.proxy.when_cut = kill_when_it_is_over
        target.proxy.decide = decide
        with (
            connect(target.servers, default_api_timeout_ms="700") as cluster,
            pytest.raises(ClientError) as raised,
        ):
            publisher(cluster, query_id).publish(publication(batch_id, f"run-{batch_id}"))
        assert killed.wait(60), raised.value
        target.proxy.decide = lambda _: Fate.PASS
        target.proxy.when_cut = lambda: None
        target.start()
        outcome = publish(target.servers, query_id, batch_id, f"next-{batch_id}")
        assert outcome is (Outcome.PUBLISHED if fate is Fate.CUT_BEFORE else Outcome.WAS_PUBLISHED)
    expect_exactly(target, [0, 1, 2])


def await_markers(target: Target, query_id: str) -> None:
    """Wait for the markers, which Apache Kafka 4.3.1 never writes if it is killed first (KAFKA-20734).

    While it starts, partitions have no leader, its coordinator takes them for deleted, and the transaction
    stays open in them forever, with the offsets pending.
    """
    with connect(target.servers) as cluster:
        wait_until(lambda: nothing_is_open(cluster))
        assert publisher(cluster, query_id).marker() is not None
        cluster.retry(lambda: ConsumerGroup(cluster, SOURCE_GROUP).committed([SOURCE]))


def test_an_attempt_that_fails_leaves_no_transaction_open(target: Target, query_id: str) -> None:
    def records() -> Iterator[object]:
        yield from list(records_of(0))[:3]
        raise OSError("the file is gone")

    with connect(target.servers) as cluster:
        with pytest.raises(OSError, match="the file is gone"):
            publisher(cluster, query_id).publish(publication(0, "run", records=records))
        wait_until(lambda: nothing_is_open(cluster))
    assert publish(target.servers, query_id, 0, "run") is Outcome.PUBLISHED
    expect_exactly(target, [0])


def test_what_cannot_be_settled_is_refused(target: Target, query_id: str) -> None:
    with connect(target.servers) as cluster:
        sink = publisher(cluster, query_id)
        with pytest.raises(MarkerMissing, match=r"no offset for out-a-0.*ends with batch 6.*sink\.json"):
            sink.publish(publication(7, "run", must_be_known=True))
        elsewhere = Publisher(cluster, ProducerConfig(), query_id, "deleted", 60_000)
        with pytest.raises(MarkerMissing, match="no offset for deleted-0"):
            elsewhere.publish(publication(7, "run", must_be_known=True))
        with pytest.raises(UnknownPartition, match="topic 'deleted' does not exist"):
            elsewhere.publish(publication(7, "run"))
        sink.publish(publication(7, "run"))
        assert sink.publish(publication(7, "next")) is Outcome.WAS_PUBLISHED
        with pytest.raises(MarkerMismatch, match="batch 7 was to be written, but the cluster has batch 7"):
            sink.publish(publication(7, "next", fingerprint="another"))
        with pytest.raises(MarkerMismatch, match="batch 6 was to be written, but the cluster has batch 7"):
            sink.publish(publication(6, "next"))
        foreign = ConsumerGroup(cluster, sink.group_id)
        offsets = {TopicPartition(TOPICS[0], 0): CommittedOffset(3, metadata="by hand")}
        cluster.retry(lambda: foreign.commit(offsets))
        with pytest.raises(
            MarkerDamaged, match=r"offset 3 was committed by another program: found .*by hand"
        ):
            sink.publish(publication(8, "next"))
        wait_until(lambda: nothing_is_open(cluster))


def test_offsets_of_a_source_topic_that_is_gone_are_left_out(target: Target, query_id: str) -> None:
    batch = publication(0, "run")
    there = batch.content.offsets[SOURCE_GROUP]
    batch.content.offsets[SOURCE_GROUP].update({TopicPartition("deleted", 0): 5})
    with connect(target.servers) as cluster:
        assert publisher(cluster, query_id).publish(batch) is Outcome.PUBLISHED
    assert len(there) == 2
    expect_exactly(target, [0])


def test_a_job_is_published_as_a_whole_or_not_at_all(target: Target) -> None:
    content = publication(0, "").content
    broken = content.__class__(content.partitions, lambda: fail_after(3), {})
    with connect(target.servers) as cluster:
        with pytest.raises(OSError, match="torn"):
            publish_once(cluster, ProducerConfig(), f"job-{uuid.uuid4()}", 60_000, broken)
        assert committed_values(target.servers, TOPICS[1]) == [[], []]
        publish_once(cluster, ProducerConfig(), f"job-{uuid.uuid4()}", 60_000, content)
    expect_exactly(target, [0])


def publish_as(servers: str, app_id: str, version: int, topic: str = TOPICS[0]) -> Outcome:
    with connect(servers) as cluster:
        return publish_version(
            cluster,
            ProducerConfig(),
            topic,
            AppVersion(app_id, version),
            60_000,
            publication(version, "").content,
        )


def test_a_version_is_published_once_wherever_the_process_is_killed(target: Target, query_id: str) -> None:
    """`query_id` is the id of the program here."""
    assert publish_as(target.servers, query_id, 0) is Outcome.PUBLISHED
    lost, either = {Outcome.PUBLISHED}, set(Outcome)
    moments = [
        (ApiKey.TXN_OFFSET_COMMIT, Fate.PASS, lost),
        (ApiKey.PRODUCE, Fate.PASS, lost),
        (ApiKey.END_TXN, Fate.CUT_BEFORE, lost),
        (ApiKey.END_TXN, Fate.PASS, either),
    ]
    for version, (key, fate, expected) in enumerate(moments, 1):
        was_killed = kill(
            target, lambda at=version: publish_as(target.servers, query_id, at), Place(key, 0), fate
        )
        assert was_killed
        assert publish_as(target.servers, query_id, version) in expected
        assert publish_as(target.servers, query_id, version) is Outcome.WAS_PUBLISHED
    assert publish_as(target.servers, query_id, 1) is Outcome.WAS_PUBLISHED, "a smaller version is skipped"
    expect_exactly(target, list(range(len(moments) + 1)))


def test_a_version_counts_for_its_program_and_topic_alone(target: Target, query_id: str) -> None:
    first, second = TOPICS
    assert publish_as(target.servers, query_id, 5, first) is Outcome.PUBLISHED
    assert publish_as(target.servers, query_id, 5, second) is Outcome.PUBLISHED
    assert publish_as(target.servers, f"another-{query_id}", 4, first) is Outcome.PUBLISHED
    assert publish_as(target.servers, query_id, 5, second) is Outcome.WAS_PUBLISHED
    expect_exactly(target, [5, 5, 4])


def test_a_batch_larger_than_the_topic_takes_is_split_in_its_transaction(target: Target) -> None:
    """The topic's limit was changed after the tasks had read it, or they were not allowed to read it."""
    admin = AdminClient({"bootstrap.servers": target.servers})
    topic = f"small-{uuid.uuid4()}"
    config = {"max.message.bytes": "2000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(60)
    wait_until(lambda: topic in admin.list_topics(timeout=60).topics)
    values = [b"%02d" % number * 100 for number in range(40)]
    rows = [Record(0, 1, None, value) for value in values]

    def records() -> Iterator[EncodedBatch]:
        yield EncodedBatch(topic, 0, bytearray(encode_batch(rows, transactional=True)))

    content = Content([TopicPartition(topic, 0)], records, {})
    with connect(target.servers) as cluster:
        publish_once(cluster, ProducerConfig(), f"job-{uuid.uuid4()}", 60_000, content)
    assert committed_values(target.servers, topic, 1) == [values]


def fail_after(count: int) -> Iterator[object]:
    yield from list(records_of(0))[:count]
    raise OSError("torn")


def test_a_timeout_above_the_brokers_is_refused(target: Target) -> None:
    names = r"'transaction.timeout.ms' is 2147483647 ms, more than the brokers' 'transaction.max.timeout.ms'"
    with connect(target.servers) as cluster, pytest.raises(ServerError, match=names) as raised:
        Transactor(cluster, "impatient", 2**31 - 1).begin()
    assert raised.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_marker_keeps_sixteen_earlier_runs_and_drivers() -> None:
    marker = Marker(0, "e", "run-0", driver_id=f"{0:012}")
    for number in range(1, 40):
        run = f"{number:036}"
        past = marker.past_of(run)
        marker = replace(marker, batch_id=number, fingerprint="0123456789abcdef", run_id=run, past=past)
        marker = marker.of_driver(f"{number:012}")
        assert marker.past_of(run) == marker.past
    assert marker.past == tuple(f"{number:036}" for number in range(23, 39))
    assert marker.past_drivers == tuple(f"{number:012}" for number in range(23, 39))
    committed = marker.to_offset()
    assert committed.offset == 40
    assert len(committed.metadata) < 1500, "offset.metadata.max.bytes is 4096"
    assert Marker.from_offset(committed, "group") == marker
