"""Send the quorum's requests to other members, over dedicated connections.

The other side may hold a Fetch for half a second, and with it all later requests on the same connection. So
fetches have one connection, and all other requests another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.peers import Peer, PeerError, PeerSettings
from penstock.broker.quorum.requests import message_of
from penstock.broker.quorum.responses import response_of
from penstock.consensus.effects import Node
from penstock.consensus.messages import FetchRequest, FetchSnapshotRequest, Request, Response
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.quorum.foreign import ForeignNodes
    from penstock.broker.setup.host import NodeHost

log = logging.getLogger(__name__)

_SETTINGS: Final = PeerSettings(setup_timeout_ms=2000, reconnect_backoff_ms=20, reconnect_backoff_max_ms=200)
"""The state machine spaces the attempts; the peer's own pauses must not outlast an election."""


class Senders:
    """The connections to other members: one `Peer` for each member, address and purpose."""

    def __init__(
        self, host: NodeHost, listener_name: str, request_timeout_ms: int, foreign: ForeignNodes
    ) -> None:
        self._host = host
        self._foreign = foreign
        self._listener_name = listener_name
        self._request_timeout_ms = request_timeout_ms
        self._peers: dict[tuple[Node, bool], Peer] = {}
        self._calls: set[asyncio.Task[None]] = set()

    def send(self, node: Node, request: Request, answered: Callable[[Response | None], None]) -> None:
        """Send a request; ``answered`` gets the response, or None if there is none in time."""
        task = self._host.loop.create_task(self._call(node, request, answered))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _call(self, node: Node, request: Request, answered: Callable[[Response | None], None]) -> None:
        message = message_of(request)
        response_class = api_keys.response_class(ApiKey(message.ID))
        response: Response | None = None
        try:
            answer = await self._peer(node, request).call(
                message, response_class, timeout_ms=self._request_timeout_ms
            )
            response = response_of(request, answer, self._listener_name)
        except (PeerError, KafkaError, ValueError) as error:
            log.debug("no answer node=%s request=%s error=%s", node, type(request).__name__, error)
        self._note_cluster(node, response)
        answered(response)

    def _note_cluster(self, node: Node, response: Response | None) -> None:
        view = getattr(response, "view", None)
        if view is None:
            return
        if view.top_level and view.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._foreign.refused_by(node, partial(self._peer_for, node, is_fetch=False))
        else:
            self._foreign.accepted_by(node)

    def _peer(self, node: Node, request: Request) -> Peer:
        return self._peer_for(node, is_fetch=isinstance(request, FetchRequest | FetchSnapshotRequest))

    def _peer_for(self, node: Node, *, is_fetch: bool) -> Peer:
        peer = self._peers.get((node, is_fetch))
        if peer is None:
            machine = self._host.environment
            purpose = "fetch" if is_fetch else "quorum"
            peer = self._peers[node, is_fetch] = Peer(
                self._host.dial_controller,
                node.address.host,
                node.address.port,
                node_id=node.id if node.id >= 0 else None,
                client_id=f"raft-client-{self._host.node_id}-{purpose}",
                rng=machine.rng,
                settings=_SETTINGS,
            )
        return peer

    def close(self) -> None:
        """Drop all connections; requests in flight get no answer."""
        for task in self._calls:
            task.cancel()
        for peer in self._peers.values():
            peer.close()
