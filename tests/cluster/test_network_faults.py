"""Nodes under load whose network fails: in one direction, by delays, or between two nodes only.

`cluster_faults` says how to run it.
"""

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import permutations
from pathlib import Path

import pytest
from cluster_faults import FAULTS, MARKS, TUNED, client, fenced, new_seed, node, until_whole
from cluster_histories import Load, under_load
from own_network import HAS_OWN_NETWORK, run_again_in_own_network

from one_way_proxy import Direction, OneWayProxy
from several_nodes import SeveralNodes, penstock_nodes

pytestmark = MARKS


class CutOff:
    """Nodes that other nodes and clients reach only through proxies."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self.cluster = penstock_nodes(directory, config=TUNED)
        self.proxies: dict[int, tuple[OneWayProxy, OneWayProxy]] = {}
        for node_id, made in self.cluster.nodes.items():
            host, port = made.bootstrap_servers.split(":")
            controller_port = self.cluster.controllers[node_id].rpartition(":")[2]
            self.proxies[node_id] = (
                stack.enter_context(OneWayProxy(_to(host, int(port)))),
                stack.enter_context(OneWayProxy(_to(host, int(controller_port)))),
            )
        voters = ",".join(f"{node_id}@{proxies[1].address}" for node_id, proxies in self.proxies.items())
        for node_id, made in self.cluster.nodes.items():
            made.config["controller.quorum.voters"] = voters
            made.config["advertised.listeners"] = (
                f"PLAINTEXT://{self.proxies[node_id][0].address},"
                f"CONTROLLER://{self.proxies[node_id][1].address}"
            )


def _to(host: str, port: int) -> Callable[[], tuple[str, int]]:
    return lambda: (host, port)


@pytest.mark.parametrize("directions", [(Direction.IN,), (Direction.OUT,), tuple(Direction)], ids=str)
def test_a_node_is_cut_off(directions: tuple[Direction, ...], tmp_path: Path, kafka_libs: Path) -> None:
    """A node gets no requests, its answers don't arrive, or both, for 3 to 12 s.

    Its own requests still arrive.
    """
    dice = random.Random(seed := new_seed())
    with ExitStack() as stack:
        cut_off = CutOff(stack, tmp_path)
        cluster = stack.enter_context(cut_off.cluster)

        def disturb(load: Load) -> None:
            for _ in range(FAULTS):
                until_whole(cluster)
                load.goes_on()
                victim = dice.choice(list(cluster.nodes))
                for proxy in cut_off.proxies[victim]:
                    proxy.stop(*directions)
                time.sleep(dice.uniform(3, 12))
                for proxy in cut_off.proxies[victim]:
                    if dice.random() < 0.5:
                        proxy.drop_connections()
                    proxy.heal()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, kafka_libs, disturb)


def test_a_slow_network(tmp_path: Path, kafka_libs: Path) -> None:
    """One node's answers are delayed by 20 to 60 ms: it stays in sync, and all clients continue."""
    dice = random.Random(seed := new_seed())
    with ExitStack() as stack:
        cut_off = CutOff(stack, tmp_path)
        cluster = stack.enter_context(cut_off.cluster)

        def disturb(load: Load) -> None:
            until_whole(cluster)
            for _ in range(FAULTS):
                for proxy in cut_off.proxies[dice.choice(list(cluster.nodes))]:
                    proxy.delay(dice.choice(list(Direction)), dice.uniform(0.02, 0.06))
                time.sleep(3)
                load.goes_on()
            for proxies in cut_off.proxies.values():
                for proxy in proxies:
                    proxy.heal()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, kafka_libs, disturb)


# -- a separate machine for each node ------------------------------------------------------------------

NOBODY = "02:00:00:00:00:ff"
"""No interface has this address, so data sent there is lost silently."""


