"""Three nodes as processes of their own: any of them answers for all, and one is killed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from view_client import NodeProcess, ask, ask_key
from views_cluster import Runner, counting_app

from penstock.testing import Cluster
from waiting import wait_until

KEYS = [f"k{n:03}" for n in range(60)]
SESSION_MS = 6_000
IN_TIME_MS = SESSION_MS - 1_000
"""Less time than another node needs to take over the partitions of a killed node."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster({"group.min.session.timeout.ms": "500"}) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def runner(servers: str) -> Runner:
    name = f"cluster-{uuid.uuid4().hex[:12]}"
    made = Runner(servers, counting_app(name, f"{name}-in"), {f"{name}-in": 6})
    made.create_topics()
    made.process(f"{name}-in", [(key.encode(), "x", 1 + n) for n, key in enumerate(KEYS)])
    return made


class Nodes:
    def __init__(self, runner: Runner, standbys: int) -> None:
        self._runner = runner
        self._standbys = standbys
        self.running: list[NodeProcess] = []

    def start(self, number: int) -> None:
        name = self._runner.topology.application
        made = [
            NodeProcess(
                self._runner.servers, name, f"{name}-in", standbys=self._standbys, session_ms=SESSION_MS
            )
            for _ in range(number)
        ]
        self.running += made
        for node in made:
            node.wait_until_listening()

    def settle(self, copies: int) -> None:
        """Wait until all nodes know each other, and each partition of `counts` has this many copies."""
        endpoints = sorted(node.endpoint for node in self.running)

        def is_settled() -> bool:
            told = [node.health() for node in self.running]
            kept = [tp for found in told for tp, at in found["partitions"].items() if at["store"] == "counts"]
            return all(
                found["members"] == endpoints and found["status"] == "ready" for found in told
            ) and sorted(kept) == sorted([*set(kept)] * copies)

        wait_until(is_settled)


@pytest.fixture
def start_nodes(runner: Runner) -> Iterator[Callable[[int], Nodes]]:
    made: list[Nodes] = []

    def start(standbys: int) -> Nodes:
        made.append(Nodes(runner, standbys))
        made[-1].start(3)
        return made[-1]

    yield start
    for nodes in made:
        for node in nodes.running:
            node.kill()


def values(node: NodeProcess, timeout_ms: int = 20_000) -> dict[str, int]:
    found = {}
    for key in KEYS:
        reply = ask_key(node.endpoint, "counts", key, timeout_ms=timeout_ms)
        assert reply.status == 200, reply
        found[key] = reply.body["value"]
    return found


def test_any_node_answers_for_all_and_the_killed_ones_partitions_are_taken_over(
    runner: Runner, start_nodes: Callable[[int], Nodes]
) -> None:
    nodes = start_nodes(0)
    nodes.settle(copies=1)
    topic = next(iter(runner.topology.source_topics()))
    for node in nodes.running:
        assert values(node) == dict.fromkeys(KEYS, 1)
        page = ask(node.endpoint, "/stores/counts/entries", first="k005", limit=40).body
        assert [entry["key"] for entry in page["entries"]] == KEYS[5:45]
        rest = ask(node.endpoint, "/stores/counts/entries", after=page["next"], last="k049").body
        assert [entry["key"] for entry in rest["entries"]] == KEYS[45:50]
        assert rest["next"] is None
        back = ask(node.endpoint, "/stores/counts/entries", reverse="true", limit=7).body
        assert [entry["key"] for entry in back["entries"]] == KEYS[:-8:-1]
        assert ask(node.endpoint, "/stores/counts/count").body["count"] == 60
        assert ask_key(node.endpoint, "counts", "nobody").error == "KEY_NOT_FOUND"
        assert ask(node.endpoint, "/stores/windows/keys/k011/windows").body["entries"][0]["value"] == 1
    killed = nodes.running.pop()
    lost = [at for at in killed.health()["partitions"].values() if at["store"] == "counts"]
    assert sum(at["entries"] for at in lost) > 0
    killed.kill()
    failed = [ask_key(nodes.running[0].endpoint, "counts", key, timeout_ms=0).status for key in KEYS]
    assert failed.count(503) == sum(at["entries"] for at in lost)
    assert set(failed) == {200, 503}
    runner.process(topic, [(key.encode(), "x", 100) for key in KEYS])
    for node in nodes.running:  # each waits until another node has taken over
        assert values(node)[KEYS[0]] in (1, 2)
    nodes.settle(copies=1)
    wait_until(lambda: all(values(node) == dict.fromkeys(KEYS, 2) for node in nodes.running))


@pytest.mark.long
def test_with_a_standby_nobody_notices(runner: Runner, start_nodes: Callable[[int], Nodes]) -> None:
    nodes = start_nodes(1)
    nodes.settle(copies=2)
    nodes.running.pop().kill()
    began, rounds = time.monotonic(), 0
    while time.monotonic() < began + SESSION_MS / 1000 + 1 or rounds < 2:
        for node in nodes.running:  # before the group has noticed, and while it rebalances
            assert values(node, timeout_ms=IN_TIME_MS) == dict.fromkeys(KEYS, 1)
        rounds += 1
    nodes.settle(copies=2)
    nodes.start(1)
    until = time.monotonic() + 1
    while time.monotonic() < until:  # while partitions are handed over
        for node in nodes.running:
            assert values(node, timeout_ms=IN_TIME_MS) == dict.fromkeys(KEYS, 1)
    nodes.settle(copies=2)
    left = nodes.running.pop()
    assert left.terminate() == 0
    nodes.settle(copies=2)
    for node in nodes.running:
        assert values(node) == dict.fromkeys(KEYS, 1)
