"""Register this controller's addresses and features with the active controller (KIP-919)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.broker.control import registered
from penstock.broker.peers import ControllerChannel, PeerError
from penstock.metadata.controller.features import CONTROLLER_REGISTRATION_LEVEL
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ControllerRegistrationRequest, ControllerRegistrationResponse

if TYPE_CHECKING:
    from penstock.broker.control.host import ControlHost

log = logging.getLogger(__name__)

TIMEOUT_MS: Final = 60_000
FIRST_PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 120.0


class ControllerRegistration:
    """The registration of this node, sent whenever the metadata log does not have its current incarnation.

    `MetadataFollower.watch` registers it for the quorum's notifications.
    """

    def __init__(self, host: ControlHost, channel: ControllerChannel) -> None:
        self._host = host
        self._channel = channel
        self._registering: asyncio.Task[None] | None = None
        self._closed = False

    def committed(self, end_offset: int) -> None:
        """Register if needed, once the cluster's metadata version supports it."""
        image = self._host.image
        if self._closed or self._registering is not None or self._is_registered:
            return
        if image.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
            self._registering = self._host.loop.create_task(self._register())
            self._registering.add_done_callback(self._ended)

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """Do nothing: the channel finds the new leader."""

    def failed(self, reason: str) -> None:
        """Do nothing."""

    async def close(self) -> None:
        self._closed = True
        registering = self._registering
        if registering is not None:
            registering.cancel()
            await asyncio.wait((registering,))

    @property
    def _is_registered(self) -> bool:
        found = self._host.image.cluster.controllers.get(self._host.node_id)
        return found is not None and found.incarnation_id == self._host.incarnation_id

    async def _register(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._is_registered:
            try:
                response = await self._channel.call(
                    self._request(), ControllerRegistrationResponse, TIMEOUT_MS
                )
                if not response.error_code:
                    await self._seen()
                    break
                problem = f"error {response.error_code}: {response.error_message}"
            except (PeerError, KafkaError) as error:
                problem = str(error)
            log.warning("controller not registered node_id=%d error=%s", self._host.node_id, problem)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
        log.info("controller registered node_id=%d", self._host.node_id)

    async def _seen(self) -> None:
        """Return once this node's own image has the registration, which is committed then."""
        while not self._is_registered:
            await self._host.metadata.reached(self._host.image.offset + 1)

    def _ended(self, registering: asyncio.Task[None]) -> None:
        self._registering = None
        if not registering.cancelled() and (error := registering.exception()) is not None:
            log.error("controller registration failed", exc_info=error)

    def _request(self) -> ControllerRegistrationRequest:
        host, request = self._host, ControllerRegistrationRequest
        advertised = host.config.advertised_controller_listeners
        return request(
            controller_id=host.node_id,
            incarnation_id=host.incarnation_id,
            listeners=registered.listeners(request.Listener, host, advertised),
            features=registered.features(request.Feature),
        )
