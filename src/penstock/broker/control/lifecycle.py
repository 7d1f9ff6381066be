"""The state of a broker as the controller sees it: registered, unfenced, shutting down.

This is Kafka's BrokerLifecycleManager (KIP-631). A broker registers and gets an epoch. Its heartbeats say how
far it has read the metadata log. Once it has read its own registration, it may prepare to serve and then ask
to be unfenced. To stop, it asks for a controlled shutdown and continues to serve until the controller has
moved its leaderships away and lets it stop.
"""

from __future__ import annotations

import asyncio
import logging
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from penstock.broker.control import registered
from penstock.broker.peers import ControllerChannel, PeerError, PeerTimedOut
from penstock.metadata.controller.features import DIRECTORY_ASSIGNMENT_LEVEL
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.protocol.uuids import uuid_from_text

if TYPE_CHECKING:
    from penstock.broker.control.host import ControlHost

log = logging.getLogger(__name__)

NO_EPOCH: Final = -1
RETRY_PAUSE_S: Final = 0.05
STARTING_PAUSE_S: Final = 0.01
"""The pause between polls or heartbeats during the start: what they wait for changes within milliseconds."""
FIRST_SHUTDOWN_PAUSE_S: Final = 0.01
CONTROLLER_SILENCE_S: Final = 5.0
"""A controlled shutdown ends after this long without an answer of a controller: the whole cluster may be
shutting down."""
LAST_BROKER_PATIENCE_S: Final = 1.0
"""The same limit if no other broker is active to take over: most of the quorum may then be down, too."""


