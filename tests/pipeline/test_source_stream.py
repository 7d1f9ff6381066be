"""The streaming reader as Spark calls it, without Spark: delays, groups, topics created again, transactions.

The tests run on a node of ours and on Apache Kafka.
"""

import json
import pickle
import time
import uuid

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from penstock.arrow.loss import DataLoss
from penstock.client.groups.consumer_group import GroupInUse
from penstock.client.settings import ConfigError
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.source.offsets import from_json, to_json
from waiting import wait_until

ALL = ReadAllAvailable()


@pytest.fixture(scope="module")
def servers(either_servers):
    return either_servers


@pytest.fixture
def source(servers):
    def make(**options):
        given = {name.replace("_", "."): str(value) for name, value in options.items()}
        return PenstockDataSource({"bootstrap.servers": servers} | given)

    return make


@pytest.fixture
def stream(source):
    """Create stream readers, and stop them at the end."""
    made = []

    def make(**options):
        described = source(**options)
        reader = described.streamReader(described.schema())
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()


def plain(offsets):
    """The offsets without the other parts of a checkpoint, as a dict of dicts."""
    return to_json(from_json(json.loads(json.dumps(offsets))))


def values(reader, partitions):
    found = []
    for partition in partitions:
        task = pickle.loads(pickle.dumps(reader))
        for batch in task.read(pickle.loads(pickle.dumps(partition))):
            found += batch.column("value").to_pylist()
    return found


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


def created_again(admin, make_topic, topic):
    """Delete a topic and create it under the same name, as soon as that is allowed."""
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 60
    while topic in admin.list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    make_topic(name=topic)


def end_soon(reader, start, expected, limit=ALL):
    """Ask as Spark does, every few ms, until the answer is what is expected."""
    deadline = time.monotonic() + 60
    while plain(found := reader.latestOffset(start, limit)) != expected:
        assert time.monotonic() < deadline, f"still {found}"
        time.sleep(0.01)
    return found


# Delays


def test_a_small_batch_is_held_until_there_is_enough(stream, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 2))
    reader = stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=5)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(5)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert plain(end) == {topic: {"0": 2}}, "the first goes at once"
    produce(topic, numbers(2, 6))

    def is_held_though_known():
        assert reader.latestOffset(end, limit) == end
        return reader.reportLatestOffset() == {topic: {"0": 6}}

    wait_until(is_held_though_known)
    assert reader.latestOffset(end, limit) == end
    produce(topic, numbers(6, 7))
    assert plain(end_soon(reader, end, {topic: {"0": 7}}, limit)) == {topic: {"0": 7}}


def test_a_held_batch_does_not_make_the_broker_work(stream, make_topic, produce, monkeypatch):
    topic = make_topic()
    reader = stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=5)
    produce(topic, numbers(0, 1))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMinRows(5))
    produce(topic, numbers(1, 2))
    deadline = time.monotonic() + 60
    while reader.reportLatestOffset() != {topic: {"0": 2}}:
        reader.latestOffset(end, ReadMinRows(5))
        assert time.monotonic() < deadline
    reader.latestOffset(end, ReadMinRows(5))
    listed = []
    monkeypatch.setattr(reader._here.tail, "list_now", lambda: listed.append(1))
    for _ in range(20):
        assert reader.latestOffset(end, ReadMinRows(5)) == end
    assert not listed


def test_the_delay_ends_when_its_time_is_up(stream, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 2))
    reader = stream(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=5, maxTriggerDelay="700ms"
    )
    limit = reader.getDefaultReadLimit()
    now_s = [1000.0]
    reader._here._delay._clock = lambda: now_s[0]
    end = reader.latestOffset(reader.initialOffset(), limit)
    produce(topic, numbers(2, 3))

    def is_held_though_known():
        assert reader.latestOffset(end, limit) == end
        return reader.reportLatestOffset() == {topic: {"0": 3}}

    wait_until(is_held_though_known)
    now_s[0] += 0.69
    assert reader.latestOffset(end, limit) == end
    now_s[0] += 0.01
    assert plain(reader.latestOffset(end, limit)) == {topic: {"0": 3}}


def test_the_least_and_the_most_go_together(stream, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 20))
    reader = stream(
        subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=6, maxOffsetsPerTrigger=8
    )
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    reader.prepareForTriggerAvailableNow()
    ends, start = [], reader.initialOffset()
    while (end := reader.latestOffset(start, limit)) != start:
        ends.append(plain(end)[topic]["0"])
        start = end
    assert ends == [8, 16], "four are too few for a batch: the next run has them first"
    assert plain(reader.latestOffset(start, ALL)) == {topic: {"0": 20}}, "Trigger.Once takes all"


