"""The consumer group that follows a query: it commits where a batch ended, but never over other members.

The tests run on a node of ours and on Apache Kafka.
"""

import threading
import time
import uuid

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, ServerUnreachable
from penstock.client.groups.consumer_group import EXACTLY_ONCE, CommittedOffset, GroupInUse
from penstock.spark.source.checkpointed import Checkpointed
from penstock.spark.source.group import GroupFollower, committed_elsewhere, offsets_to_commit
from waiting import wait_until

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
TEN_MINUTES_MS = 600_000


@pytest.fixture(scope="module")
def servers(either_servers):
    return either_servers


@pytest.fixture
def follow(servers, group):
    """Create followers of one group, and close them at the end."""
    made = []

    def make(clock=time.monotonic, **properties):
        given = {"bootstrap.servers": servers} | properties
        follower = GroupFollower(ClientConfig.from_properties(given), group, TEN_MINUTES_MS, clock)
        made.append(follower)
        return follower

    yield make
    for follower in made:
        follower.close()


@pytest.fixture
def member(servers, group, request):
    """A live member of the group, closed at the end."""
    made = []

    def join(topic, protocol):
        if protocol == "consumer" and "penstock" in request.node.callspec.id:
            pytest.skip("the node does not serve the consumer protocol yet")
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "client.id": "intruder",
                "group.protocol": protocol,
            }
        )
        made.append(consumer)
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while not consumer.assignment():
            consumer.poll(0.05)
            assert time.monotonic() < deadline, "the member got no partitions"
        return consumer

    yield join
    for consumer in made:
        consumer.close()


def at(topic, *offsets):
    return Checkpointed({TopicPartition(topic, n): offset for n, offset in enumerate(offsets)}, {})


def bring(follower, position):
    follower.completed(position)
    assert follower.settle(30)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, {A0: CommittedOffset(5), A1: CommittedOffset(7)}),
        ({A0: CommittedOffset(4, 3, "x"), A1: CommittedOffset(7)}, {A0: CommittedOffset(5)}),
        ({A0: CommittedOffset(9), A1: CommittedOffset(7)}, {A0: CommittedOffset(5)}),
        ({A0: CommittedOffset(9, metadata=EXACTLY_ONCE), A1: CommittedOffset(7)}, {}),
        (
            {A0: CommittedOffset(4, metadata=EXACTLY_ONCE), A1: CommittedOffset(7)},
            {A0: CommittedOffset(5)},
        ),
    ],
)
def test_what_is_behind_or_elsewhere_is_committed_but_an_exactly_once_sink_is_not_undone(found, expected):
    assert offsets_to_commit({A0: 5, A1: 7}, found, renew=False) == expected


def test_what_stands_right_is_renewed_as_it_was_found():
    found = {A0: CommittedOffset(5, 2, EXACTLY_ONCE), A1: CommittedOffset(7, 1, "note")}
    assert offsets_to_commit({A0: 5, A1: 7}, found, renew=False) == {}
    assert offsets_to_commit({A0: 5, A1: 7}, found, renew=True) == found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, set()),
        ({A0: CommittedOffset(5), A1: CommittedOffset(7)}, set()),
        ({A0: CommittedOffset(6)}, {A0}),
        ({A0: CommittedOffset(9, metadata=EXACTLY_ONCE)}, set()),
        ({A0: CommittedOffset(4, metadata=EXACTLY_ONCE)}, {A0}),
        ({TopicPartition("new", 0): CommittedOffset(1)}, set()),
    ],
)
def test_commits_of_others_are_recognized(found, expected):
    left = {A0: CommittedOffset(5), A1: CommittedOffset(7)}
    assert committed_elsewhere(left, found).keys() == expected


def test_two_queries_with_one_group_are_noticed(follow, make_topic, caplog):
    topic = make_topic()
    first, second = follow(), follow()
    for follower in (first, second):
        follower.open()
    bring(first, at(topic, 5))
    bring(second, at(topic, 2))
    assert "another writer" not in caplog.text, "the second query may continue for the first"
    bring(first, at(topic, 6))
    bring(second, at(topic, 3))
    assert f"partition={topic}-0 found=2 expected=5 advice='give each query" in caplog.text
    assert caplog.text.count("another writer") == 2, "both report it, once"
    bring(first, at(topic, 7))
    assert caplog.text.count("another writer") == 2


def test_a_group_is_brought_to_where_each_batch_ended(follow, committed, make_topic):
    topic = make_topic(2)
    follower = follow()
    reference = follower.open()
    assert reference.cluster_id
    assert committed() == {}
    bring(follower, at(topic, 3, 0))
    assert committed() == {0: 3, 1: 0}
    bring(follower, at(topic, 3, 4))
    assert committed() == {0: 3, 1: 4}
    bring(follower, at(topic, 1, 4))
    assert committed() == {0: 1, 1: 4}, "the checkpoint was reset: the group tells where the query is"


def test_the_last_of_several_positions_counts(follow, committed, make_topic):
    topic = make_topic()
    follower = follow()
    follower.open()
    for offset in range(50):
        follower.completed(at(topic, offset))
    assert follower.settle(30)
    assert committed() == {0: 49}


