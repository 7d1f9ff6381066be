"""One client of each kind per Spark worker process and configuration, kept from task to task.

Spark reuses its Python workers, so a task that follows finds metadata and connections in place.
"""

from __future__ import annotations

import os

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.fetcher import FetchConfig, Fetcher
from penstock.client.producer import Producer, ProducerConfig

_clusters: dict[tuple[int, ClientConfig], Cluster] = {}
_producers: dict[tuple[int, ClientConfig, ProducerConfig], Producer] = {}
_fetchers: dict[tuple[int, ClientConfig, FetchConfig], Fetcher] = {}


def shared_cluster(config: ClientConfig) -> Cluster:
    """The process's client for this configuration; the process id keeps a forked worker off its parent's."""
    key = (os.getpid(), config)
    if key not in _clusters:
        _clusters[key] = Cluster(config)
    return _clusters[key]


def shared_fetcher(config: ClientConfig, fetch: FetchConfig) -> Fetcher:
    key = (os.getpid(), config, fetch)
    if key not in _fetchers:
        _fetchers[key] = Fetcher(shared_cluster(config), fetch)
    return _fetchers[key]


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
