"""Detect at once that a broker's process has ended, while Kafka waits for its session to time out.

Every controller keeps an idle connection to every other unfenced broker. If a connection is lost, the
controller connects again. If the connection is refused, no process listens there any more, and the active
controller fences the broker now instead of after `broker.session.timeout.ms`. Other failures, such as a
silent machine or a network partition, prove nothing about the broker; the session timeout handles them.

A refusal counts if this node has reached the broker before, in the same registration. Otherwise it counts
once the broker's next heartbeat is overdue.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.peers.link import Link
from penstock.metadata.controller.registration import fence_ended_broker
from penstock.protocol.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.control.host import ControlHost, DecidingController
    from penstock.metadata.image import BrokerRegistration

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 0.5
"""The delay until a new broker is watched and until a failed connection is retried."""
DIAL_TIMEOUT_S: Final = 5.0


class _Watched:
    """One registration of a broker and the connection to it. It is the receiver of the link's events."""

    def __init__(self, watch: BrokerWatch, broker_id: int, epoch: int, host: str, port: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.host = host
        self.port = port
        self.was_reached = False
        self.link: Link | None = None
        self.dialling: asyncio.Task[None] | None = None
        self._watch = watch

    def frame_received(self, frame: memoryview) -> None:
        """Ignore the frame: no request was sent, so there is no answer."""

    def link_lost(self, reason: str) -> None:
        log.debug("connection lost broker_id=%d reason=%s", self.broker_id, reason)
        self.link = None
        self._watch.dial(self)

    def close(self) -> None:
        if self.dialling is not None:
            self.dialling.cancel()
        if self.link is not None:
            self.link.close()
            self.link = None


class BrokerWatch:
    """The connections of one controller, active or not, from `start` to `stop`."""

    def __init__(self, host: ControlHost, controller: DecidingController) -> None:
        self._host = host
        self._controller = controller
        self._watched: dict[int, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._dials: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start to watch; check at once if this node has become the active controller."""
        if self._timer is not None:
            self._timer.cancel()
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for watched in self._watched.values():
            watched.close()
        self._watched.clear()

    def _look(self) -> None:
        """Watch exactly the brokers that are unfenced now."""
        self._timer = self._host.loop.call_later(LOOK_INTERVAL_S, self._look)
        brokers = self._host.metadata.image.brokers
        for registration in brokers.values():
            self._follow(registration)
        for broker_id in self._watched.keys() - brokers.keys():
            self._watched.pop(broker_id).close()

    def _follow(self, registration: BrokerRegistration) -> None:
        broker_id = registration.broker_id
        watched = self._watched.get(broker_id)
        if watched is not None and (registration.fenced or watched.epoch != registration.epoch):
            self._watched.pop(broker_id).close()
            watched = None
        if registration.fenced or broker_id == self._host.node_id:
            return
        if watched is None:
            endpoint = registration.endpoint(self._host.config.inter_broker_listener_name)
            if endpoint is None:
                return
            watched = _Watched(self, broker_id, registration.epoch, endpoint.host, endpoint.port)
            self._watched[broker_id] = watched
        if watched.link is None:
            self.dial(watched)

    def dial(self, watched: _Watched) -> None:
        """Connect to a broker, unless that is in progress."""
        if watched.dialling is None and self._watched.get(watched.broker_id) is watched:
            watched.dialling = self._host.loop.create_task(self._connect(watched))
            self._dials.add(watched.dialling)
            watched.dialling.add_done_callback(self._dials.discard)

    async def _connect(self, watched: _Watched) -> None:
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_S):
                watched.link = await self._host.dial_broker(watched.host, watched.port, watched)
            watched.was_reached = True
        except ConnectionRefusedError:
            if self._controller.is_active and (watched.was_reached or self._is_overdue(watched)):
                await self._fence(watched)
        except OSError as error:  # includes TimeoutError
            log.debug("cannot connect broker_id=%d error=%s", watched.broker_id, error)
        finally:
            watched.dialling = None

    def _is_overdue(self, watched: _Watched) -> bool:
        interval_ms = self._host.config.get_int("broker.heartbeat.interval.ms")
        silent_ms = self._controller.broker_silence_ms(watched.broker_id)
        return silent_ms is not None and silent_ms > interval_ms + LOOK_INTERVAL_S * 1000

    async def _fence(self, watched: _Watched) -> None:
        broker_id = watched.broker_id
        watched.was_reached = False  # if the broker is alive, do not fence it again for the same reason
        try:
            decide = partial(fence_ended_broker, broker_id=broker_id, broker_epoch=watched.epoch)
            if await self._controller.submit(decide):
                log.warning(
                    "fenced a broker that refuses connections broker_id=%d address=%s:%d",
                    broker_id,
                    watched.host,
                    watched.port,
                )
        except KafkaError as error:
            log.warning("cannot fence broker_id=%d error=%s", broker_id, error)
