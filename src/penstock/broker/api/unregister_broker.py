"""UnregisterBroker (64, KIP-732): remove the registration of a broker that will not return.

Version 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.registration import unregister_broker
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.UNREGISTER_BROKER


async def handle_as_controller(
    broker: Broker, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    return await broker.controller.submit_and_follow(partial(unregister_broker, request=request))
