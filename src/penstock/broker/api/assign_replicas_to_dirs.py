"""AssignReplicasToDirs (73, KIP-858): a broker reports the log directories of its replicas.

Version 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.directories import assign_replicas_to_dirs
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.ASSIGN_REPLICAS_TO_DIRS


async def handle_as_controller(
    broker: Broker, request: AssignReplicasToDirsRequest, context: RequestContext
) -> AssignReplicasToDirsResponse:
    return await broker.controller.submit(partial(assign_replicas_to_dirs, request=request))
