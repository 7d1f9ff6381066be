"""ListPartitionReassignments (46, KIP-455): list the partitions that are being moved.

Version 0. Needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.reassignment import list_partition_reassignments
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


API = (
    Api(ListPartitionReassignmentsRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.DESCRIBE, ResourceType.CLUSTER))
)
