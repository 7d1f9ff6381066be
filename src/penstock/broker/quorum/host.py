"""The interface through which the metadata quorum uses its node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from penstock.broker.setup.environment import Environment
from penstock.metadata.configs import BrokerConfig

P = ParamSpec("P")
T = TypeVar("T")


class QuorumHost(Protocol):
    """The node of a quorum member, which `broker.node.Broker` implements."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    loop: asyncio.AbstractEventLoop
    environment: Environment
    died: asyncio.Future[str]
    """The reason why the node cannot continue."""

    def clock_ms(self) -> int: ...

    def run_in_worker(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]: ...

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """The address at which clients reach a listener of this node. Raises KeyError if there is none."""
