"""The ends of partitions under repeated requests: new records are reported at once."""

from __future__ import annotations

import socket
import uuid

from confluent_kafka import Producer

from penstock.client.admin.topics import NewTopic, create_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.offsets import IsolationLevel
from penstock.spark.source.subscription import Topics
from penstock.spark.source.tail import Tail
from penstock.testing import Cluster as Nodes


def test_what_comes_behind_news_is_told_at_once(penstock_cluster: Nodes) -> None:
    """A reader that has read up to the reported end is woken by the next record."""
    place = TopicPartition(f"tail-{uuid.uuid4().hex[:8]}", 0)
    producer = Producer({"bootstrap.servers": penstock_cluster.bootstrap_servers})

    def produce() -> None:
        producer.produce(place.topic, b"x")
        assert producer.flush(30) == 0

    config = ClientConfig.from_properties({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    with Cluster(config) as cluster:
        create_topics(cluster, [NewTopic(place.topic, 1)])
        # The clock stands still, so no end is reported merely because a refresh was due.
        tail = Tail(cluster, Topics((place.topic,)), IsolationLevel.READ_COMMITTED, clock=lambda: 100.0)
        try:
            assert tail.ends({place: 0}) == {place: 0}
            produce()
            told = {place: 0}
            while told == {place: 0}:  # until the fetch that waits is answered
                told = tail.ends(told)
            for end in (2, 3, 4):
                produce()
                assert tail.ends(told) == {place: end}
                told = {place: end}
            # The server closes the connection while no fetch waits.
            [watch] = tail._watches.values()
            assert not watch.in_flight
            watch._socket.shutdown(socket.SHUT_RDWR)
            assert tail.ends(told) == told
        finally:
            tail.close()
