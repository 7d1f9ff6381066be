"""ListPartitionReassignments (46, KIP-455): list the partitions that are being moved.

Version 0. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.reassignment import list_partition_reassignments
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    context.permissions.require(Operation.DESCRIBE)
    return await controller.submit(partial(list_partition_reassignments, request=request))


def answer_error(
    request: ListPartitionReassignmentsRequest, error: KafkaError, _version: int
) -> ListPartitionReassignmentsResponse:
    """Repeat the partitions of the request, as Kafka does."""
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    partition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            topic(
                name=asked.name,
                partitions=[partition(partition_index=index) for index in asked.partition_indexes],
            )
            for asked in request.topics or ()
        ],
    )


API = (
    Api(ListPartitionReassignmentsRequest, answer_error=answer_error)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.DESCRIBE, ResourceType.CLUSTER))
)
