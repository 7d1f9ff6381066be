"""ControllerRegistration (70, KIP-919): register a controller's addresses and supported features.

Version 0. Needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.registration import register_controller
from penstock.protocol.messages import ControllerRegistrationRequest, ControllerRegistrationResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: ControllerRegistrationRequest, context: RequestContext
) -> ControllerRegistrationResponse:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await controller.submit(partial(register_controller, request=request))


API = (
    Api(ControllerRegistrationRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
