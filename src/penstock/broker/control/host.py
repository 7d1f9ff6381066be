"""The interface through which the parts of this room use their node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.broker.setup.host import NodeHost

if TYPE_CHECKING:
    from penstock.broker.control.metadata_follower import MetadataFollower
    from penstock.broker.quorum.quorum import Quorum
    from penstock.metadata.controller.state import ControllerState, Decision
    from penstock.metadata.image import MetadataImage
    from penstock.storage.directories.log_manager import LogManager

R = TypeVar("R")


class ControlHost(NodeHost, Protocol):
    """A node that follows the metadata log."""

    logs: LogManager
    metadata: MetadataFollower
    quorum: Quorum
    image: MetadataImage
    """The cluster's current metadata."""


class DecidingController(Protocol):
    """The controller of this node, for its own periodic work."""

    @property
    def is_active(self) -> bool: ...

    @property
    def now_ms(self) -> int:
        """The time of a monotonic clock, which measures sessions."""

    def broker_silence_ms(self, broker_id: int) -> int | None:
        """The time since a broker's last heartbeat; None without a session, or if this node is not active."""

    async def submit(self, decide: Callable[[ControllerState], Decision[R]]) -> R:
        """Decide, append and commit; return the response once it is final. Raises KafkaError."""
