"""A runtime whose connectors and tasks do nothing but report their states, and herders that use it.

A connector's configuration says how many tasks it makes (``tasks``), and in which of its parts it fails
(``fail``: ``start``, ``configs``, ``task``).
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.client.config import ClientConfig
from penstock.connect.errors import ConnectError
from penstock.connect.group.session_keys import KeyRotation
from penstock.connect.group.settings import GroupSettings
from penstock.connect.herding.distributed.herder import DistributedHerder
from penstock.connect.herding.distributed.settings import HerderSettings
from penstock.connect.herding.entities import ConnectorType, PluginInfo, Properties
from penstock.connect.herding.errors import BadRequest
from penstock.connect.herding.runtime import Reports, TaskStart
from penstock.connect.rest.server import RestServer
from penstock.connect.rest.settings import Listener, RestSettings
from penstock.connect.stores import ConnectorOffset, State, TargetState, config_topic, status_topic
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.validation.config_infos import ConfigInfos, ConfigKeyInfo

_STATES = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


@dataclass
class RecordingRuntime:
    """What runs in one worker: the configuration of each connector and task."""

    connectors: dict[str, Properties] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    tasks: dict[ConnectorTaskId, TaskStart] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)
    fenced: list[tuple[str, int]] = field(default_factory=list)
    stored: list[ConnectorOffset] = field(default_factory=list)
    before_fencing: Callable[[], None] = lambda: None
    reports: Reports | None = None

    def start(self, reports: Reports) -> None:
        self.reports = reports

    def interrupt(self) -> None:
        """`start` takes no time."""

    def close(self) -> None:
        self.stop_connectors(list(self.connectors))
        self.stop_tasks(list(self.tasks))

    def kind(self, properties: Properties) -> ConnectorType:
        return ConnectorType.SINK if "topics" in properties else ConnectorType.SOURCE

    def start_connector(self, name: str, properties: Properties, state: TargetState) -> Future[TargetState]:
        self.starts.append(name)
        self.connectors[name] = properties
        started: Future[TargetState] = Future()
        if properties.get("fail") == "start":
            self._report(name, State.FAILED, "it cannot start")
            started.set_exception(ConnectError("it cannot start"))
        else:
            self._report(name, _STATES[state])
            started.set_result(state)
        return started

    def set_target_state(self, name: str, state: TargetState) -> Future[TargetState] | None:
        for task in [task for task in self.tasks if task.connector == name]:
            self._report(task, State.PAUSED if state is TargetState.PAUSED else State.RUNNING)
        if name not in self.connectors:
            return None
        self._report(name, _STATES[state])
        changed: Future[TargetState] = Future()
        changed.set_result(state)
        return changed

    def stop_connectors(self, names: Collection[str]) -> None:
        for name in names:
            if self.connectors.pop(name, None) is not None:
                self._report(name, State.UNASSIGNED)

    def is_running(self, connector: str) -> bool:
        return self.states.get(connector) is State.RUNNING

    def task_configs(self, connector: str) -> list[dict[str, str]]:
        properties = self.connectors[connector]
        if properties.get("fail") == "configs":
            raise ValueError("it cannot make configurations")
        return [{"number": str(number)} for number in range(int(properties["tasks"] or ""))]

    def start_task(self, start: TaskStart) -> None:
        self.starts.append(str(start.task))
        if start.connector_properties.get("fail") == "task":
            raise ValueError("it cannot start")
        assert start.task not in self.tasks
        self.tasks[start.task] = start
        state = State.PAUSED if start.state is TargetState.PAUSED else State.RUNNING
        self._report(start.task, state)

    def stop_tasks(self, tasks: Collection[ConnectorTaskId]) -> None:
        for task in tasks:
            if self.tasks.pop(task, None) is not None:
                self._report(task, State.UNASSIGNED)

    def fence_zombies(self, connector: str, properties: Properties, tasks: int) -> None:
        self.before_fencing()
        self.fenced.append((connector, tasks))

    def offsets(self, connector: str, properties: Properties) -> Sequence[ConnectorOffset]:
        return self.stored

    def alter_offsets(
        self, connector: str, properties: Properties, offsets: Sequence[ConnectorOffset]
    ) -> str:
        self.stored.extend(offsets)
        return "altered"

    def reset_offsets(self, connector: str, properties: Properties) -> str:
        self.stored.clear()
        return "reset"

    def _report(self, subject: str | ConnectorTaskId, state: State, trace: str | None = None) -> None:
        assert self.reports is not None
        self.states[str(subject)] = state
        self.reports.report(subject, state, trace, "1.0")


class NumberCatalog:
    """A catalog without plugins, which accepts every configuration whose ``tasks`` is a number."""

    def plugins(self) -> Sequence[PluginInfo]:
        return []

    def plugin_config(self, plugin: str, version: str | None) -> Sequence[ConfigKeyInfo]:
        return []

    def validate(self, config: Properties) -> ConfigInfos:
        if "name" not in config:
            raise BadRequest("the configuration has no name")
        return ConfigInfos("Recorded", int(not (config.get("tasks") or "").isdigit()), (), ())


@dataclass
class Worker:
    """A herder with its runtime, and the REST API for other workers."""

    group_id: str
    herder: DistributedHerder
    runtime: RecordingRuntime
    server: RestServer

    @property
    def url(self) -> str:
        return self.server.advertised_url

    def close(self) -> None:
        self.herder.close()
        self.server.close()


def worker(servers: str, group_id: str, *, exactly_once: bool = False, key_ttl_ms: int = 3_600_000) -> Worker:
    """Start a worker of a group; its topics are named after the group."""
    group = GroupSettings(
        group_id=group_id,
        session_timeout_ms=2_000,
        heartbeat_interval_ms=200,
        rebalance_timeout_ms=20_000,
        scheduled_rebalance_max_delay_ms=0,
    )
    server = RestServer(RestSettings(listeners=(Listener("http", "127.0.0.1", 0),)))
    settings = HerderSettings(
        group=group,
        url=server.advertised_url,
        worker_id=server.worker_id,
        config_topic=config_topic(f"{group_id}-configs"),
        status_topic=status_topic(f"{group_id}-status", partitions=1),
        fences_leaders=exactly_once,
        exactly_once=exactly_once,
        sync_timeout_ms=20_000,
        keys=KeyRotation(ttl_ms=key_ttl_ms),
    )
    client = ClientConfig.from_properties({"bootstrap.servers": servers, "retry.backoff.ms": "20"})
    runtime = RecordingRuntime()
    herder = DistributedHerder(client, settings, runtime, NumberCatalog(), "cluster")
    server.start(herder)
    herder.start()
    return Worker(group_id, herder, runtime, server)