def test_few_tasks_by_choice(stream, make_topic, produce):
    topic = make_topic(4)
    for partition in range(4):
        produce(topic, numbers(10 * partition, 10 * partition + 10), partition=partition)
    reader = stream(subscribe=topic, startingOffsets="earliest", maxPartitions=2)
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ALL))
    assert [[part.partition for part in task.value] for task in tasks] == [[0, 1], [2, 3]]
    assert sorted(values(reader, tasks), key=int) == numbers(0, 40)


# Topics deleted and created again


def test_a_topic_created_again_is_lost_data_and_then_a_new_topic(stream, make_topic, produce, admin):
    """The restarted query finds more records than it had read, in another topic with the same name."""
    topic = make_topic()
    produce(topic, numbers(0, 3))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    before = stream(**options)
    kept = before.latestOffset(before.initialOffset(), ALL)
    created_again(admin, make_topic, topic)
    produce(topic, numbers(100, 108))
    with pytest.raises(DataLoss, match=f"topic '{topic}' was deleted and created again"):
        stream(**options).latestOffset(kept, ALL)
    lenient = stream(**options, failOnDataLoss="false")
    limited = lenient.latestOffset(kept, ReadMaxRows(5))
    assert plain(limited) == {topic: {"0": 5}}, "counted from its beginning"
    assert values(lenient, lenient.partitions(kept, limited)) == numbers(100, 105)
    rest = lenient.latestOffset(limited, ALL)
    assert values(lenient, lenient.partitions(limited, rest)) == numbers(105, 108)


def test_as_many_records_as_before_do_not_hide_another_topic(stream, make_topic, produce, admin):
    topic = make_topic()
    produce(topic, numbers(0, 3))
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    reader = stream(**options)
    kept = reader.latestOffset(reader.initialOffset(), ALL)
    created_again(admin, make_topic, topic)
    produce(topic, numbers(100, 103))
    deadline = time.monotonic() + 60
    while (end := reader.latestOffset(kept, ALL)) == kept:
        assert time.monotonic() < deadline, "never noticed"
        time.sleep(0.01)
    while plain(end) != {topic: {"0": 3}}:
        assert time.monotonic() < deadline, f"still {end}"
        end = reader.latestOffset(kept, ALL)
    assert values(reader, reader.partitions(kept, end)) == numbers(100, 103)


def test_the_tasks_of_an_old_plan_do_not_read_another_topic(stream, make_topic, produce, admin):
    topic = make_topic()
    produce(topic, numbers(0, 3))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    reader = stream(**options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    created_again(admin, make_topic, topic)
    produce(topic, numbers(100, 103))
    restarted = stream(**options)
    with pytest.raises(DataLoss, match="does not exist"):
        values(restarted, restarted.partitions(start, end))


def test_a_topic_deleted_while_running_is_for_the_plan_to_judge(stream, make_topic, produce, admin):
    prefix = uuid.uuid4().hex
    gone, kept = make_topic(name=f"{prefix}-gone"), make_topic(name=f"{prefix}-kept")
    for topic in (gone, kept):
        produce(topic, numbers(0, 3))
    reader = stream(subscribe=f"{gone},{kept}", startingOffsets="earliest", failOnDataLoss="false")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    admin.delete_topics([gone])[gone].result(30)
    end = end_soon(reader, start, {kept: {"0": 3}})
    assert reader.partitions(start, end) == []


def test_an_older_checkpoint_or_one_of_sparks_own_source_goes_on(stream, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 3))
    reader = stream(subscribe=topic)
    kept = {topic: {"0": 1}}
    end = reader.latestOffset(kept, ALL)
    assert values(reader, reader.partitions(kept, end)) == numbers(1, 3)
    assert set(end) == {topic, "@topics", "@cluster"}


