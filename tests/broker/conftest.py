"""Nodes for the broker's tests: one that the tests share, and one for a single test."""

from collections.abc import Callable, Iterator

import pytest

from broker_wire import Wire
from penstock.testing import Cluster


@pytest.fixture(scope="session")
def node() -> Iterator[Cluster]:
    """A node that tests share; each test uses topics of its own."""
    shipped = {"log.retention.hours": "168"}
    with Cluster({"log.retention.check.interval.ms": "200", **shipped}) as cluster:
        yield cluster


@pytest.fixture
def wire(node: Cluster) -> Iterator[Wire]:
    """A connection to the shared node."""
    with Wire(node.bootstrap_servers) as connection:
        yield connection


@pytest.fixture
def topic(wire: Wire, request: pytest.FixtureRequest) -> str:
    """A topic of one partition for this test alone."""
    name = f"{request.node.name.removeprefix('test_')}"[:200].translate({ord(c): "-" for c in "[]/ :,"})
    wire.create_topic(name)
    return name


@pytest.fixture
def start_node() -> Iterator[Callable[..., Cluster]]:
    """Start a node with settings of its own: `start_node(max_connections="2")`, underscores for dots."""
    started: list[Cluster] = []

    def start(**settings: str) -> Cluster:
        cluster = Cluster({name.replace("_", "."): value for name, value in settings.items()})
        started.append(cluster.start())
        return cluster

    yield start
    for cluster in started:
        cluster.close()
