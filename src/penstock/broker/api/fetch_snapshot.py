"""FetchSnapshot (59): send a piece of a snapshot of the metadata log to a node that is too far behind.

Versions 0 and 1. The leader of the quorum answers; the snapshot that formatting writes is never sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import FetchSnapshotRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.FETCH_SNAPSHOT


async def handle_as_controller(
    broker: Broker, request: FetchSnapshotRequest, context: RequestContext
) -> Message:
    return await broker.quorum.handle(request, context)
