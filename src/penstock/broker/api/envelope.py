"""Envelope (58): a request that a broker forwards with its client's principal (KIP-590).

Version 0, on controllers' listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.control.forwarding import answer_envelope
from penstock.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.protocol.messages import EnvelopeRequest, EnvelopeResponse

API_KEY = ApiKey.ENVELOPE


async def handle_as_controller(
    broker: Broker, request: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse:
    return await answer_envelope(broker, request, context)
