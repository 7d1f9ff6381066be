"""Let connectors make task configurations, and have the group's leader write them if they have changed.

This is repeated with back-off until it succeeds: the leader may be changing, or the connector's outside
system be down.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Final

from penstock.connect.errors import ConnectError
from penstock.connect.herding.distributed.configurations import Configurations
from penstock.connect.herding.distributed.leader_requests import LeaderRequests
from penstock.connect.herding.errors import BadRequest
from penstock.connect.herding.requests import RequestQueue
from penstock.connect.herding.runtime import Runtime, TooManyTasks
from penstock.connect.herding.stages import Stages
from penstock.connect.stores.configs.image import ClusterConfig
from penstock.connect.stores.configs.model import TargetState
from penstock.connect.stores.configs.records import Properties

log = logging.getLogger(__name__)

_FIRST_DELAY_S: Final = 0.25
_LONGEST_DELAY_S: Final = 60.0


class TaskReconfiguration:
    """Makes and publishes task configurations of the connectors that run here.

    Args:
        leader_url: returns the URL of the group's leader, if it is known.
        is_leader: whether this worker leads the group.
        forwarding: runs requests to the leader.
    """

    def __init__(
        self,
        runtime: Runtime,
        configurations: Configurations,
        requests: RequestQueue,
        stages: Stages,
        leader: LeaderRequests,
        leader_url: Callable[[], str | None],
        is_leader: Callable[[], bool],
        forwarding: Executor,
    ) -> None:
        self._runtime = runtime
        self._configurations = configurations
        self._requests = requests
        self._stages = stages
        self._leader = leader
        self._leader_url = leader_url
        self._is_leader = is_leader
        self._forwarding = forwarding

    def request(self, connector: str) -> None:
        """Reconfigure the tasks of a connector soon. Any thread may call this."""
        self._requests.submit(lambda: self._reconfigure(connector, 0))

    def write(self, connector: str, configs: Sequence[Properties]) -> None:
        """Write task configurations as the leader, in the herder's thread. Raises ConnectError."""
        state = self._configurations.known.target_states.get(connector)
        if configs and state is TargetState.STOPPED:
            raise BadRequest(f"Cannot submit non-empty set of task configs for stopped connector {connector}")
        self._configurations.write(
            f"writing {len(configs)} task configs for connector {connector} to the config topic",
            lambda: self._configurations.store.put_task_configs(connector, configs),
        )

    def _reconfigure(self, connector: str, attempts: int) -> None:
        known = self._configurations.known
        state = known.target_states.get(connector, TargetState.STARTED)
        if not self._runtime.is_running(connector) or state is not TargetState.STARTED:
            log.info("the tasks of a connector that does not run are not configured connector=%s", connector)
            return
        try:
            with self._stages.stage(f"generating task configs for connector {connector}"):
                configs = self._runtime.task_configs(connector)
            if _is_changed(known, connector, configs):
                self._publish(connector, configs, partial(self._retry, connector, attempts))
        except TooManyTasks as error:
            log.error("a connector makes too many tasks connector=%s error=%s", connector, error)
        except Exception as error:
            self._retry(connector, attempts, error)

    def _publish(
        self, connector: str, configs: Sequence[Properties], failed: Callable[[BaseException], None]
    ) -> None:
        if self._is_leader():
            self.write(connector, configs)
            return
        sent = self._forwarding.submit(self._leader.put_task_configs, self._leader_url(), connector, configs)
        sent.add_done_callback(lambda sent: _pass_on(sent, failed))

    def _retry(self, connector: str, attempts: int, error: BaseException) -> None:
        delay_s = min(_FIRST_DELAY_S * 2 ** min(attempts, 16), _LONGEST_DELAY_S)
        log.warning(
            "the tasks of a connector were not configured, retrying connector=%s delay_s=%g error=%s",
            *(connector, delay_s, error),
            exc_info=None if isinstance(error, ConnectError) else error,
        )
        self._requests.submit(lambda: self._reconfigure(connector, attempts + 1), delay_s)


def _pass_on(sent: Future[None], failed: Callable[[BaseException], None]) -> None:
    error = None if sent.cancelled() else sent.exception()
    if error is not None:
        failed(error)


def _is_changed(known: ClusterConfig, connector: str, configs: Sequence[Properties]) -> bool:
    """Whether tasks must restart: they also use the configuration of their connector."""
    present = [known.task_configs.get(task) for task in known.tasks(connector)]
    applied = known.applied_connector_configs.get(connector)
    return present != list(configs) or applied != known.connector_configs[connector]
