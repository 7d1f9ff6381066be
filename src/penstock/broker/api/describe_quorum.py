"""DescribeQuorum (55): report leader, voters and observers of the metadata quorum, and their progress.

Versions 0 to 2. Brokers forward the request to the active controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import DescribeQuorumRequest

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.codec import Message

API_KEY = ApiKey.DESCRIBE_QUORUM


async def handle_as_controller(
    broker: Broker, request: DescribeQuorumRequest, context: RequestContext
) -> Message:
    return await broker.quorum.handle(request, context)
