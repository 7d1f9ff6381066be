"""BrokerRegistration (62, KIP-631): register a broker and assign it an epoch.

Versions 0 to 4. The broker is fenced at first. Since version 3 it reports the epoch in which it stopped
cleanly (KIP-966).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.registration import register_broker
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.BROKER_REGISTRATION


async def handle_as_controller(
    broker: Broker, request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse:
    return await broker.controller.submit(
        partial(
            register_broker, request=request, api_version=context.api_version, now_ms=broker.controller.now_ms
        )
    )
