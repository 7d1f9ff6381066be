"""Connections from this node to other nodes: links, peers on them, and the channel to the active controller.

Code enters this package if it sends requests to other nodes and does not depend on their content.
"""

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
