"""One client of each kind per Spark worker process and configuration, kept across tasks.

Spark reuses its Python workers, so later tasks find the metadata and the connections in place.
"""

from __future__ import annotations

import logging
import os

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicMetadata
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.client.reading.fetcher import FetchConfig, Fetcher

log = logging.getLogger(__name__)


class Reader:
    """A fetcher with its own connections and metadata, used by one task at a time."""

    def __init__(self, config: ClientConfig, fetch: FetchConfig) -> None:
        self.config = config
        self.fetch = fetch
        self.cluster = Cluster(config)
        self.fetcher = Fetcher(self.cluster, fetch)

    def close(self) -> None:
        self.fetcher.close()
        self.cluster.close()


_clusters: dict[tuple[int, ClientConfig], Cluster] = {}
_producers: dict[tuple[int, ClientConfig, ProducerConfig], Producer] = {}
_readers: dict[tuple[int, ClientConfig, FetchConfig], list[Reader]] = {}
# The topics that the latest task of the process wrote to.
_written: dict[tuple[int, ClientConfig], frozenset[str]] = {}


def shared_cluster(config: ClientConfig) -> Cluster:
    """The process's client for this configuration.

    The process id is part of the key, so that a forked worker doesn't use its parent's connections.
    """
    key = (os.getpid(), config)
    if key not in _clusters:
        _clusters[key] = Cluster(config)
    return _clusters[key]


class WrittenTopics:
    """The topics that one task writes to, with metadata that was requested for this task.

    Since an earlier task of this process, a topic may have been deleted and created again with another number
    of partitions. The request for the task's first topic includes all that the previous task wrote to.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._cluster = shared_cluster(config)
        self._key = (os.getpid(), config)
        self._known: dict[str, TopicMetadata] = {}
        self._used: frozenset[str] = frozenset()

    def __getitem__(self, topic: str) -> TopicMetadata:
        """The metadata of a topic, which the broker may create if it is missing. Raises ClientError."""
        if topic not in self._known:
            asked = {topic} if self._known else {topic, *_written.get(self._key, ())}
            self._cluster.forget(asked)
            self._known |= self._cluster.topics(asked)
            is_missing = topic not in self._known
            self._known |= self._cluster.require_topics([topic], create=True)
            if is_missing:
                log.warning(
                    "topic did not exist, the broker created it topic=%s partitions=%d",
                    topic,
                    len(self._known[topic].partitions),
                )
        if topic not in self._used:
            self._used |= {topic}
            _written[self._key] = self._used
        return self._known[topic]


def take_reader(config: ClientConfig, fetch: FetchConfig) -> Reader:
    """Return a reader that no other task uses.

    The caller passes it to `give_back_reader` once nothing is in flight, or else closes it.
    """
    idle = _readers.get((os.getpid(), config, fetch))
    return idle.pop() if idle else Reader(config, fetch)


def give_back_reader(reader: Reader) -> None:
    _readers.setdefault((os.getpid(), reader.config, reader.fetch), []).append(reader)


def shared_producer(config: ClientConfig, producer: ProducerConfig) -> Producer:
    """A producer whose sequence numbers continue across tasks. After an error, discard it."""
    key = (os.getpid(), config, producer)
    if key not in _producers:
        _producers[key] = Producer(shared_cluster(config), producer)
    return _producers[key]


def discard_producer(config: ClientConfig, producer: ProducerConfig) -> None:
    """Drop and close a producer that has batches which were not acknowledged."""
    discarded = _producers.pop((os.getpid(), config, producer), None)
    if discarded is not None:
        discarded.close()