def test_a_leader_that_seems_to_have_less_is_asked_again(stream, make_topic, produce):
    """A new leader may report fewer records for a moment."""
    topic = make_topic()
    produce(topic, numbers(0, 3))
    reader = stream(
        subscribe=topic,
        startingOffsets="earliest",
        **{"fetchOffset.numRetries": 20, "fetchOffset.retryIntervalMs": 50},
    )
    ahead = reader.latestOffset(reader.initialOffset(), ALL)
    ahead[topic]["0"] = 5
    list_now = reader._here.tail.list_now
    asked = []

    def learn():
        asked.append(1)
        if len(asked) == 3:
            produce(topic, numbers(3, 6))
        list_now()

    reader._here.tail.list_now = learn
    assert plain(reader.latestOffset(ahead, ALL)) == {topic: {"0": 6}}
    reader._here.tail.list_now = list_now
    hopeless = dict(ahead)
    hopeless[topic] = {"0": 50}
    started = time.monotonic()
    with pytest.raises(DataLoss, match=f"the end of {topic}-0 went back from offset 50 to 6"):
        reader.latestOffset(hopeless, ALL)
    assert time.monotonic() - started > 0.9, "19 pauses of 50 ms"


# Options that do not fit the checkpoint


def test_a_subscription_without_a_topic_of_the_checkpoint_is_refused(stream, make_topic, produce):
    """Nothing of it enters the offset log, whatever failOnDataLoss says, and the former one continues."""
    orders, customers = make_topic(2), make_topic()
    for topic in (orders, customers):
        produce(topic, numbers(0, 3), partition=0)
    both = {"subscribe": f"{orders},{customers}", "startingOffsets": "earliest"}
    before = stream(**both)
    kept = before.latestOffset(before.initialOffset(), ALL)
    for fewer in ({"subscribe": customers}, {"subscribePattern": f"^{customers}$"}):
        for loss in ("true", "false"):
            with pytest.raises(ConfigError) as caught:
                stream(**fewer, failOnDataLoss=loss).latestOffset(kept, ALL)
            assert f"leaves out {orders} (partitions 0, 1), which exist" in str(caught.value)
            assert f"{customers} (partitions 0)" in str(caught.value)
            assert "failOnDataLoss" not in str(caught.value)
    part = stream(assign=json.dumps({orders: [1], customers: [0]}))
    with pytest.raises(ConfigError, match=rf"leaves out {orders} \(partitions 0\), which exist"):
        part.latestOffset(kept, ALL)
    produce(orders, numbers(3, 5), partition=0)
    again = stream(**both)
    assert values(again, again.partitions(kept, again.latestOffset(kept, ALL))) == numbers(3, 5)


def test_a_topic_added_to_the_subscription_is_read_from_its_beginning(stream, make_topic, produce):
    first, added = make_topic(), make_topic()
    produce(first, numbers(0, 3))
    produce(added, numbers(10, 13))
    before = stream(subscribe=first, startingOffsets="earliest")
    kept = before.latestOffset(before.initialOffset(), ALL)
    more = stream(subscribe=f"{first},{added}", startingOffsets="latest")
    assert values(more, more.partitions(kept, more.latestOffset(kept, ALL))) == numbers(10, 13)


def test_a_topic_created_during_a_crash_in_batch_0_is_read_by_the_next_batch(stream, make_topic, produce):
    """Spark asks for the start again, which then has the new topic, while the end in its log has not."""
    first = make_topic()
    produce(first, numbers(0, 3))
    options = {"subscribePattern": f"^{first}", "startingOffsets": "earliest"}
    before = stream(**options)
    logged = before.latestOffset(before.initialOffset(), ALL)
    created = make_topic(name=f"{first}-created")
    produce(created, numbers(10, 13))
    again = stream(**options)
    start = again.initialOffset()
    assert created in start
    assert values(again, again.partitions(start, logged)) == numbers(0, 3)
    end = again.latestOffset(logged, ALL)
    assert values(again, again.partitions(logged, end)) == numbers(10, 13)


def test_batch_0_without_a_topic_that_starts_in_its_middle_is_refused(stream, make_topic, produce):
    """The next batch would read the topic from its beginning."""
    first, second = make_topic(), make_topic()
    for topic in (first, second):
        produce(topic, numbers(0, 3))
    before = stream(subscribe=first, startingOffsets="earliest")
    logged = before.latestOffset(before.initialOffset(), ALL)
    places = json.dumps({first: {"0": 0}, second: {"0": 2}})
    again = stream(subscribe=f"{first},{second}", startingOffsets=places)
    with pytest.raises(ConfigError, match=f"leaves out {second}"):
        again.partitions(again.initialOffset(), logged)


