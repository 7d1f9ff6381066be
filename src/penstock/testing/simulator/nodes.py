"""Real nodes on simulated machines, which can be started, paused, killed and cut off from power."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, cast

from penstock.broker.node import Broker, CannotStart
from penstock.broker.setup.environment import Environment
from penstock.metadata.configs import BrokerConfig
from penstock.testing.crash_files import CrashFiles, Died
from penstock.testing.simulator.disks import Disk, DiskFiles
from penstock.testing.simulator.loop import Machine, VirtualLoop
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.workers import VirtualExecutor

if TYPE_CHECKING:
    import socket

    from penstock.broker.network.server import ServerLimits
    from penstock.metadata.configs import Listener

log = logging.getLogger(__name__)

EPOCH_MS: Final = 1_700_000_000_000
"""The time of wall clocks when the simulation begins."""


class VirtualEnvironment(Environment):
    """The environment of one process."""

    def __init__(
        self, loop: VirtualLoop, network: Network, files: CrashFiles, disk: Disk, rng: Random, clock: Clock
    ) -> None:
        self.rng = rng
        self.files = files
        self.dial = network.dial()
        self.sendfile = self._sendfile
        self.log_workers = lambda count: self.workers(count, "log-manager")
        self._loop = loop
        self._network = network
        self._disk = disk
        self._clock = clock

    def clock_ms(self) -> int:
        return self._clock.now_ms()

    def workers(self, count: int, name: str) -> Executor:
        return VirtualExecutor(self._loop, count, self._disk.duration_s)

    def bind(self, listener: Listener, limits: ServerLimits) -> socket.socket:
        return cast("socket.socket", self._network.bind(listener.host or "0.0.0.0", listener.port))

    def _sendfile(self, fd: int, file_fd: int, position: int, count: int) -> int:
        return self._loop.sockets[fd].send_file(file_fd, position, count)


class Clock:
    """A wall clock with an offset and a rate error."""

    def __init__(self, loop: VirtualLoop, ahead_ms: float, rate: float) -> None:
        self._loop = loop
        self.ahead_ms = ahead_ms
        self.rate = rate

    def now_ms(self) -> int:
        return int(EPOCH_MS + self.ahead_ms + self._loop.now_s * self.rate * 1000)


class VirtualNode:
    """A node's host with its disk, and its process, if one runs."""

    def __init__(
        self,
        loop: VirtualLoop,
        network: Network,
        directory: Path,
        node_id: int,
        properties: Mapping[str, str],
        log_directories: int,
        rng: Random,
        prepare: Callable[[VirtualNode], None],
    ) -> None:
        self.node_id = node_id
        self.host = f"10.0.0.{node_id}"
        self.loop = loop
        self.directory = directory
        log_dirs = ",".join(str(directory / f"data{number}") for number in range(log_directories))
        self.config = BrokerConfig.from_properties({**properties, "log.dirs": log_dirs})
        self.rng = Random(rng.getrandbits(64))
        directory.mkdir(parents=True)
        self.files = DiskFiles(directory, Random(rng.getrandbits(64)))
        self.files.on_death = self._died
        self.disk = Disk(Random(rng.getrandbits(64)))
        self.clock = Clock(loop, rng.uniform(-200, 200), 1 + rng.uniform(-1e-4, 1e-4))
        self.machine: Machine | None = None
        """The current or last process."""
        self.broker: Broker | None = None
        """The broker of the process, once it is created."""
        self.is_up = False
        """Whether the broker has started and not ended since."""
        self.incarnation = 0
        self.unclean = 0
        """How often unsynced data was lost."""
        self.failure: str | None = None
        """The reason why the process ended by itself."""
        self.may_fail = False
        """Whether disk errors may end the process."""
        self._network = network
        prepare(self)

    @property
    def is_running(self) -> bool:
        return self.machine is not None and not self.machine.dead

    @property
    def is_paused(self) -> bool:
        return self.is_running and self.machine is not None and self.machine.paused

    def start(self) -> None:
        """Start a process; `is_up` becomes true when the broker has started."""
        assert not self.is_running, f"node {self.node_id} is already running"
        self._network.power_is_back(self.host)
        self.incarnation += 1
        self.failure = None
        self.machine = self.loop.machine(
            f"node{self.node_id}.{self.incarnation}", self.host, 1 + self.rng.uniform(-2e-3, 2e-3)
        )
        environment = VirtualEnvironment(
            self.loop, self._network, self.files, self.disk, Random(self.rng.getrandbits(64)), self.clock
        )
        self.loop.on(self.machine, self._begin, environment)
        log.info("starting a node node=%d", self.node_id)

    def _begin(self, environment: VirtualEnvironment) -> None:
        self.loop.create_task(self._run(environment), name=f"node {self.node_id}")

    async def _run(self, environment: VirtualEnvironment) -> None:
        machine = self.machine
        try:
            # Store it before it is complete: a broker that dies during its construction already holds its
            # directories.
            self.broker = broker = Broker.__new__(Broker)
            broker.__init__(self.config, environment)  # type: ignore[misc]
            await broker.start()
            self.is_up = True
            self.failure = await broker.died
            self.is_up = False
            await broker.stop()
        except Died:
            return
        except CannotStart as error:
            self.failure = str(error)
        if machine is self.machine and self.is_running:
            log.warning("node ended node=%d error=%s", self.node_id, self.failure)
            self._end()

    async def stop(self) -> None:
        """Stop the broker cleanly, on the node's machine; returns when it has stopped or the process died."""
        machine, broker = self.machine, self.broker
        if machine is None or machine.dead or broker is None or not self.is_up:
            return
        self.is_up = False
        done = self.loop.create_future()

        async def stop() -> None:
            await broker.stop()
            if self.machine is machine and self.is_running:
                self._end()
            if not done.done():
                done.set_result(None)

        self.loop.on(machine, lambda: self.loop.create_task(stop()))
        machine.when_dead.append(lambda: None if done.done() else done.set_result(None))
        await done

    def pause(self) -> None:
        assert self.machine is not None
        self.loop.pause(self.machine)

    def resume(self) -> None:
        if self.machine is not None:
            self.loop.resume(self.machine)

    def kill(self) -> None:
        """Kill the process (SIGKILL); written data stays in the page cache."""
        if self.is_running:
            self._end()

    def cut_power(self) -> None:
        """Stop the host: unsynced data is lost, and peers are not notified."""
        machine = self.machine
        if machine is not None:
            self._network.power_lost(machine)
        self._release(power=True)
        self.unclean += 1
        self.files.cut_power()

    def die_soon(self, calls: int) -> None:
        """Kill the process in the middle of a call to the disk, after this number of calls."""
        self.files.dies_in = calls

    def _died(self) -> None:
        """Handle a death in the middle of a call."""
        assert self.machine is not None
        self.loop.kill(self.machine)
        self.loop.at(self.loop.now_s, self._end)

    def _end(self) -> None:
        if self.machine is not None:
            self._network.process_died(self.machine)
        self._release(power=False)
        self.files.kill()

    def _release(self, *, power: bool) -> None:
        self.is_up = False
        if self.machine is not None:
            self.loop.kill(self.machine)
        broker, self.broker = self.broker, None
        if broker is not None and hasattr(broker, "logs"):
            for directory in broker.logs.directories:
                directory.release()
