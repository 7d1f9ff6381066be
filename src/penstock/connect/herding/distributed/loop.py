"""The thread of a distributed herder: takes part in the group, and brings this worker's work up to date.

Each turn of the loop first makes sure that the worker is in its group and runs what it was assigned. Then it
handles what has happened since: requests of users, restart requests and changes of the config topic, which
can need a rebalance. Then it waits in the group for more (Connect's DistributedHerder).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from penstock.client.config import ClientConfig
from penstock.connect.errors import ConnectError
from penstock.connect.group import session_keys
from penstock.connect.group.assignment import Assignment, ConnectProtocol
from penstock.connect.group.worker_group import WorkerGroup
from penstock.connect.herding.distributed.configurations import Configurations
from penstock.connect.herding.distributed.leader_requests import LeaderAway, LeaderRequests
from penstock.connect.herding.distributed.local_work import LocalWork, StartedTask
from penstock.connect.herding.distributed.membership import MembershipState
from penstock.connect.herding.distributed.pending_changes import PendingChanges
from penstock.connect.herding.distributed.settings import HerderSettings
from penstock.connect.herding.distributed.task_reconfiguration import TaskReconfiguration
from penstock.connect.herding.distributed.zombie_fencing import ZombieFencing
from penstock.connect.herding.entities import ConnectorType
from penstock.connect.herding.errors import BadRequest, NotFound, NotLeader
from penstock.connect.herding.loggers import Loggers
from penstock.connect.herding.requests import RequestQueue
from penstock.connect.herding.restart_backoff import RestartBackoff
from penstock.connect.herding.restart_plan import restart_plan
from penstock.connect.herding.runtime import Runtime
from penstock.connect.herding.stages import Stages
from penstock.connect.herding.status_reports import StatusReports
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.stores.configs.model import (
    Change,
    LoggerLevelSet,
    RestartRequest,
    SessionKey,
    SessionKeyUpdated,
    TasksUpdated,
)
from penstock.connect.stores.configs.store import ConfigStore, leader_transactional_id
from penstock.connect.stores.statuses.model import State, Subject
from penstock.connect.stores.statuses.store import StatusStore
from penstock.connect.task_id import ConnectorTaskId

log = logging.getLogger(__name__)

_CLAIM_BACKOFF_S: Final = 0.25
_FLUSH_S: Final = 10.0
"""The time to write statuses before a rebalance goes on."""
_STOP_S: Final = 60.0
_LEADER_BACKOFF_S: Final = 0.5
_LOOK_S: Final = 0.1
"""A task that waits for the herder's thread looks so often whether that thread waits for the task."""

Result = TypeVar("Result")


