"""UpdateFeatures (57): finalize feature levels (KIP-584, KIP-778).

Versions 0 to 2. Unlike in Kafka, `metadata.version` is never lowered. The quorum itself raises
`kraft.version` (KIP-853). Needs ALTER on the cluster.

Versions:
- 1: `upgrade_type` replaces `allow_downgrade`; `validate_only` (KIP-778)
- 2: one error for the request and no results for each feature (KIP-1022)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.metadata.controller.feature_updates import update_features
from penstock.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext


async def handle_as_controller(
    controller: Controller, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    context.permissions.require(Operation.ALTER)
    return await controller.submit_and_follow(
        partial(update_features, request=request, api_version=context.api_version)
    )


API = (
    Api(UpdateFeaturesRequest)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.CLUSTER))
)
