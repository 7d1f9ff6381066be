"""The client against a real node: offsets, fetching, producing, and a node that is killed in between."""

import threading
import time
import uuid
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import DeliveryFailed, OffsetOutOfRange, RecordTooLarge, UnknownPartition
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.client.reading.fetcher import FetchConfig, Fetcher, PartitionRange
from penstock.client.reading.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, decode_batches, encode_batch
from penstock.testing import Cluster as Node
from waiting import wait_until

# The records of these tests have timestamps in 1970.
KEEP_OLD_RECORDS = {"retention.ms": "-1"}
KEEP_ALL_LOGS = {"log.retention.ms": "-1"}


@pytest.fixture
def cluster(penstock_cluster):
    with Cluster(config_for(penstock_cluster)) as made:
        yield made


@pytest.fixture
def make_topic(cluster):
    def make(partitions=1, **config):
        name = f"client-{uuid.uuid4().hex}"
        admin = AdminClient({"bootstrap.servers": cluster.config.servers_text})
        settings = KEEP_OLD_RECORDS | {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        return name

    return make


def config_for(node, **settings):
    return ClientConfig.from_properties({"bootstrap.servers": node.bootstrap_servers} | settings)


def batch(values, timestamp=1000, compression=Codec.NONE):
    records = [Record(0, timestamp + i, None, value, []) for i, value in enumerate(values)]
    return bytearray(encode_batch(records, compression=compression))


def numbered(first, count, size=0):
    return [b"%d" % number + b"." * size for number in range(first, first + count)]


def produce(cluster, topic, *batches, partition=0, **settings):
    producer = Producer(cluster, ProducerConfig(**settings))
    for one in batches:
        producer.send(topic, partition, one)
    producer.flush()
    producer.close()


def fetch(cluster, *ranges, **settings):
    """(partition, offset, value) of every record of the batches that arrive."""
    fetcher = Fetcher(cluster, FetchConfig(**settings))
    found = [
        (fetched.range.partition, record.offset, record.value)
        for fetched in fetcher.read(ranges)
        for record in decode_batches(fetched.batches)
    ]
    fetcher.close()
    return found


def test_offsets_by_end_and_by_time(cluster, make_topic):
    topic = make_topic(2)
    produce(cluster, topic, batch(numbered(0, 3), timestamp=1000), batch(numbered(3, 2), timestamp=2000))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def offsets(timestamp):
        return {
            tp: found.offset
            for tp, found in list_offsets(cluster, {first: timestamp, second: timestamp}).items()
        }

    assert offsets(EARLIEST) == {first: 0, second: 0}
    assert offsets(LATEST) == {first: 5, second: 0}
    assert offsets(1001) == {first: 1, second: NO_OFFSET}
    assert offsets(1999) == {first: 3, second: NO_OFFSET}


def test_what_does_not_exist_is_named_at_once(cluster, monkeypatch):
    def ask_again(_pause_s):
        raise AssertionError("the first answer says it")

    monkeypatch.setattr(cluster, "policy", replace(cluster.policy, sleep=ask_again))
    with pytest.raises(UnknownPartition, match="topic 'nowhere' does not exist in the cluster at 127"):
        cluster.require_topics(["nowhere"])
    with pytest.raises(UnknownPartition, match="partition nowhere-3 does not exist"):
        list_offsets(cluster, {TopicPartition("nowhere", 3): LATEST})


@pytest.mark.parametrize("compression", Codec)
def test_fetched_is_what_was_produced(cluster, make_topic, compression):
    topic = make_topic(3)
    for partition in range(3):
        batches = [batch(numbered(i, 10), compression=compression) for i in range(0, 50, 10)]
        produce(cluster, topic, *batches, partition=partition)
    found = fetch(cluster, *(PartitionRange(topic, p, 0, 50) for p in range(3)), max_partition_bytes=200)
    for partition in range(3):
        mine = [(offset, value) for p, offset, value in found if p == partition]
        assert mine == list(enumerate(numbered(0, 50)))


def test_a_range_is_fetched_with_the_batches_at_its_borders_only(cluster, make_topic):
    topic = make_topic()
    produce(cluster, topic, *(batch(numbered(i, 10)) for i in range(0, 100, 10)))
    offsets = [
        offset for _, offset, _ in fetch(cluster, PartitionRange(topic, 0, 25, 45), max_partition_bytes=100)
    ]
    assert offsets == list(range(20, 50))
    assert fetch(cluster, PartitionRange(topic, 0, 30, 30)) == []


def test_an_offset_outside_the_log_is_named(cluster, make_topic):
    topic = make_topic()
    produce(cluster, topic, batch(numbered(0, 3)))
    with pytest.raises(OffsetOutOfRange, match=f"offset 7 of {topic}-0"):
        fetch(cluster, PartitionRange(topic, 0, 7, 9))


def test_a_topic_made_again_is_not_read_in_place_of_the_old_one(cluster, make_topic):
    topic = make_topic()
    produce(cluster, topic, batch(numbered(0, 3)))
    planned = PartitionRange(topic, 0, 0, 3, topic_id=cluster.require_topics([topic])[topic].topic_id)
    admin = AdminClient({"bootstrap.servers": cluster.config.servers_text})
    admin.delete_topics([topic])[topic].result(30)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    produce(cluster, topic, batch(numbered(100, 3)))
    with pytest.raises(UnknownPartition, match=topic):
        fetch(cluster, planned)


def test_a_partition_that_metadata_does_not_have_is_looked_up_again(cluster, make_topic):
    topic = make_topic()
    produce(cluster, topic, batch(numbered(0, 3)))
    admin = AdminClient({"bootstrap.servers": cluster.config.servers_text})
    admin.delete_topics([topic])[topic].result(30)
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
    wanted = [TopicPartition(topic, number) for number in (2, 3)]
    assert cluster.existing(wanted) == {TopicPartition(topic, 2)}
    with pytest.raises(UnknownPartition, match=f"partition {topic}-3 does not exist"):
        cluster.leaders([TopicPartition(topic, 3)])


def test_an_acknowledgement_counts_although_the_topic_has_another_id_by_then(cluster, make_topic):
    topic = make_topic()
    producer = Producer(cluster, ProducerConfig())
    producer.send(topic, 0, batch(numbered(0, 3)))
    tp = TopicPartition(topic, 0)
    wait_until(lambda: list_offsets(cluster, {tp: LATEST})[tp].offset == 3)
    admin = AdminClient({"bootstrap.servers": cluster.config.servers_text})
    admin.delete_topics([topic])[topic].result(30)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    cluster.refresh([topic])
    producer.flush()
    producer.send(topic, 0, batch(numbered(3, 2)))
    producer.flush()
    producer.close()
    assert [value for _, _, value in fetch(cluster, PartitionRange(topic, 0, 0, 2))] == numbered(3, 2)


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_many_batches_arrive_in_order(cluster, make_topic, acks):
    topic = make_topic()
    produce(cluster, topic, *(batch(numbered(i, 7)) for i in range(0, 700, 7)), acks=acks)
    tp = TopicPartition(topic, 0)
    wait_until(lambda: list_offsets(cluster, {tp: LATEST})[tp].offset >= 700)  # acks=0 arrives later
    found = fetch(cluster, PartitionRange(topic, 0, 0, 700))
    assert [value for _, _, value in found] == numbered(0, 700)


def test_batches_that_the_topic_refuses_as_too_large_are_split(cluster, make_topic):
    topic = make_topic(max_message_bytes="2000")
    batches = [batch(numbered(i, 40, size=50), compression=Codec.NONE) for i in range(0, 400, 40)]
    assert all(len(one) > 2000 for one in batches)
    produce(cluster, topic, *batches)
    found = fetch(cluster, PartitionRange(topic, 0, 0, 400))
    assert [value for _, _, value in found] == numbered(0, 400, size=50)


def test_a_single_record_that_is_too_large_is_named(cluster, make_topic):
    topic = make_topic(max_message_bytes="2000")
    with pytest.raises(RecordTooLarge, match=r"raise the topic's max\.message\.bytes") as refused:
        produce(cluster, topic, batch([b"x"]), batch([b"x" * 3000]))
    assert refused.value.batch == 1
    with pytest.raises(RecordTooLarge, match=r"more than max\.request\.size \(1000\)") as refused:
        produce(cluster, topic, batch([b"x" * 1500]), max_request_bytes=1000)
    assert refused.value.batch == 0


def test_a_batch_beyond_the_request_size_is_split_before_it_is_sent(cluster, make_topic):
    topic = make_topic()
    produce(cluster, topic, batch(numbered(0, 100, size=50)), max_request_bytes=1000)
    assert [value for _, _, value in fetch(cluster, PartitionRange(topic, 0, 0, 100))] == numbered(
        0, 100, size=50
    )


def test_a_record_that_the_broker_refuses_fails_the_delivery(cluster, make_topic):
    topic, other = make_topic(cleanup_policy="compact"), make_topic()
    producer = Producer(cluster, ProducerConfig())
    producer.send(other, 0, batch(numbered(0, 2)))
    producer.flush()
    producer.send(topic, 0, batch([b"a compacted topic wants a key"]))
    with pytest.raises(
        DeliveryFailed, match=rf"produce to {topic}-0 at broker \d+: INVALID_RECORD"
    ) as failed:
        producer.flush()
    producer.close()
    assert failed.value.batch == 1


def test_a_node_killed_while_producing_gets_every_record_once_and_in_order():
    """Seven batches are in flight or queued whenever the node dies; the producer continues by itself."""
    with Node(KEEP_ALL_LOGS) as node:
        config = config_for(node, **{"request.timeout.ms": "2000", "retry.backoff.ms": "20"})
        with Cluster(config) as cluster:
            cluster.refresh(["killed"], create=True)
            producer = Producer(cluster, ProducerConfig(buffer_bytes=20_000))
            sent = threading.Event()

            def kill_twice():
                for _ in range(2):
                    sent.wait(60)
                    sent.clear()
                    node.kill()
                    node.start()

            killer = threading.Thread(target=kill_twice)
            killer.start()
            count = 0
            while killer.is_alive() or count < 1000:
                producer.send("killed", 0, batch(numbered(count, 10)))
                count += 10
                sent.set()
                time.sleep(0.001)
            producer.flush()
            killer.join()
            found = fetch(cluster, PartitionRange("killed", 0, 0, count))
            producer.close()
    assert [value for _, _, value in found] == numbered(0, count)


def test_a_fetch_goes_on_when_the_node_comes_back():
    with Node(KEEP_ALL_LOGS) as node, Cluster(config_for(node, **{"retry.backoff.ms": "20"})) as cluster:
        cluster.refresh(["back"], create=True)
        produce(cluster, "back", *(batch(numbered(i, 10)) for i in range(0, 500, 10)))
        fetcher = Fetcher(cluster, FetchConfig(max_partition_bytes=300))
        found = []
        for fetched in fetcher.read([PartitionRange("back", 0, 0, 500)]):
            found += [record.value for record in decode_batches(fetched.batches)]
            if len(found) == 200:
                node.kill()
                node.start()
        fetcher.close()
    assert found == numbered(0, 500)


def test_offsets_come_from_the_next_leader_when_one_is_dead():
    with Node(nodes=2, controllers=1) as nodes, Cluster(config_for(nodes)) as cluster:
        nodes.admin_client().create_topics([NewTopic("orders", 1, 2)])["orders"].result(30)
        orders = TopicPartition("orders", 0)
        produce(cluster, "orders", batch(numbered(0, 3)))
        assert list_offsets(cluster, {orders: LATEST})[orders].offset == 3
        (leader,) = cluster.leaders([orders])
        nodes.node(leader).kill()
        assert list_offsets(cluster, {orders: LATEST})[orders].offset == 3
