"""For each test a server with a service of its own, on one node for all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from engine_server import Server, new_topics

from penstock.testing import Cluster


@pytest.fixture
def servers(penstock_cluster: Cluster) -> Iterator[str]:
    """The node's address; topics that a test creates are deleted after it."""
    with new_topics(penstock_cluster.bootstrap_servers) as address:
        yield address


@pytest.fixture
def start(servers: str) -> Iterator[Callable[..., Server]]:
    """``start(auto_offset_reset="latest")`` starts a server with these properties."""
    started: list[Server] = []

    def make(**properties: str) -> Server:
        started.append(Server(servers, **properties))
        return started[-1]

    yield make
    for each in started:
        each.close()


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    return start()
