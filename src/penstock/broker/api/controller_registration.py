"""ControllerRegistration (70, KIP-919): register a controller's addresses and supported features.

Version 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.registration import register_controller
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import ControllerRegistrationRequest, ControllerRegistrationResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.CONTROLLER_REGISTRATION


async def handle_as_controller(
    broker: Broker, request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse:
    return await broker.controller.submit(partial(register_controller, request=request))
