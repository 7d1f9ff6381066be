"""Report nodes of another cluster in the log, with both cluster ids and the source of each.

A node whose directories were formatted for one cluster, but whose settings name the controllers of another,
only gets INCONSISTENT_CLUSTER_ID for an answer. Without this report it would only find no active controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.broker.peers import Peer, PeerError
from penstock.consensus.effects import Node
from penstock.protocol.messages import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.setup.host import NodeHost

log = logging.getLogger(__name__)

PERIOD_S: Final = 60.0
"""The least time between two log lines about the same node, or about requests from foreign nodes."""

_CONTROLLERS: Final = 2
"""The endpoint type of controllers in DescribeCluster."""


class ForeignNodes:
    """The nodes of other clusters that one member of the quorum has met."""

    def __init__(self, host: NodeHost, timeout_ms: float) -> None:
        self._host = host
        self._timeout_ms = timeout_ms
        self._refusing: dict[Node, str] = {}
        """The members that refuse this node, with the text of the problem."""
        self._asking: dict[Node, asyncio.Task[None]] = {}
        self._said_at_s: dict[object, float] = {}

    @property
    def problem(self) -> str | None:
        """The reason why no quorum is found; None if it is not a foreign cluster."""
        return "; ".join(self._refusing.values()) or None

    def refused_by(self, node: Node, peer: Callable[[], Peer]) -> None:
        """Ask a member that answered INCONSISTENT_CLUSTER_ID, by ``peer``, which cluster it belongs to."""
        if node in self._asking or self._was_said(node):
            return
        task = self._asking[node] = self._host.loop.create_task(self._ask(node, peer()))
        task.add_done_callback(lambda _done: self._asking.pop(node, None))

    def accepted_by(self, node: Node) -> None:
        """Take note that a member answered as one of the same cluster."""
        self._refusing.pop(node, None)

    def asked_by(self, cluster_id: str, context: RequestContext) -> None:
        """Log that a node of another cluster has sent a request of the quorum to this node."""
        if not self._was_said("asked"):
            self._say("asked")
            log.warning(
                "a node of another cluster sends requests of the quorum its_cluster_id=%s "
                "own_cluster_id=%s own_properties=%s host=%s client_id=%s",
                cluster_id,
                self._host.cluster_id,
                self._own_properties,
                context.client_host,
                context.client_id,
            )

    def close(self) -> None:
        for task in self._asking.values():
            task.cancel()

    @property
    def _own_properties(self) -> str:
        return str(self._host.config.metadata_log_dir / "meta.properties")

    async def _ask(self, node: Node, peer: Peer) -> None:
        theirs = "another cluster with an unknown id"
        try:
            request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
            described = await peer.call(request, DescribeClusterResponse, self._timeout_ms)
            if described.cluster_id:
                theirs = f"cluster {described.cluster_id}"
        except PeerError as error:
            log.debug("cluster id not received node=%s error=%s", node, error)
        config = self._host.config
        setting = "voters" if config.quorum_voters else "bootstrap.servers"
        problem = (
            f"the controller at {node.address.host}:{node.address.port} belongs to {theirs}, but this node "
            f"to cluster {self._host.cluster_id} by {self._own_properties}: either "
            f"controller.quorum.{setting} names a node of another cluster, "
            "or this directory was formatted for another one"
        )
        self._refusing[node] = problem
        self._say(node)
        log.error("controller belongs to another cluster problem=%s", problem)

    def _was_said(self, what: object) -> bool:
        said_at_s = self._said_at_s.get(what)
        return said_at_s is not None and self._host.loop.time() - said_at_s < PERIOD_S

    def _say(self, what: object) -> None:
        self._said_at_s[what] = self._host.loop.time()
