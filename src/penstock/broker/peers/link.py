"""A link to another node: it sends and receives whole frames, and reports when it is lost.

This is the boundary between a node and the network: `tcp` has the real link, and a simulator replaces it with
its own. A link promises what TCP promises: frames arrive whole and in the order sent, or not at all once the
link is lost. It does not promise that a loss is noticed; timeouts are for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class LinkEnd(Protocol):
    """The receiver of a link's events, each called in its own turn of the event loop."""

    def frame_received(self, frame: memoryview) -> None:
        """Handle a frame, without its size. The receiver owns the memory and may keep slices of it."""

    def link_lost(self, reason: str) -> None:
        """Handle the loss of the link. Called once, and not after `Link.close`."""


class Link(Protocol):
    """One open connection to another node."""

    def send(self, frame: Sequence[Buffer]) -> None:
        """Send a frame, its size included, given in pieces. Never blocks: unsent bytes are buffered.

        Never raises: if the link is lost, `LinkEnd.link_lost` is called in a later turn.
        """

    def close(self) -> None:
        """Drop the connection and all unsent bytes. Safe to repeat."""


class Dial(Protocol):
    """A function that opens links."""

    def __call__(self, host: str, port: int, end: LinkEnd) -> Awaitable[Link]:
        """Open a link to an address. Raises OSError. If cancelled, it leaves nothing behind."""
