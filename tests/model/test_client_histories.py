"""Histories of concurrent real clients have no anomaly while the node is killed and connections fail.

PENSTOCK_SEED repeats a run's random choices (not its timing), PENSTOCK_KILLS sets the number of kills.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from client_histories import (
    INPUT,
    OUTPUT,
    PARTITIONS,
    History,
    Reader,
    Transformer,
    Worker,
    Writer,
    read_everything,
)
from history import Outcome
from history_checker import check
from node_client import NodeClient

from penstock.protocol.api_keys import ApiKey
from penstock.testing import Cluster
from wire_proxy import Fate, Request, WireProxy

KILLS = int(os.environ.get("PENSTOCK_KILLS", "4"))
CONFIG = {"transaction.state.log.num.partitions": "3"}


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={chosen}")
    return chosen


@pytest.mark.timeout(200 + 10 * KILLS)
def test_kills(seed: int) -> None:
    dice = random.Random(seed)
    with Cluster(CONFIG) as node:

        def disturb() -> None:
            for _ in range(KILLS):
                time.sleep(dice.uniform(0.3, 1.2))
                node.kill()
                node.start()
            time.sleep(0.5)

        run(node, node.bootstrap_servers, seed, disturb)


@pytest.mark.timeout(200)
def test_a_wire_that_misbehaves(seed: int) -> None:
    dice = random.Random(seed)

    def decide(request: Request) -> Fate:
        if dice.random() > 0.04:
            return Fate.PASS
        fate = dice.choice([Fate.DELAY, Fate.REPEAT, Fate.CUT_BEFORE, Fate.CUT_AFTER])
        if fate is Fate.REPEAT and request.api_key == ApiKey.INIT_PRODUCER_ID:
            return Fate.PASS  # a producer that sends this twice fences itself
        return fate

    with WireProxy() as proxy:
        config = {**CONFIG, "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap_servers}"}
        with Cluster(config) as node:
            proxy.target = node.bootstrap_servers
            NodeClient(node.bootstrap_servers).find_coordinators()
            proxy.decide = decide
            run(node, proxy.bootstrap_servers, seed, lambda: time.sleep(4))
        assert len(Counter(fate for _, fate in proxy.met)) == 4


def run(node: Cluster, bootstrap_servers: str, seed: int, disturb: Callable[[], None]) -> None:
    """Run clients through `bootstrap_servers`; create the topics and read the end past the proxy."""
    client = NodeClient(node.bootstrap_servers)
    client.find_coordinators()
    for topic in (INPUT, OUTPUT):
        client.create_topic(topic, PARTITIONS, {})
    history = History()
    writers = [Writer(bootstrap_servers, history, seed) for _ in range(2)]
    transformers = [Transformer(bootstrap_servers, history, seed, number) for number in range(PARTITIONS)]
    readers = [Reader(bootstrap_servers, history, seed) for _ in range(2)]
    workers: list[Worker] = [*writers, *transformers, *readers]
    for worker in workers:
        worker.start()
    disturb()
    for worker in workers:
        worker.finish()
    read_everything(client, history)
    judge(history)


def judge(history: History) -> None:
    report = check(history.operations)
    outcomes = Counter(operation.outcome.value for operation in history.operations)
    print(f"{len(history.operations)} operations: {dict(outcomes)}; {len(report.write_cycles)} write cycles")
    assert report.anomalies() == {}
    found: dict[str, list[str]] = {INPUT: [], OUTPUT: []}
    for poll in history.operations[-1].polls():
        found[poll.partition[0]] += [value for _, value in poll.records]
    assert found[INPUT], "nothing was written"
    moved = Counter(value.split("/")[0] for value in found[OUTPUT])
    assert moved == Counter(found[INPUT]), "each value is moved once"
    transacted = [operation for operation in history.operations if operation.transactional]
    assert any(operation.outcome is Outcome.FAILED for operation in transacted), "some were aborted"
