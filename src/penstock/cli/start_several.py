"""`penstock start --brokers N`: several nodes on one machine, each in its own process; they share nothing.

This process starts them, reports when all are ready, forwards signals, and ends after them; a schema registry
is one more process. Node i keeps its data in ``node-i`` of the data directory, beside ``node-i.properties``,
which can start it alone, and ``node-i.log``. Of one or two nodes one is a controller, of three or more nodes
three are.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import javaproperties
import typer

from penstock.broker.setup.local_cluster import (
    CONTROLLER,
    PLAINTEXT,
    NodePlan,
    ReservedPorts,
    format_all,
    format_to_join,
    properties_of,
)
from penstock.cli.embedded_connect import ConnectOptions
from penstock.client.admin.brokers import await_brokers
from penstock.client.errors import ClientError
from penstock.metadata.configs import BrokerConfig
from penstock.processes.node import ClusterError, Node
from penstock.processes.registry import RegistryProcess
from penstock.processes.server import ServerProcess
from penstock.processes.service_manager import READY, ServiceManager
from penstock.processes.stop_signals import stop_signals
from penstock.storage.directories import meta_properties
from penstock.storage.directories.meta_properties import random_id

VOTERS_MAX: Final = 3
_REGISTRY_URL: Final = "confluent.schema.registry.url"
CONTROLLERS_ABOVE: Final = 1000
"""The distance of the controllers' ports from those of the brokers, which leaves room for more brokers."""
EXIT_FAILED: Final = 1
READY_TIMEOUT_S: Final = 120.0
_COMBINED: Final = ("broker", "controller")
_PORT: Final = re.compile(r"(\w+)://[^,]*:(\d+)")


class RegistryPlan(NamedTuple):
    """The schema registry beside the nodes: the address on which it listens, and its own configuration."""

    host: str
    port: int
    """0 for a free port."""
    scheme: str = "http"
    advertised: str | None = None
    config: Path | None = None

    def process(self, port: int, log_file: Path) -> RegistryProcess:
        return RegistryProcess(
            self.host,
            port,
            log_file,
            config=self.config,
            scheme=self.scheme,
            advertised=self.advertised,
        )


def run_several(
    count: int,
    data_dir: Path,
    host: str,
    port: int,
    settings: Mapping[str, str],
    registry_plan: RegistryPlan | None = None,
    connect: ConnectOptions | None = None,
) -> NoReturn:
    """Run ``count`` nodes, and the servers beside them that are asked for, until they are stopped.

    Brokers listen from ``port`` on, controllers a thousand above; 0 takes free ports. Raises InvalidConfig,
    ValueError.
    """
    ports = ReservedPorts(host)
    registry = None
    if registry_plan is not None:
        registry_ports = ReservedPorts(registry_plan.host)
        registry_port = registry_plan.port or registry_ports.take()
        registry = registry_plan.process(registry_port, data_dir / "registry.log")
        settings = {_REGISTRY_URL: registry.url, **settings}
    plans = _plan(count, data_dir, port, ports)
    for plan in plans:
        # report errors before any node starts
        BrokerConfig.from_properties(properties_of(plan, plans, settings, host))
    _format(plans, data_dir, host, settings)
    nodes = [_node(plan, plans, data_dir, host, settings) for plan in plans]
    manager = ServiceManager()
    running = _Running()
    for node in nodes:
        node.launch()
        running.processes[node.pid] = node
    ports.close()
    try:
        for node in nodes:
            node.await_ready(READY_TIMEOUT_S)
        servers = [f"{host}:{node.port}" for node in nodes]
        print("ready on " + ",".join(servers), flush=True)
        manager.notify(READY)
        if (registry is not None or connect is not None) and not running.is_ending:
            await_brokers(servers, READY_TIMEOUT_S)
        if registry is not None and not running.is_ending:
            registry_ports.close()
            running.processes[registry.launch(servers)] = registry
            registry.await_ready(READY_TIMEOUT_S)
            print(f"schema registry ready at {registry.url}", flush=True)
        if connect is not None and not running.is_ending:
            worker = connect.process(data_dir / "connect.log")
            running.processes[worker.launch(servers)] = worker
            address = worker.await_ready(READY_TIMEOUT_S)
            print(f"Connect worker ready at {address}", flush=True)
    except (ClusterError, ClientError) as error:
        if not running.is_ending:
            running.signal(signal.SIGKILL)
            print(f"penstock: {error}", file=sys.stderr)
            raise typer.Exit(EXIT_FAILED) from None
    raise typer.Exit(running.wait())


