"""BrokerRegistration (62, KIP-631): a broker introduces itself, and gets an epoch.

Versions 0 to 4. Registers fenced; since version 3 a broker tells in which epoch it stopped cleanly (KIP-966).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.registration import register_broker
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
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
