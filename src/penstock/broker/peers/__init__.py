"""Other nodes, as this one speaks to them: links, peers on them, and the way to the active controller."""

from penstock.broker.peers.controller_channel import ControllerAddress, ControllerChannel
from penstock.broker.peers.errors import PeerError, PeerTimedOut, PeerUnreachable, PeerViolation
from penstock.broker.peers.link import Buffer, Dial, Link, LinkEnd
from penstock.broker.peers.peer import Peer, PeerSettings

__all__ = [
    "Buffer",
    "ControllerAddress",
    "ControllerChannel",
    "Dial",
    "Link",
    "LinkEnd",
    "Peer",
    "PeerError",
    "PeerSettings",
    "PeerTimedOut",
    "PeerUnreachable",
    "PeerViolation",
]