def test_an_entry_of_the_log_without_topics_that_exist_is_refused(stream, make_topic, produce):
    """An earlier release has logged it; its advice to set failOnDataLoss made records come twice."""
    orders, customers = make_topic(), make_topic()
    for topic in (orders, customers):
        produce(topic, numbers(0, 3))
    both = {"subscribe": f"{orders},{customers}", "startingOffsets": "earliest"}
    before = stream(**both)
    kept = before.latestOffset(before.initialOffset(), ALL)
    logged = {key: part for key, part in kept.items() if key != orders}
    for loss in ("true", "false"):
        with pytest.raises(ConfigError, match=f"leaves out {orders} .*Delete the file with the highest"):
            stream(**both, failOnDataLoss=loss).partitions(kept, logged)


def test_a_deleted_topic_is_lost_data_before_the_log_has_it(stream, make_topic, produce, admin):
    gone, kept = make_topic(), make_topic()
    produce(gone, numbers(0, 3))
    options = {"subscribe": f"{gone},{kept}", "startingOffsets": "earliest"}
    before = stream(**options)
    start = before.latestOffset(before.initialOffset(), ALL)
    admin.delete_topics([gone])[gone].result(30)
    wait_until(lambda: gone not in admin.list_topics(timeout=30).topics)
    for subscription in (options["subscribe"], kept):
        with pytest.raises(DataLoss, match=f"partitions {gone}-0 do not exist any more"):
            stream(subscribe=subscription).latestOffset(start, ALL)
        lenient = stream(subscribe=subscription, failOnDataLoss="false")
        assert plain(lenient.latestOffset(start, ALL)) == {kept: {"0": 0}}


def test_the_addresses_of_another_cluster_are_refused(stream, make_topic, produce, group, committed):
    topic = make_topic()
    produce(topic, numbers(0, 3))
    options = {"subscribe": topic, "startingOffsets": "earliest", "group_id": group}
    before = stream(**options)
    start = before.initialOffset()
    end = before.latestOffset(start, ALL)
    for kept in (start, end):
        kept["@cluster"] = {"id": "another"}
    expected = "has offsets in the cluster another, but option 'kafka.bootstrap.servers'"
    with pytest.raises(ConfigError, match=expected):
        stream(**options).latestOffset(end, ALL)
    with pytest.raises(ConfigError, match=expected):
        stream(**options).partitions(start, end)
    assert committed() == {}


# Transactions


def test_committed_records_alone_continue_where_all_were_read(stream, make_topic, produce, servers):
    """A query that has read into an open transaction waits for its end, as nothing is lost."""
    topic = make_topic()
    produce(topic, numbers(0, 2))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"2")
    producer.flush(30)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    everything = stream(**options, **{"kafka.isolation.level": "read_uncommitted"})
    start = end_soon(everything, everything.initialOffset(), {topic: {"0": 3}})
    reader = stream(**options)
    assert reader.latestOffset(start, ALL) == start
    producer.commit_transaction(30)
    produce(topic, numbers(3, 5))
    end = end_soon(reader, start, {topic: {"0": 6}})
    assert values(reader, reader.partitions(start, end)) == numbers(3, 5)


def test_only_committed_records_are_read_unless_asked_otherwise(stream, make_topic, produce, servers):
    topic = make_topic()
    produce(topic, numbers(0, 2))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    for commit, first in ((True, 2), (False, 4)):
        producer.begin_transaction()
        for value in numbers(first, first + 2):
            producer.produce(topic, value)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    produce(topic, numbers(6, 7))
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    reader = stream(subscribe=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    end = end_soon(reader, start, {topic: {"0": 9}})
    assert values(reader, reader.partitions(start, end)) == [*numbers(0, 4), *numbers(6, 7)]
    everything = stream(
        subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_uncommitted"}
    )
    end = end_soon(everything, start, {topic: {"0": 10}})
    assert values(everything, everything.partitions(start, end)) == [*numbers(0, 7), b"open"]
    producer.abort_transaction(30)
    past = end_soon(reader, reader.latestOffset(start, ALL), {topic: {"0": 11}})
    assert values(reader, reader.partitions(start, past)) == [*numbers(0, 4), *numbers(6, 7)]


# Groups


def test_a_group_follows_batch_by_batch(stream, make_topic, produce, group, committed):
    topic = make_topic(2)
    produce(topic, numbers(0, 5), partition=0)
    reader = stream(subscribe=topic, startingOffsets="earliest", group_id=group)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ALL)
    reader.partitions(start, first)
    assert committed() == {}, "batch 0 is not complete yet"
    assert first["@group"]["id"] == group
    assert first["@group"]["cluster"]
    produce(topic, numbers(5, 8), partition=1)
    second = end_soon(reader, first, {topic: {"0": 5, "1": 3}})
    reader.partitions(first, second)
    assert committed() == {0: 5, 1: 0}, "done before the next batch's plan is handed over"
    assert reader.latestOffset(second, ALL) == second
    assert committed() == {0: 5, 1: 3}, "idle: within the trigger"


