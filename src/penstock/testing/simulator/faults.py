"""Faults injected while a cluster runs, and their repair; the seed decides."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from penstock.testing.simulator.cluster import SimulatedCluster
from penstock.testing.simulator.directory_faults import DirectoryFaults
from penstock.testing.simulator.nodes import VirtualNode

log = logging.getLogger(__name__)

KINDS: Final[dict[str, int]] = {
    "kill": 4,
    "die in a call": 4,
    "power cut": 3,
    "stop": 2,
    "pause": 4,
    "partition": 4,
    "one way": 4,
    "isolate": 3,
    "slow link": 2,
    "loss": 2,
    "cut connections": 4,
    "slow disk": 2,
    "disk errors": 2,
    "log directory": 5,
    "clock": 2,
}
"""The kinds of faults, with their relative frequencies."""

STOP_S: Final = 10.0
"""A clean stop that takes longer ends with a kill."""


class Faults:
    """Injects faults: `run` until `stopping`, then `mend` everything.

    At most `min.insync.replicas` - 1 replicas may lose unflushed data at once, so power fails only while
    `is_whole` returns that every replica is in sync. A killed process loses nothing, at any time.
    """

    def __init__(
        self, cluster: SimulatedCluster, rng: Random, pause_s: float, is_whole: Callable[[], bool]
    ) -> None:
        self.cluster = cluster
        self.rng = rng
        self.pause_s = pause_s
        self.counts: Counter[str] = Counter()
        self.stopping = False
        self._is_whole = is_whole
        self._weather = cluster.network.weather
        self.nodes = list(cluster.nodes.values())
        self.directories = DirectoryFaults(self)

    async def run(self) -> None:
        kinds = list(KINDS)
        # Swarm testing: some seeds have no faults of a kind, others have mainly one kind.
        weights = [weight * self.rng.choice((0, 1, 1, 4)) for weight in KINDS.values()]
        if not any(weights):
            return
        while not self.stopping:
            await asyncio.sleep(self.rng.expovariate(1 / self.pause_s))
            if not self.stopping:
                self._strike(self.rng.choices(kinds, weights)[0])

    def _strike(self, kind: str) -> None:
        node = self.rng.choice(self.nodes)
        duration_s = self.rng.expovariate(1 / 1.5)
        log.info("fault injected fault=%r node=%d for_s=%.3f", kind, node.node_id, duration_s)
        self.counts[kind] += 1
        match kind:
            case "kill" | "die in a call" | "power cut" | "stop":
                self._take_down(kind, node, duration_s)
            case "pause":
                if node.is_running and not node.is_paused:
                    machine = node.machine
                    node.pause()
                    self.later(duration_s, lambda: self.cluster.loop.resume(machine) if machine else None)
            case "partition" | "one way" | "isolate":
                self._block(kind, node, duration_s)
            case "slow link":
                link = (node.host, self.rng.choice(self.nodes).host)
                self._weather.slow[link] = self.rng.uniform(0.02, 0.8)
                self.later(duration_s, lambda: self._weather.slow.pop(link, None))
            case "loss":
                self._weather.loss = self.rng.choice((0.01, 0.05, 0.2))
                self.later(duration_s, self._end_loss)
            case "cut connections":
                for connection in list(self.cluster.network.connections):
                    if self.rng.random() < 0.2:
                        self.cluster.network.cut(connection)
            case "slow disk":
                node.disk.work_s, node.disk.stall_rate = self.rng.choice(
                    ((0.02, 0.0), (0.1, 0.0), (0.005, 0.02))
                )
                self.later(duration_s, lambda: self._mend_disk(node))
            case "disk errors":
                if node.is_up and self.is_safe():
                    self._break_disk(node, duration_s)
            case "log directory":
                self.directories.strike(node, duration_s)
            case "clock":
                node.clock.ahead_ms += self.rng.choice((-5_000, -300, 300, 5_000, 60_000))

    def _break_disk(self, node: VirtualNode, duration_s: float) -> None:
        """Make calls fail; a failed sync loses its data like a power cut, but the process may continue."""
        node.may_fail = True
        node.files.error_rate = self.rng.choice((0.01, 0.1))

        self.later(duration_s, lambda: self._replace_disk(node))

    def _replace_disk(self, node: VirtualNode) -> None:
        """Replace a disk that returns errors, and restart its node."""
        if node.files.error_rate:
            node.files.error_rate = 0.0
            node.kill()
            node.may_fail = False
            node.start()

    def is_safe(self) -> bool:
        """Whether a replica may lose data now: all are in sync, and no other node is about to lose any."""
        return not any(node.may_fail or node.files.failed for node in self.nodes) and self._is_whole()

    def _take_down(self, kind: str, node: VirtualNode, duration_s: float) -> None:
        if not node.is_running or node.may_fail:
            return
        if kind == "power cut" and not self.is_safe():
            kind = "kill"
        if kind == "kill":
            node.kill()
        elif kind == "power cut":
            node.cut_power()
        elif kind == "die in a call":
            node.die_soon(self.rng.randrange(200))
            duration_s += 1.0
        elif node.is_up and not node.is_paused:
            machine = node.machine

            def run_out_of_patience() -> None:
                if node.machine is machine and node.is_running:
                    node.kill()
                    self.start(node)

            self.cluster.loop.on(self.cluster.loop.world, lambda: self.cluster.loop.create_task(node.stop()))
            self.later(STOP_S, run_out_of_patience)  # as service managers do
        self.later(duration_s, lambda: self.start(node))

    def start(self, node: VirtualNode) -> None:
        if node.files.dies_in >= 0:
            node.files.dies_in = -1
        if node.may_fail:
            return  # The node starts when its disk is replaced.
        if not node.is_running:
            node.start()
        elif not node.is_up:
            self.later(1.0, lambda: self.start(node))

    def _block(self, kind: str, node: VirtualNode, duration_s: float) -> None:
        others = [other.host for other in self.nodes if other is not node]
        other = self.rng.choice(others) if others else node.host
        if kind == "one way":
            targets = others if self.rng.random() < 0.4 else [other]
            links = [(node.host, target) for target in targets]
            if self.rng.random() < 0.5:
                links = [(target, source) for source, target in links]
        else:
            targets = others if kind == "isolate" else [other]
            links = [(node.host, target) for target in targets] + [(target, node.host) for target in targets]
        for link in links:
            self._weather.blocked[link] = None

        def heal() -> None:
            for link in links:
                self._weather.blocked.pop(link, None)

        self.later(duration_s, heal)

    def later(self, seconds: float, mend: Callable[[], object]) -> None:
        self.cluster.loop.at(self.cluster.loop.now_s + seconds, mend)

    def _end_loss(self) -> None:
        self._weather.loss = 0.0

    def _mend_disk(self, node: VirtualNode) -> None:
        node.disk.work_s, node.disk.stall_rate = 0.002, 0.0

    def mend(self) -> None:
        """End all faults and start every node."""
        self.stopping = True
        self._weather.blocked.clear()
        self._weather.slow.clear()
        self._end_loss()
        for node in self.nodes:
            self._mend_disk(node)
            self._replace_disk(node)
            node.resume()
            if self.rng.random() < 0.5:
                self.directories.repair(node)
            self.start(node)
