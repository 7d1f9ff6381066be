"""AlterPartition (56, KIP-497): change a partition's in-sync replicas, as its leader proposes.

Versions 2 and 3. Version 3 names the epochs of the proposed brokers (KIP-903).
Needs CLUSTER_ACTION on the cluster.

Versions:
- 2: topic ids replace names (KIP-841)
- 3: `new_isr_with_epochs` replaces `new_isr` (KIP-903)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.alter_partition import alter_partition
from penstock.protocol.messages import AlterPartitionRequest, AlterPartitionResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await controller.submit(partial(alter_partition, request=request, api_version=context.api_version))


API = (
    Api(AlterPartitionRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
