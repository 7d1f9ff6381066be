"""UnregisterBroker (64, KIP-732): remove the registration of a broker that will not return.

Version 0. Needs ALTER on the cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.registration import unregister_broker
from penstock.protocol.messages import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    context.permissions.require(Operation.ALTER)
    return await controller.submit_and_follow(partial(unregister_broker, request=request))


API = (
    Api(UnregisterBrokerRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
