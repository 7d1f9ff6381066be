"""One client of each kind per Spark worker process and configuration, kept from task to task.

Spark reuses its Python workers, so a task that follows finds metadata and connections in place.
"""

from __future__ import annotations

import os

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.fetcher import FetchConfig, Fetcher
from penstock.client.producer import Producer, ProducerConfig


class Reader:
    """What fetches for one task at a time, with connections and metadata of its own."""

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


def shared_cluster(config: ClientConfig) -> Cluster:
    """The process's client for this configuration; the process id keeps a forked worker off its parent's."""
    key = (os.getpid(), config)
    if key not in _clusters:
        _clusters[key] = Cluster(config)
    return _clusters[key]


def take_reader(config: ClientConfig, fetch: FetchConfig) -> Reader:
    """A reader that nobody else has; `give_back_reader` when there is nothing in flight, or close it."""
    idle = _readers.get((os.getpid(), config, fetch))
    return idle.pop() if idle else Reader(config, fetch)


def give_back_reader(reader: Reader) -> None:
    _readers.setdefault((os.getpid(), reader.config, reader.fetch), []).append(reader)


def shared_producer(config: ClientConfig, producer: ProducerConfig) -> Producer:
    """A producer whose numbering runs on from task to task; after an error it has to be discarded."""
    key = (os.getpid(), config, producer)
    if key not in _producers:
        _producers[key] = Producer(shared_cluster(config), producer)
    return _producers[key]


def discard_producer(config: ClientConfig, producer: ProducerConfig) -> None:
    """Forget a producer with batches that were not acknowledged."""
    discarded = _producers.pop((os.getpid(), config, producer), None)
    if discarded is not None:
        discarded.close()
