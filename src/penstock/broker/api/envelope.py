"""Envelope (58): a request that a broker forwards with its client's principal (KIP-590).

Version 0, on controllers' listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.control.forwarding import answer_envelope
from penstock.protocol.messages import EnvelopeRequest
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller_apis import ControllerApis
    from penstock.broker.network.context import RequestContext
    from penstock.protocol.messages import EnvelopeResponse


async def handle_as_controller(
    apis: ControllerApis, request: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse:
    return await answer_envelope(apis, request, context)


API = (
    Api(EnvelopeRequest)
    .on_controller(lambda node: node.controller_apis, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
