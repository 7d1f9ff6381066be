"""The connections from this node to the active controller: one for each purpose.

Purposes are separated as in Kafka, so that a slow answer to one request does not delay heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.network.context import RequestContext
from penstock.broker.peers import ControllerAddress, ControllerChannel
from penstock.broker.setup.node_limits import peer_settings
from penstock.protocol.api_keys import ApiKey, api_range
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.security.permissions import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.control.controller_apis import ControllerApis
    from penstock.broker.control.host import ControlHost
    from penstock.protocol.codec import Message
    from penstock.security.permissions import Permissions

LOOPBACK: Final = "127.0.0.1"


class ControllerChannels:
    """The channels of one node. `MetadataFollower.watch` registers it for leader changes.

    ``own`` are the permissions of the node at its own controller.
    """

    def __init__(
        self,
        host: ControlHost,
        apis: ControllerApis,
        leader: Callable[[], ControllerAddress | None],
        own: Permissions,
    ) -> None:
        self._host = host
        self._own = own
        self._apis = apis
        self._leader = leader
        self._channels: list[ControllerChannel] = []

    def open(self, purpose: str) -> ControllerChannel:
        """Open a channel for one purpose, for instance "heartbeat"."""
        host = self._host
        client_id = f"node-{host.node_id}-{purpose}"
        channel = ControllerChannel(
            host.node_id,
            host.dial_controller,
            self._leader,
            partial(self._answer_here, client_id),
            client_id=client_id,
            rng=host.environment.rng,
            attempt_timeout_ms=host.config.get_int("controller.socket.timeout.ms"),
            settings=peer_settings(host.config),
            problem=lambda: host.quorum.problem,
        )
        self._channels.append(channel)
        return channel

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    async def _answer_here(self, client_id: str, request: Message) -> Message:
        """The answer of this node's controller. Raises KafkaError NOT_CONTROLLER if it is not active."""
        key = ApiKey(request.ID)
        handle = self._apis.handler(key)
        assert handle is not None, f"no controller handles {key.name}"
        version = api_range(key)[1]
        listener_name = self._host.config.controller_listener_names[0]
        context = RequestContext(version, client_id, LOOPBACK, ANONYMOUS, listener_name, self._own)
        try:
            response = await handle(request, context)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                raise
            return self._apis.answer_error(request, error, version)
        assert not isinstance(response, bytes), f"{key.name} is answered by a message here"
        return response

    # QuorumWatcher

    def committed(self, end_offset: int) -> None:
        """Do nothing: channels do not depend on commits."""

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        for channel in self._channels:
            channel.leader_changed()

    def failed(self, reason: str) -> None:
        """Do nothing: `leader_changed` reports a new leader."""