class _Running:
    """The processes by their ids.

    A signal first ends the servers beside the nodes, which leave their groups, and then the nodes.
    """

    def __init__(self) -> None:
        self.processes: dict[int, Node | ServerProcess] = {}
        self.is_ending = False
        for number in stop_signals():
            signal.signal(number, self._end)

    def _end(self, _number: int, _frame: object) -> None:
        self.is_ending = True
        for pid in self._servers() or self.processes:
            os.kill(pid, signal.SIGTERM)

    def _servers(self) -> list[int]:
        return [pid for pid, each in self.processes.items() if isinstance(each, ServerProcess)]

    def signal(self, number: int) -> None:
        for pid in self.processes:
            with suppress(ProcessLookupError):  # a process that failed to start has ended
                os.kill(pid, number)

    def wait(self) -> int:
        """Wait until all processes have ended; return 0 if all ended cleanly."""
        code = 0
        while self.processes:
            pid, status = os.wait()
            process = self.processes.pop(pid, None)
            if process is not None and status:
                code = EXIT_FAILED
                ended = os.waitstatus_to_exitcode(status)
                print(
                    f"penstock: {process} ended with exit code {ended}, log {process.log_file}",
                    file=sys.stderr,
                )
            if self.is_ending and isinstance(process, ServerProcess) and not self._servers():
                self.signal(signal.SIGTERM)
        return code


def _plan(count: int, data_dir: Path, port: int, ports: ReservedPorts) -> list[NodePlan]:
    """Plan each node; existing nodes keep their roles.

    Controllers keep their ports too: the metadata log holds them, and voters connect to each other there.
    """
    there = sorted(int(path.stem.removeprefix("node-")) for path in data_dir.glob("node-*.properties"))
    if there and there[-1] > count:
        raise ValueError(
            f"--brokers {count}: {data_dir} has {there[-1]} nodes; expected at least as many, since the "
            "partitions of a missing node would be missing too"
        )
    voters = VOTERS_MAX if count >= VOTERS_MAX else 1
    plans = []
    for index in range(count):
        file = data_dir / f"node-{index + 1}.properties"
        before = _read(file) if file.exists() else {}
        taken = {name: int(number) for name, number in _PORT.findall(before.get("listeners", ""))}
        new_roles = _COMBINED if index < voters and not there else ("broker",)
        roles = tuple(before["process.roles"].split(",")) if before else new_roles
        broker_port = port + index if port else taken.get(PLAINTEXT) or ports.take()
        controller_port = 0
        if "controller" in roles:
            controller_port = taken.get(CONTROLLER) or (
                port + CONTROLLERS_ABOVE + index if port else ports.take()
            )
        plans.append(NodePlan(index + 1, roles, data_dir / f"node-{index + 1}", broker_port, controller_port))
    return plans


def _read(file: Path) -> dict[str, str]:
    with file.open("rb") as stream:
        return dict(javaproperties.load(stream))


def _format(plans: list[NodePlan], data_dir: Path, host: str, settings: Mapping[str, str]) -> None:
    data_dir.mkdir(parents=True, exist_ok=True)
    first = meta_properties.read(plans[0].data_dir)
    if first is None:
        format_all(plans, settings, random_id(), host)
        return
    for plan in plans:
        if meta_properties.read(plan.data_dir) is None:
            format_to_join(plan, plans, settings, first.cluster_id, host)


def _node(
    plan: NodePlan, plans: list[NodePlan], data_dir: Path, host: str, settings: Mapping[str, str]
) -> Node:
    file = data_dir / f"node-{plan.node_id}.properties"
    with file.open("w", encoding="latin-1") as stream:
        javaproperties.dump(properties_of(plan, plans, settings, host), stream, timestamp=False)
    log_file = data_dir / f"node-{plan.node_id}.log"
    return Node(plan.node_id, plan.data_dir, log_file, ["--config", str(file)], plan.port)