class HerderLoop:
    """One worker's herder thread, with the parts that work in it.

    It implements `Reports` for the runtime, and the listener's side of `WorkerGroup`.
    """

    def __init__(
        self, client: ClientConfig, settings: HerderSettings, runtime: Runtime, workers: WorkerClient
    ) -> None:
        self.settings = settings
        self.runtime = runtime
        self.stages = Stages()
        self.loggers = Loggers()
        self.pending = PendingChanges(self._wake)
        self.requests = RequestQueue(self._wake)
        transactional_id = leader_transactional_id(settings.group.group_id)
        store = ConfigStore(
            client,
            settings.config_topic,
            self._changed,
            transactional_id=transactional_id if settings.fences_leaders else None,
        )
        self.configurations = Configurations(store, self.stages, settings.sync_timeout_ms / 1000)
        self._statuses = StatusStore(client, settings.status_topic)
        self.group = WorkerGroup(client, settings.group, settings.url, self.configurations.configured, self)
        self.reports = StatusReports(
            self._statuses,
            settings.worker_id,
            lambda: self.group.generation,
            tracks_topics=settings.tracks_topics,
        )
        self._rebalances = 0
        self._joined_s: float | None = None
        self._session_key: SessionKey | None = None
        self._must_refresh = False
        self._failed: set[Subject] = set()
        """The connectors and tasks whose last state here is FAILED."""
        self._backoff = RestartBackoff()
        self._expiries: dict[str, Future[None]] = {}
        """Restarts of connectors whose configuration has values that expire."""
        self._leader = LeaderRequests(workers, self._signature)
        self._forwarding = ThreadPoolExecutor(1, thread_name_prefix="connect forwarding")
        self.fencing = ZombieFencing(self.configurations, self.requests, runtime.fence_zombies)
        self.reconfiguration = TaskReconfiguration(
            runtime,
            self.configurations,
            self.requests,
            self.stages,
            self._leader,
            lambda: self.group.leader_url,
            lambda: self.group.is_leader,
            self._forwarding,
        )
        self.work = LocalWork(
            runtime,
            self.configurations,
            self,
            self.stages,
            started=self.reconfiguration.request,
            fence=self._fence,
            verify=self._verify,
        )
        self.is_ready = False
        """Whether the worker's topics are read and it has joined its group."""
        self.failure: BaseException | None = None
        """The error that has ended the thread, if any."""
        self._has_started = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect herder", daemon=True)

    # From any thread

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop all work and leave the group. Raises ConnectError if that takes too long."""
        self._stopping.set()
        if not self._has_started:
            self.runtime.interrupt()
        self.group.stop()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            raise ConnectError(f"the herder did not stop within {_STOP_S:g} s: {self.stages.last}")

    def join(self) -> None:
        """Wait for the end of the thread. Raises the error that has ended it."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def fence_zombies(self, connector: str, task: StartedTask | None = None) -> None:
        """Fence the producers of a source's former tasks, as the leader, and wait for it.

        A task that asks for this stops waiting when it is stopped. Raises NotLeader, NotFound, BadRequest,
        Conflict and ConnectError. Not for the herder's own thread.
        """

        def begin() -> Future[None] | None:
            if task is not None:
                task.require()
            return self._begin_fencing(connector)

        begun = self._result(self.requests.submit(begin), task)
        if begun is not None:
            self._result(begun, task)

    def require_leader(self, operation: str) -> None:
        """Raise NotLeader unless this worker leads the group."""
        if not self.group.is_leader:
            raise NotLeader(f"Only the leader {operation}", self.group.leader_url)

    @property
    def signs(self) -> bool:
        """Whether the workers of the group sign their requests to each other."""
        return self.group.protocol is ConnectProtocol.SESSIONED

    def require_signed(self, headers: Mapping[str, str], body: bytes) -> None:
        """Check that a request comes from a worker of this group. Raises RequestNotAuthentic."""
        if self.signs:
            session_keys.check(headers, body, self._signing_key, self.settings.verification_algorithms)

    def kind(self, connector: str) -> ConnectorType:
        """Return the kind of a connector, also for one that was deleted."""
        properties = self.configurations.known.connector_configs.get(connector)
        return ConnectorType.UNKNOWN if properties is None else self.runtime.kind(properties)

    # Reports of the runtime, in any thread

    def report(
        self, subject: Subject, state: State, trace: str | None = None, version: str | None = None
    ) -> None:
        self.reports.report(subject, state, trace, version)
        if state is State.FAILED:
            self._failed.add(subject)
            self.requests.submit(lambda: self._plan_restart(subject))
        else:
            self._failed.discard(subject)

    def topic_used(self, task: ConnectorTaskId, topic: str) -> None:
        self.reports.topic_used(task, topic)

    def reconfigure_tasks(self, connector: str) -> None:
        self.reconfiguration.request(connector)

    def restart_later(self, connector: str, delay_s: float) -> None:
        def restart() -> None:
            if connector in self.work:
                self.work.restart([connector], [])

        earlier = self._expiries.pop(connector, None)
        if earlier is not None:
            earlier.cancel()
        self._expiries[connector] = self.requests.submit(restart, delay_s)

    # The thread

    def _run(self) -> None:
        try:
            with self.stages.stage("initializing and reading to the end of internal topics"):
                self._start()
            while not self._stopping.is_set():
                self._turn()
        except BaseException as error:
            log.exception("the herder failed")
            self.failure = error
        finally:
            self.is_ready = False
            with self.stages.stage("shutting down"):
                self._end()

    def _start(self) -> None:
        self.runtime.start(self)
        self._statuses.start(self.settings.start_timeout_s)
        self.configurations.store.start(self.settings.start_timeout_s)
        self.configurations.update()
        self.pending.start(self.configurations.known.connector_configs)
        self._session_key = self.configurations.known.session_key
        self._has_started = True

    def _end(self) -> None:
        for close in (
            self.work.close,
            self.requests.close,
            self.group.close,
            self.runtime.close,
            self._statuses.close,
            self.configurations.store.close,
            partial(self._forwarding.shutdown, wait=False, cancel_futures=True),  # it may wait for minutes
        ):
            try:
                close()
            except Exception:
                log.exception("a part of the herder failed to close")

    def _turn(self) -> None:
        if not (self._is_synced() and self._is_in_group() and self._may_write() and self._has_session_key()):
            return
        self.is_ready = True
        self.requests.run_due()
        for request in self.pending.take_restarts():
            try:
                self._restart(request)
            except Exception:
                log.exception("a restart request is skipped, as it failed connector=%s", request.connector)
        if not self._handle_changes():
            self._poll(self._patience_s())

    def _poll(self, timeout_s: float | None) -> None:
        within = "" if timeout_s is None else f"for up to {timeout_s:.0f} s or "
        with self.stages.stage(f"polling the group coordinator {within}until interrupted"):
            self.group.poll(timeout_s)

    def _patience_s(self) -> float | None:
        """The time until something is to be done even if nothing happens."""
        waits = [wait_s for wait_s in [self.requests.patience_s()] if wait_s is not None]
        key = self._signing_key
        if self.signs and self.group.is_leader and key is not None:
            waits.append(max(0.0, self.settings.keys.due_ms(key) - _now_ms()) / 1000)
        return min(waits, default=None)

    def _is_synced(self) -> bool:
        """Read the config topic again after a failed write, so that the next starts from what is there.

        While it cannot be read, this worker is not in its group, which may give its work to others.
        """
        if self._must_refresh:
            self._must_refresh = not self.group.catch_up(self.configurations.refresh)
        return not self._must_refresh

    def _is_in_group(self) -> bool:
        """Make sure that this worker is in its group and runs its assignment; False if that has to go on."""
        with self.stages.stage("ensuring membership in the cluster"):
            self.group.poll(0)
        if self.group.member_id is None:
            return False
        if self.group.is_settled:
            return True
        if self.group.settle(self.configurations.refresh):
            assignment = self.group.assignment
            if assignment is not None:
                self.configurations.update()
                self.work.start(assignment)
        return False

    def _may_write(self) -> bool:
        """Claim the config topic again, if another leader has claimed it but this worker leads."""
        if self.configurations.is_fenced:
            if self.group.is_leader:
                self.configurations.claim()
            else:
                self.configurations.is_fenced = False
        if self.configurations.is_fenced:
            self._stopping.wait(_CLAIM_BACKOFF_S)
        return not self.configurations.is_fenced

    # Keys between workers

    @property
    def _signing_key(self) -> session_keys.SessionKey | None:
        """The session key of the config topic, if there is one yet."""
        key = self._session_key
        return None if key is None else session_keys.SessionKey(key.algorithm, key.key, key.created_ms)

    def _has_session_key(self) -> bool:
        """As the leader, distribute a new session key if it is due; False if that failed."""
        if not (self.signs and self.group.is_leader):
            return True
        keys, now_ms = self.settings.keys, _now_ms()
        if not keys.is_due(self._signing_key, now_ms):
            return True
        made = keys.generate(now_ms)
        try:
            self.configurations.write(
                "writing a new session key to the config topic",
                lambda: self.configurations.store.put_session_key(
                    SessionKey(made.key, made.algorithm, made.created_ms)
                ),
            )
        except ConnectError as error:
            log.warning("a new session key was not written, retrying error=%s", error)
            self._must_refresh = True
        return not self._must_refresh

    def _signature(self, body: bytes) -> dict[str, str]:
        key = self._signing_key
        if not self.signs or key is None:
            return {}
        return session_keys.sign(key, body, self.settings.signature_algorithm)

    # Changes of the config topic

    def _changed(self, change: Change) -> None:
        """Note a change, in the thread that follows the topic."""
        match change:
            case SessionKeyUpdated(session_key):
                self._session_key = session_key
            case LoggerLevelSet(namespace, level):
                self.loggers.set_level(namespace, level)
            case TasksUpdated(connector, _):
                self.fencing.abandon(connector)
        self.pending.add(change)

    def _handle_changes(self) -> bool:
        """Handle the changes that wait; return whether they need a rebalance."""
        changes = self.pending.take()
        if not any(changes):
            return False
        self.configurations.update()
        if changes.needs_rebalance:
            self.group.request_rejoin("connectors or task configurations have changed")
            if self.group.protocol is ConnectProtocol.EAGER:
                return True  # all work stops and starts again in the rebalance
        self.work.update_connectors(changes.connectors)
        self.work.set_target_states(changes.target_states)
        self.work.stop_tasks_of(changes.tasks)
        return changes.needs_rebalance

    # Restarts

    def _restart(self, request: RestartRequest) -> None:
        """Restart those parts of a connector that run here."""
        try:
            plan = restart_plan(
                request, self.reports.connector_status(request.connector, self.kind(request.connector))
            )
        except NotFound:
            return
        assignment = self.group.assignment
        if assignment is None:
            return
        connectors = [request.connector] if plan.restarts_connector else []
        self.work.restart(
            [name for name in connectors if name in assignment.connectors],
            [task for task in plan.tasks if task in assignment.tasks],
        )

    def _plan_restart(self, subject: Subject) -> None:
        """Restart what has failed after a delay, if its connector asks for it."""
        connector = subject if isinstance(subject, str) else subject.connector
        properties = self.configurations.known.connector_configs.get(connector, {})
        delay_s = self._backoff.delay_s(subject, properties)
        if delay_s is not None:
            log.info("restarting what has failed subject=%s delay_s=%g", subject, delay_s)
            self.requests.submit(lambda: self._restart_failed(subject), delay_s)

    def _restart_failed(self, subject: Subject) -> None:
        if subject not in self._failed or subject not in self.work:
            self._backoff.forget(subject)
        elif isinstance(subject, str):
            self.work.restart([subject], [])
        else:
            self.work.restart([], [subject])

    # Exactly-once sources

    def _begin_fencing(self, connector: str) -> Future[None] | None:
        self.require_leader("may perform zombie fencing.")
        properties = self.configurations.known.connector_configs.get(connector)
        if properties is None:
            raise NotFound(f"Connector {connector} not found")
        if self.runtime.kind(properties) is not ConnectorType.SOURCE:
            raise BadRequest(f"Connector {connector} is not a source connector")
        return self.fencing.begin(connector)

    def _fence(self, started: StartedTask) -> None:
        """Have the leader fence former tasks, in a task's thread; wait for a leader if there is none now."""
        task = started.task
        while True:
            started.require()
            try:
                self.fence_zombies(task.connector, started)
                return
            except NotLeader as error:
                leader_url = error.forward_url
            try:
                self._leader.fence(leader_url, task.connector)
                return
            except LeaderAway as error:
                # Kafka Connect fails the task, and leaves it to a user to restart it
                log.warning("the leader does not fence, retrying task=%s error=%s", task, error)
            started.stopped.wait(_LEADER_BACKOFF_S)

    def _verify(self, started: StartedTask, generation: int) -> None:
        """Check, in a task's thread, that the task still belongs here."""
        task = started.task

        def verify() -> None:
            self.configurations.require_refresh(f"starting task {task}")
            known = self.configurations.known
            if known.task_config_generations.get(task.connector, 0) != generation:
                raise ConnectError(
                    f"Cannot start source task {task} with exactly-once support as the connector has already"
                    " generated a new set of task configs"
                )
            assignment = self.group.assignment
            if assignment is None or task not in assignment.tasks:
                raise ConnectError(
                    f"Cannot start source task {task} as it has already been revoked from this worker"
                )
            started.require()

        self._result(self.requests.submit(verify), started)

    def _result(self, future: Future[Result], task: StartedTask | None) -> Result:
        """Wait for a result. The herder's thread may be the one that waits, for the end of this task."""
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                if future.done():  # since the timeout, or with a TimeoutError of its own
                    return future.result()
                if task is not None:
                    task.require()

    # The group calls these methods, in the thread.

    def membership(self) -> MembershipState:
        """The last rebalance that this worker has completed."""
        group = self.group
        return MembershipState(group.generation, group.is_leader, self._rebalances, self._joined_s)

    def assigned(self, assignment: Assignment, generation: int) -> None:
        self._rebalances += 1
        self._joined_s = time.monotonic()
        log.info(
            "joined the group generation=%d leader=%s connectors=%d tasks=%d delay_ms=%d",
            *(generation, assignment.leader, len(assignment.connectors), len(assignment.tasks)),
            assignment.delay_ms,
        )
        if self.group.is_leader:
            self.reports.delete_strangers(self.configurations.configured().tasks)
            self.configurations.claim()

    def revoked(self, leader: str, connectors: Collection[str], tasks: Collection[ConnectorTaskId]) -> None:
        self.work.stop(connectors, tasks)
        for name in {*connectors, *(task.connector for task in tasks)}:
            if name not in self.configurations.store:
                self.reports.reset_topics(name)
        with self.stages.stage("flushing updates to the status topic"):
            try:
                self._statuses.flush(_FLUSH_S)
            except TimeoutError as error:
                log.warning("a rebalance goes on before all statuses are written error=%s", error)

    def _wake(self) -> None:
        self.group.wake()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
