"""ElectLeaders (43): preferred or unclean elections on request.

Versions 0 to 2. On one node the only replica of a partition leads it, so that no election is ever needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.ELECT_LEADERS


async def handle_as_controller(
    broker: Broker, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    return await broker.controller.elect_leaders(request)