class Machines:
    """A network namespace with an address for each node, joined by a bridge in this process's namespace."""

    def __init__(self, stack: ExitStack, node_ids: list[int]) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge0", "type", "bridge")
        run("ip", "address", "add", "10.77.0.254/24", "dev", "bridge0")
        run("ip", "link", "set", "bridge0", "up")
        self._pids: dict[int, int] = {}
        for node_id in node_ids:
            holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
            stack.callback(holder.wait)
            stack.callback(holder.kill)
            self._pids[node_id] = holder.pid
            until_apart(holder.pid)
            run(
                "ip",
                "link",
                "add",
                f"node{node_id}",
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                f"{holder.pid}",
            )
            run("ip", "link", "set", f"node{node_id}", "master", "bridge0", "up")
            self.run_on(node_id, "ip", "link", "set", "lo", "up")
            self.run_on(node_id, "ip", "address", "add", f"{self.address(node_id)}/24", "dev", "eth0")
            self.run_on(node_id, "ip", "link", "set", "eth0", "up")

    def address(self, node_id: int) -> str:
        return f"10.77.0.{node_id}"

    def inside(self, node_id: int) -> list[str]:
        """The command prefix to run in the namespace."""
        return ["nsenter", "--net", "--target", str(self._pids[node_id]), "--"]

    def run_on(self, node_id: int, *words: str) -> None:
        run(*self.inside(node_id), *words)

    def unplug(self, node_id: int) -> None:
        run("ip", "link", "set", f"node{node_id}", "down")

    def plug_in(self, node_id: int) -> None:
        run("ip", "link", "set", f"node{node_id}", "up")

    def lose(self, source: int, target: int) -> None:
        """Drop data from one node to another; the opposite direction stays open."""
        self.run_on(
            source,
            *("ip", "neighbour", "replace", self.address(target), "lladdr", NOBODY),
            *("dev", "eth0", "nud", "permanent"),
        )

    def find(self, source: int, target: int) -> None:
        self.run_on(source, "ip", "neighbour", "del", self.address(target), "dev", "eth0")


def run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


def until_apart(pid: int) -> None:
    """Wait until a process has left this process's network."""
    ours = os.readlink("/proc/self/ns/net")
    deadline = time.monotonic() + 60
    while os.readlink(f"/proc/{pid}/ns/net") == ours:
        assert time.monotonic() < deadline, "unshare does nothing"
        time.sleep(0.01)


@contextmanager
def on_machines(directory: Path) -> Iterator[tuple[SeveralNodes, Machines]]:
    cluster = penstock_nodes(directory, dynamic_quorum=False, config=TUNED)
    with ExitStack() as stack:
        machines = Machines(stack, list(cluster.nodes))
        voters = ",".join(f"{node_id}@{machines.address(node_id)}:9093" for node_id in cluster.nodes)
        for node_id in cluster.nodes:
            made, address = node(cluster, node_id), machines.address(node_id)
            made.address = f"{address}:9092"
            made.command = [*machines.inside(node_id), *made.command]
            made.config["controller.quorum.voters"] = voters
            made.config["listeners"] = f"PLAINTEXT://{address}:9092,CONTROLLER://{address}:9093"
        yield stack.enter_context(cluster), machines


def test_machines_lose_each_other(tmp_path: Path, request: pytest.FixtureRequest, kafka_libs: Path) -> None:
    """Each node has its own network interface: it is unplugged, or loses another node, one way or both."""
    if not HAS_OWN_NETWORK:
        run_again_in_own_network(request.node)
        return
    dice = random.Random(seed := new_seed())
    with on_machines(tmp_path) as (cluster, machines):

        def disturb(load: Load) -> None:
            for number in range(FAULTS):
                until_whole(cluster)
                load.goes_on()
                here, there = dice.choice(list(permutations(cluster.nodes, 2)))
                lost = [(here, there), (there, here)][: number % 3]
                if not lost:
                    machines.unplug(here)
                for pair in lost:
                    machines.lose(*pair)
                time.sleep(dice.uniform(6, 12))
                if not lost:
                    with client(cluster) as asking:
                        assert here in fenced(asking)
                    machines.plug_in(here)
                for pair in lost:
                    machines.find(*pair)
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, kafka_libs, disturb)
