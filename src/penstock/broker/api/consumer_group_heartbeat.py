"""ConsumerGroupHeartbeat (68): refuse the consumer protocol of groups (KIP-848), which is not served yet.

Versions 0 and 1 are answered with UNSUPPORTED_VERSION, as by an Apache Kafka whose
`group.coordinator.rebalance.protocols` lacks `consumer`. On this error, the Java client and librdkafka fail
at once, and franz-go uses the classic protocol. The API is listed all the same: librdkafka sends nothing to
a broker without it and keeps waiting, so that neither its application nor the broker's log would show why.
The refusal needs no permission, as in Kafka, which checks READ on the group only if it serves the protocol.

Versions:
- 1: `subscribed_topic_regex` and ids of members that clients choose (KIP-1082)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext

log = logging.getLogger(__name__)

REASON: Final = (
    "this broker does not serve the consumer protocol of groups (KIP-848) yet; set group.protocol=classic"
)

NAMED_CLIENTS_MAX: Final = 1000
"""Limit on the client ids that the log names, once each: a client may invent a new one for every request."""


def handle(
    groups: GroupCoordinatorRuntime, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    named = groups.refused_clients
    if context.client_id not in named and len(named) < NAMED_CLIENTS_MAX:
        named.add(context.client_id)
        log.warning(
            "consumer refused client_id=%s group=%s reason=%s", context.client_id, request.group_id, REASON
        )
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=REASON)


API = Api(ConsumerGroupHeartbeatRequest, is_refused=True).on_broker(lambda node: node.groups, handle)
