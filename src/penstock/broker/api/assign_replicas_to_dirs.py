"""AssignReplicasToDirs (73, KIP-858): a broker reports the log directories of its replicas.

Version 0. Needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.directories import assign_replicas_to_dirs
from penstock.protocol.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: AssignReplicasToDirsRequest, context: RequestContext
) -> AssignReplicasToDirsResponse:
    context.permissions.require(Operation.CLUSTER_ACTION)
    return await controller.submit(partial(assign_replicas_to_dirs, request=request))


API = (
    Api(AssignReplicasToDirsRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER))
)
