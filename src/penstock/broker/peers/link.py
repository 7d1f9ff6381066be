"""A link to another node: whole frames out, whole frames in, and the news that it is lost.

This is the seam between a node and the network: `tcp` has the real one, and a simulator puts its own in its
place. What a link promises is what TCP does: frames arrive whole, in the order sent, or not at all once the
link is lost. It does not promise that a loss is noticed; that is what timeouts are for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class LinkEnd(Protocol):
    """Who is told what happens on a link, in turns of the event loop of their own."""

    def frame_received(self, frame: memoryview) -> None:
        """A frame came, without its size. The memory is the receiver's: it may keep slices of it."""

    def link_lost(self, reason: str) -> None:
        """The link is gone; said once, and not after `Link.close`."""


class Link(Protocol):
    """One open connection."""

    def send(self, frame: Sequence[Buffer]) -> None:
        """Send a frame, its size included, given in pieces. Never blocks: what is not sent yet is kept.

        Never raises: if the link is gone, `LinkEnd.link_lost` says so in a later turn.
        """

    def close(self) -> None:
        """Drop the connection, and what is still to be sent. Safe to repeat."""


class Dial(Protocol):
    """Opens links."""

    def __call__(self, host: str, port: int, end: LinkEnd) -> Awaitable[Link]:
        """A link to an address. Raises OSError. Cancelled, it leaves nothing behind."""
