"""Helpers for the tests of cluster faults.

PENSTOCK_CLUSTER_FAULTS is the number of faults in each test; without it none of them runs. PENSTOCK_SEED
repeats the random choices of a run, but not its timing.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.client.admin.quorum import describe_quorum
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from penstock.operations.health import health
from penstock_node import PenstockNode
from several_nodes import SeveralNodes

FAULTS = int(os.environ.get("PENSTOCK_CLUSTER_FAULTS", "0"))
WHOLE_WITHIN_S = 90
TUNED = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "3000",
}

MARKS = [
    pytest.mark.kafka,
    pytest.mark.skipif(not FAULTS, reason="takes minutes: PENSTOCK_CLUSTER_FAULTS=4, or make test-cluster"),
    pytest.mark.timeout(300 + 60 * FAULTS),
]


def new_seed() -> int:
    chosen = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={chosen}")
    return chosen


def node(cluster: SeveralNodes, node_id: int) -> PenstockNode:
    found = cluster.nodes[node_id]
    assert isinstance(found, PenstockNode)
    return found


@contextmanager
def client(cluster: SeveralNodes) -> Iterator[Client]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "default.api.timeout.ms": "60000"}
    with Client(ClientConfig.from_properties(settings)) as opened:
        yield opened


def until_whole(cluster: SeveralNodes) -> None:
    """Wait until every replica is in sync and every broker is running.

    Tests call it before the next fault, because they cover one fault at a time.
    """
    deadline = time.monotonic() + WHOLE_WITHIN_S
    with client(cluster) as asking:
        while True:
            found, missing = health(asking), fenced(asking)
            if found.is_whole and not missing:
                return
            assert time.monotonic() < deadline, f"not whole: {found.under_replicated[:5]} fenced={missing}"
            time.sleep(0.2)


def fenced(asking: Client) -> list[int]:
    return [broker.broker_id for broker in health(asking).brokers if broker.is_fenced]


def quorum_leader(cluster: SeveralNodes) -> int:
    with client(cluster) as asking:
        return describe_quorum(asking).leader_id
