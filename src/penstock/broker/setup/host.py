"""The interface that a node offers to its parts.

A room whose parts need more of the node extends it in a `host` module of its own, with exactly what it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

from penstock.broker.peers.link import Dial
from penstock.broker.setup.environment import Environment
from penstock.metadata.configs import BrokerConfig

P = ParamSpec("P")
T = TypeVar("T")


class RunInWorker(Protocol):
    """A callable that runs a blocking function in a worker thread."""

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...


class NodeHost(Protocol):
    """The node of a part, which `broker.node.Broker` implements."""

    config: BrokerConfig
    """The current configuration; the object is replaced when a dynamic config changes."""
    node_id: int
    cluster_id: str
    incarnation_id: bytes
    """The id of this run of the node."""
    loop: asyncio.AbstractEventLoop
    environment: Environment
    dial_broker: Dial
    """Opens links to the inter-broker listener of other nodes."""
    dial_controller: Dial
    """Opens links to the listener of controllers."""
    died: asyncio.Future[str]
    """The reason why the node cannot continue."""

    def clock_ms(self) -> int:
        """The wall-clock time, as used for records and leases."""

    def run_in_worker(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call a blocking function in a worker thread."""

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """The address at which clients reach a listener of this node. Raises KeyError if there is none."""
