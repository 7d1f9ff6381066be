"""The stores of offsets of one worker's connectors."""

from collections.abc import Iterator

import pytest

from penstock.client.config import ClientConfig
from penstock.connect.errors import ConnectError
from penstock.connect.stores import offset_topic
from penstock.connect.tasks.parts import ClientProperties
from penstock.connect.worker.offset_stores import OFFSETS_TOPIC, OffsetStores
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def clients(cluster: Cluster, **admin: str) -> ClientProperties:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    return ClientProperties(producer=servers, consumer=servers, admin={**servers, **admin})


def test_connectors_share_a_store_only_with_the_same_client(cluster: Cluster) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers})
    stores = OffsetStores(config, offset_topic("worker-offsets"), 5.0, exactly_once=False)
    stores.start()
    try:
        own = {OFFSETS_TOPIC: "own-offsets"}
        for name, admin in (("a", {}), ("b", {}), ("c", {"client.id": "other"})):
            stores.of(name, own, clients(cluster, **admin))
        assert len(stores._own) == 2
    finally:
        stores.close()
    with pytest.raises(ConnectError, match="shutting down"):
        stores.of("a", own, clients(cluster))
    assert not stores._own
