"""The pytest fixture `penstock_cluster`: one real node for the whole test session.

Topics outlive a test, so give each test its own topic and group names. A test that kills or restarts the node
should create its own `penstock.testing.Cluster`.
"""

from collections.abc import Iterator

import pytest

from penstock.testing.cluster import Cluster


@pytest.fixture(scope="session")
def penstock_cluster() -> Iterator[Cluster]:
    """A running node; `penstock_cluster.bootstrap_servers` is its address."""
    with Cluster() as cluster:
        yield cluster