def test_a_group_follows_a_query_that_starts_where_the_log_ends(
    stream, make_topic, produce, group, committed
):
    topic = make_topic()
    produce(topic, numbers(0, 5))
    reader = stream(subscribe=topic, group_id=group)
    start = reader.initialOffset()
    pinned = reader.latestOffset(start, ALL)
    assert committed() == {}
    reader.latestOffset(pinned, ALL)
    assert committed() == {0: 5}


def test_the_last_batch_of_a_run_to_the_present_end_is_committed(
    stream, make_topic, produce, group, committed
):
    topic = make_topic()
    produce(topic, numbers(0, 5))
    reader = stream(subscribe=topic, startingOffsets="earliest", group_id=group)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert committed() == {}
    assert reader.latestOffset(end, ALL) == end
    assert committed() == {0: 5}


def test_a_restarted_query_commits_what_the_last_run_could_not(stream, make_topic, produce, group, committed):
    topic = make_topic()
    produce(topic, numbers(0, 5))
    reader = stream(subscribe=topic, startingOffsets="earliest")
    kept = reader.latestOffset(reader.initialOffset(), ALL)
    following = stream(subscribe=topic, startingOffsets="earliest", group_id=group)
    named = following.latestOffset(kept, ALL)
    assert plain(named) == plain(kept)
    assert named != kept, "one empty batch brings the group into the checkpoint"
    following.partitions(kept, named)
    assert committed() == {0: 5}


def test_a_group_in_use_stops_the_query_at_once(stream, make_topic, group, servers):
    topic = make_topic()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        consumer.poll(0.05)
        assert time.monotonic() < deadline
    with pytest.raises(GroupInUse, match=group):
        stream(subscribe=topic, group_id=group).initialOffset()
    consumer.close()


def test_a_query_starts_where_a_group_stands(stream, source, make_topic, produce, group, admin):
    topic = make_topic(2)
    produce(topic, numbers(0, 5), partition=0)
    produce(topic, numbers(5, 9), partition=1)
    moved = ConsumerGroupTopicPartitions(group, [KafkaPartition(topic, 0, 3)])
    admin.alter_consumer_group_offsets([moved])[group].result(30)
    options = {"subscribe": topic, "startingOffsets": "committed", "group_id": group}
    with pytest.raises(ConfigError, match=rf"group '{group}' has no committed offset for {topic}-1"):
        stream(**options).initialOffset()
    for strategy, offset in (("earliest", 0), ("latest", 4)):
        reader = stream(**options, startingOffsetsCommittedStrategy=strategy)
        assert plain(reader.initialOffset()) == {topic: {"0": 3, "1": offset}}
    described = source(**options, startingOffsetsCommittedStrategy="earliest")
    batch = described.reader(described.schema())
    assert sorted(values(batch, batch.partitions()), key=int) == numbers(3, 9)


# Batch reads


def test_tasks_of_a_batch_read_are_of_similar_size(source, make_topic, produce):
    """One partition has nearly all the bytes, another nearly all the records."""
    topic = make_topic(6)
    produce(topic, [b"x" * 20_000] * 600, partition=0)
    produce(topic, [b"s"] * 3000, partition=1)
    for partition in range(2, 6):
        produce(topic, [b"t"], partition=partition)

    def tasks(**options):
        described = source(subscribe=topic, **options)
        reader = described.reader(described.schema())
        partitions = reader.partitions()
        assert len(values(reader, partitions)) == 3604
        return [[(part.partition, part.end - part.start) for part in task.value] for task in partitions]

    found = tasks()
    assert 3 <= len(found) <= 6
    assert sum(task[0][0] == 0 for task in found) >= 3, "the large one is cut"
    assert any(len(task) > 2 for task in found), "small ones share a task"
    assert len(tasks(maxBytesPerPartition=2_500_000)) > len(found)
    assert len(tasks(maxPartitions=2)) == 2
    assert len(tasks(minPartitions=6)) == 6


def test_a_batch_read_does_not_end_before_it_starts(source, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 9))
    described = source(
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 5}}),
        endingOffsets=json.dumps({topic: {"0": 4}}),
    )
    with pytest.raises(
        ConfigError, match=f"the start of {topic}-0 is offset 5: expected one up to its end, 4"
    ):
        described.reader(described.schema()).partitions()
