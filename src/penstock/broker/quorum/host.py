"""What the metadata quorum needs of the node it runs in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from penstock.broker.environment import Environment
from penstock.metadata.configs import BrokerConfig

P = ParamSpec("P")
T = TypeVar("T")


class QuorumHost(Protocol):
    """`broker.node.Broker` is one."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    loop: asyncio.AbstractEventLoop
    environment: Environment
    died: asyncio.Future[str]
    """Why the node can't go on."""

    def clock_ms(self) -> int: ...

    def run_in_worker(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]: ...

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Where a listener of this node is reached. Raises KeyError for one there isn't."""