def test_nothing_is_committed_after_a_pause(follow, committed, make_topic):
    """After a pause a sink may commit the next batch's end."""
    topic = make_topic()
    follower = follow()
    follower.open()
    follower.completed(at(topic, 1))
    follower.pause()
    assert committed() == {0: 1}, "the attempt on its way was waited for"
    follower.pause()
    assert follower.settle(0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_refused_at_the_start(follow, member, make_topic, protocol):
    member(make_topic(), protocol)
    with pytest.raises(GroupInUse, match=r"has 1 live member \(intruder at .*set another group\.id"):
        follow().open()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_refused_while_running(follow, member, make_topic, protocol):
    topic = make_topic()
    follower = follow()
    follower.open()
    bring(follower, at(topic, 1))
    member(topic, protocol)
    follower.completed(at(topic, 2))
    with pytest.raises(GroupInUse, match="members"):
        follower.settle(30)
    with pytest.raises(GroupInUse):
        follower.completed(at(topic, 3))
    with pytest.raises(GroupInUse):
        follower.pause()


def test_idle_offsets_are_committed_again_when_they_are_due(follow, committed, make_topic, admin, group):
    """The test changes the offset by another commit, which the next commit of the group undoes."""
    topic = make_topic()
    now_s = [1000.0]
    follower = follow(clock=lambda: now_s[0])
    follower.open()
    bring(follower, at(topic, 5))
    moved = ConsumerGroupTopicPartitions(group, [KafkaPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([moved])[group].result(30)
    bring(follower, at(topic, 5))
    assert committed() == {0: 2}, "asked for again within the interval: not even looked at"
    now_s[0] += TEN_MINUTES_MS / 1000
    bring(follower, at(topic, 5))
    assert committed() == {0: 5}


def test_an_open_transaction_is_waited_for_and_delays_nobody(follow, committed, make_topic, servers, group):
    """`completed` and `pause` return while it is open: it lasts until the test ends it."""
    topic = make_topic()
    follower = follow()
    follower.open()
    bring(follower, at(topic, 1))
    lasting = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 900_000}
    producer = Producer({"bootstrap.servers": servers} | lasting)
    producer.init_transactions(30)
    producer.begin_transaction()
    bystander = Consumer({"bootstrap.servers": servers, "group.id": group})
    producer.send_offsets_to_transaction(
        [KafkaPartition(topic, 0, 7)], bystander.consumer_group_metadata(), 30
    )
    follower.completed(at(topic, 2))
    assert not follower.settle(0.5)
    follower.pause()
    follower.completed(at(topic, 2))
    ending = threading.Timer(0.3, producer.abort_transaction, args=[30])
    ending.start()
    follower.require_settled()
    ending.join()
    assert committed() == {0: 2}
    bystander.close()


def test_offsets_that_cannot_be_committed_in_time_are_told(follow, make_topic, servers, group):
    topic = make_topic()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    bystander = Consumer({"bootstrap.servers": servers, "group.id": group})
    producer.send_offsets_to_transaction(
        [KafkaPartition(topic, 0, 7)], bystander.consumer_group_metadata(), 30
    )
    follower = follow(**{"default.api.timeout.ms": "700"})
    follower.open()
    follower.completed(at(topic, 2))
    with pytest.raises(ClientError, match=rf"could not be committed to group '{group}' within 1 s"):
        follower.require_settled()
    producer.abort_transaction(30)
    bystander.close()


def test_a_topic_that_is_gone_or_another_one_now_is_passed_over(follow, committed, make_topic, admin):
    kept, gone, replaced = make_topic(), make_topic(), make_topic()
    follower = follow()
    follower.open()
    offsets = {TopicPartition(topic, 0): 5 for topic in (kept, gone, replaced)}
    follower.completed(Checkpointed(offsets, {replaced: "AAAAAAAAAAAAAAAAAAAAAQ"}))
    assert follower.settle(30)
    assert committed(kept) == committed(gone) == {0: 5}
    assert committed(replaced) == {}
    admin.delete_topics([gone])[gone].result(30)
    later = {tp: offset + 1 for tp, offset in offsets.items()}
    bring(follower, Checkpointed(later, {replaced: "AAAAAAAAAAAAAAAAAAAAAQ"}))
    assert committed(kept) == {0: 6}
    assert committed(replaced) == {}


def test_offsets_of_a_topic_that_was_created_again_are_committed(follow, committed, make_topic, admin):
    """The follower knows the former topic's id from its first commit."""
    topic = make_topic()
    follower = follow()
    follower.open()
    bring(follower, Checkpointed({TopicPartition(topic, 0): 5}, {}))
    assert committed(topic) == {0: 5}
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics)
    make_topic(2, topic)
    [described] = [each.result(30) for each in admin.describe_topics(TopicCollection([topic])).values()]
    offsets = {TopicPartition(topic, number): 1 for number in range(2)}
    bring(follower, Checkpointed(offsets, {topic: str(described.topic_id)}))
    assert committed(topic) == {0: 1, 1: 1}


def test_servers_that_do_not_answer_are_told(follow):
    nobody = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "300"}
    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1"):
        follow(**nobody).open()
