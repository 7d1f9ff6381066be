"""ListPartitionReassignments (46, KIP-455): list the partitions that are being moved.

Version 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.reassignment import list_partition_reassignments
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.LIST_PARTITION_REASSIGNMENTS


async def handle_as_controller(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return await broker.controller.submit(partial(list_partition_reassignments, request=request))