class BrokerState(IntEnum):
    """Kafka's states of a broker, with the values of its metric BrokerState."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class RegistrationFailed(Exception):
    """No controller registered this broker in time; the message gives the reason."""


class BrokerLifecycle:
    """The registration and heartbeats of one broker.

    The node calls `start`, `caught_up`, `unfence`, and finally `shut_down` and `close`, each once.
    """

    def __init__(self, host: ControlHost, channel: ControllerChannel) -> None:
        self._host = host
        self._channel = channel
        self._loop = host.loop
        self.state = BrokerState.NOT_RUNNING
        self.epoch = NO_EPOCH
        """The broker epoch of the registration; -1 before it."""
        self._is_registered = False
        self._wants_unfencing = False
        self._offline_directories: dict[bytes, bool] = {}
        """Failed log directories by id, and whether the controller has acknowledged the failure."""
        self._problem = "no controller has answered"
        self._answered_s = 0.0
        self._caught_up: asyncio.Future[None] = self._loop.create_future()
        self._unfenced: asyncio.Future[None] = self._loop.create_future()
        self._may_stop: asyncio.Future[None] = self._loop.create_future()
        self._is_hurried = False
        self._shutdown_pause_s = FIRST_SHUTDOWN_PAUSE_S
        self._woken = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    # Calls of the node

    async def informed(self) -> None:
        """Wait until the image has everything that was committed when this node first found the leader.

        The image then includes the registration of the last run. Raises RegistrationFailed if that takes
        longer than `initial.broker.registration.timeout.ms`.
        """
        self.state = BrokerState.STARTING
        timeout_ms = self._host.config.get_int("initial.broker.registration.timeout.ms")
        end_s = self._loop.time() + timeout_ms / 1000
        committed: int | None = None
        while committed is None or self._host.image.offset + 1 < committed:
            if self._loop.time() >= end_s:
                raise self._not_registered(timeout_ms)
            if committed is None and (committed := self._host.quorum.leader_high_watermark) is not None:
                continue
            await asyncio.sleep(STARTING_PAUSE_S)

    def start(self) -> None:
        """Start to register, and then to send heartbeats."""
        self.state = BrokerState.STARTING
        self._running = self._loop.create_task(self._run())

    async def caught_up(self) -> None:
        """Wait until the image has everything that the controller had when this broker registered.

        Raises RegistrationFailed if it is not registered within `initial.broker.registration.timeout.ms`.
        """
        timeout_ms = self._host.config.get_int("initial.broker.registration.timeout.ms")
        timer = self._loop.call_later(timeout_ms / 1000, self._registration_overdue, timeout_ms)
        try:
            await self._caught_up
        finally:
            timer.cancel()

    async def unfence(self) -> None:
        """Ask to be unfenced, as this broker is ready to lead and to follow; return once it is unfenced."""
        self._wants_unfencing = True
        self._woken.set()
        await self._unfenced

    async def shut_down(self) -> None:
        """Wait until the controller has moved the leaderships of this broker away.

        Returns early, with a warning in the log, if no controller answers for CONTROLLER_SILENCE_S, or for
        LAST_BROKER_PATIENCE_S if no other broker is active. Returns at once after `hurry`.
        """
        if self.state is not BrokerState.RUNNING or self._is_hurried:
            return
        log.info("controlled shutdown begins broker_id=%d epoch=%d", self._host.node_id, self.epoch)
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._answered_s = self._loop.time()
        self._woken.set()
        while not self._may_stop.done():
            silent_s = self._loop.time() - self._answered_s
            patience_s = CONTROLLER_SILENCE_S if self._has_successors() else LAST_BROKER_PATIENCE_S
            if silent_s >= patience_s:
                log.warning("controlled shutdown abandoned: no controller answers reason=%s", self._problem)
                return
            await asyncio.wait((self._may_stop,), timeout=min(patience_s - silent_s, LAST_BROKER_PATIENCE_S))

    def hurry(self) -> None:
        """Do not wait for a controlled shutdown, now or later."""
        self._is_hurried = True
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and not self._may_stop.done():
            log.info("controlled shutdown abandoned: the node is asked to hurry")
            self._may_stop.set_result(None)

    def _has_successors(self) -> bool:
        """Whether any other broker is active and could take over the partitions that this one leads."""
        own_id = self._host.node_id
        return any(other.active for other in self._host.image.brokers.values() if other.broker_id != own_id)

    async def close(self) -> None:
        """Stop the heartbeats."""
        self.state = BrokerState.SHUTTING_DOWN
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait((running,))
        for waiting in (self._caught_up, self._unfenced):
            waiting.cancel()

    def image_changed(self) -> None:
        """Register again after an upgrade that lets registrations list the log directories (KIP-858)."""
        image = self._host.image
        own = image.brokers.get(self._host.node_id)
        if (
            self._is_registered
            and own is not None
            and own.incarnation_id == self._host.incarnation_id
            and not own.log_dirs
            and image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL
        ):
            self._is_registered = False
            self._woken.set()

    def directory_failed(self, directory_id: str) -> None:
        """Report to the controller that a log directory is offline.

        If no controller acknowledges that within `log.dir.failure.timeout.ms`, the broker must stop: the
        cluster would wait for its replicas in that directory (KIP-858).
        """
        packed = uuid_from_text(directory_id)
        self._offline_directories.setdefault(packed, False)
        timeout_ms = self._host.config.get_int("log.dir.failure.timeout.ms")
        self._loop.call_later(timeout_ms / 1000, self._failure_overdue, packed, directory_id)
        self._woken.set()

    def _registration_overdue(self, timeout_ms: int) -> None:
        if self.epoch == NO_EPOCH and not self._caught_up.done():
            self._caught_up.set_exception(self._not_registered(timeout_ms))

    def _not_registered(self, timeout_ms: int) -> RegistrationFailed:
        problem = self._host.quorum.problem or self._problem
        return RegistrationFailed(
            f"no controller has registered this broker within {timeout_ms} ms: {problem}"
        )

    def _failure_overdue(self, packed: bytes, directory_id: str) -> None:
        died = self._host.died
        if not self._offline_directories[packed] and not died.done():
            log.critical("node stops: no controller has acknowledged a failed directory id=%s", directory_id)
            died.set_result(f"directory {directory_id} failed, and no controller has acknowledged that")

    # Requests to the controller

    async def _run(self) -> None:
        while self.state is not BrokerState.SHUTTING_DOWN:
            self._woken.clear()
            try:
                pause_s = await (self._beat() if self._is_registered else self._register())
            except (PeerError, KafkaError) as error:
                self._problem = str(error)
                log.warning("request to controller failed broker_id=%d error=%s", self._host.node_id, error)
                # the call has already waited, perhaps for an election that has just ended
                pause_s = RETRY_PAUSE_S if isinstance(error, PeerTimedOut) else self._pause_s()
            except Exception:
                log.exception("registration or heartbeat failed")
                pause_s = self._pause_s()
            if self._may_stop.done():
                return
            if not self._woken.is_set():
                await self._sleep(pause_s)

    async def _sleep(self, pause_s: float) -> None:
        timer = self._loop.call_later(pause_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    def _pause_s(self) -> float:
        return self._host.config.get_int("broker.heartbeat.interval.ms") / 1000

    async def _register(self) -> float:
        """Register and return the pause until the next request, in seconds. Raises PeerError, KafkaError."""
        request = self._registration()
        response = await self._channel.call(request, BrokerRegistrationResponse, self._pause_s() * 1000)
        if response.error_code:
            self._problem = f"the registration was refused: {_named(response.error_code)}"
            log.warning("broker not registered broker_id=%d reason=%s", self._host.node_id, self._problem)
            return self._pause_s()
        self.epoch = response.broker_epoch
        self._is_registered = True
        log.info(
            "broker registered broker_id=%d epoch=%d previous_epoch=%d",
            self._host.node_id,
            self.epoch,
            request.previous_broker_epoch,
        )
        return 0.0

    def _registration(self) -> BrokerRegistrationRequest:
        host = self._host
        request = BrokerRegistrationRequest
        return request(
            broker_id=host.node_id,
            cluster_id=host.cluster_id,
            incarnation_id=host.incarnation_id,
            listeners=registered.listeners(request.Listener, host, host.config.advertised_listeners),
            features=registered.features(request.Feature),
            rack=host.config.rack,
            log_dirs=sorted(uuid_from_text(found) for found in host.logs.directory_ids()),
            previous_broker_epoch=self.previous_epoch,
        )

    @property
    def previous_epoch(self) -> int:
        """The epoch of the previous registration.

        It is -1 without one, or if records that were written in it are missing here (KIP-966).
        """
        before = self._host.image.brokers.get(self._host.node_id)
        if before is None or not self._host.logs.is_whole(before.incarnation_id):
            return NO_EPOCH
        return before.epoch

    @property
    def last_epoch(self) -> int:
        """The epoch in which this broker stops: its own, or `previous_epoch` if it never registered."""
        return self.previous_epoch if self.epoch == NO_EPOCH else self.epoch

    def _cordoned(self) -> list[bytes]:
        """The ids of the log directories that take no new replicas, according to the current image."""
        logs = self._host.logs
        ids = (logs.directory_id(path) for path in sorted(logs.cordoned))
        return [uuid_from_text(found) for found in ids if found is not None]

    async def _beat(self) -> float:
        """Send a heartbeat and return the pause until the next, in seconds. Raises PeerError, KafkaError."""
        told = list(self._offline_directories)
        stopping = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        request = BrokerHeartbeatRequest(
            broker_id=self._host.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._host.image.offset,
            want_fence=not self._wants_unfencing,
            want_shut_down=stopping,
            offline_log_dirs=told,
            cordoned_log_dirs=None if self.state is BrokerState.STARTING else self._cordoned(),
        )
        response = await self._channel.call(request, BrokerHeartbeatResponse, self._pause_s() * 1000)
        if response.error_code:
            self._problem = f"a heartbeat was refused: {_named(response.error_code)}"
            log.warning("heartbeat failed broker_id=%d reason=%s", self._host.node_id, self._problem)
            if response.error_code == ErrorCode.STALE_BROKER_EPOCH and self._is_superseded():
                self._is_registered = False
                return RETRY_PAUSE_S
            return self._pause_s()
        self._answered_s = self._loop.time()
        self._offline_directories.update(dict.fromkeys(told, True))
        return self._heard(response, stopping)

    def _is_superseded(self) -> bool:
        """Whether another incarnation of this node is registered: a delayed request of its last run arrived.

        If the other incarnation were a running process it would have a session, and the controller would
        refuse a new registration.
        """
        own = self._host.image.brokers.get(self._host.node_id)
        return own is not None and own.incarnation_id != self._host.incarnation_id

    def _heard(self, response: BrokerHeartbeatResponse, asked_to_stop: bool) -> float:
        """Apply a response without an error and return the pause until the next heartbeat, in seconds."""
        match self.state:
            case BrokerState.STARTING:
                if response.is_caught_up:
                    self.state = BrokerState.RECOVERY
                    if not self._caught_up.done():
                        self._caught_up.set_result(None)
                return STARTING_PAUSE_S
            case BrokerState.RECOVERY if not response.is_fenced:
                log.info("broker unfenced broker_id=%d epoch=%d", self._host.node_id, self.epoch)
                self.state = BrokerState.RUNNING
                if not self._unfenced.done():
                    self._unfenced.set_result(None)
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN if asked_to_stop:
                if response.should_shut_down and not self._may_stop.done():
                    log.info("controlled shutdown is complete broker_id=%d", self._host.node_id)
                    self._may_stop.set_result(None)
                    return 0.0
                pause_s, self._shutdown_pause_s = self._shutdown_pause_s, 2 * self._shutdown_pause_s
                return min(pause_s, self._pause_s())
        return self._pause_s()


def _named(code: int) -> str:
    known = ErrorCode.of(code)
    return f"{known.name}, {known.default_message}"
