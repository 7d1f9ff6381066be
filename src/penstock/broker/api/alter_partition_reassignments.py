"""AlterPartitionReassignments (45, KIP-455): move partitions to other brokers, or cancel their moves.

Versions 0 and 1. The answer is sent once the request is decided; the moves continue in the background. Unlike
in Kafka, a reassignment that replaces another one can always complete (`metadata.controller.reassignment`).
Needs ALTER on the cluster.

Versions:
- 1: `allow_replication_factor_change` (KIP-860)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.reassignment import alter_partition_reassignments
from penstock.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext
    from penstock.protocol.errors import KafkaError


async def handle_as_controller(
    controller: Controller, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    context.permissions.require(Operation.ALTER)
    return await controller.submit_and_follow(
        partial(alter_partition_reassignments, request=request), request.timeout_ms
    )


def answer_error(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, _version: int
) -> AlterPartitionReassignmentsResponse:
    topic_response = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    partition_response = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            topic_response(
                name=topic.name,
                partitions=[
                    partition_response(
                        partition_index=partition.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = (
    Api(AlterPartitionReassignmentsRequest, answer_error=answer_error)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
