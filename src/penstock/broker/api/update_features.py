"""UpdateFeatures (57): finalize feature levels (KIP-584, KIP-778).

Versions 0 to 2. Unlike in Kafka, `metadata.version` is never lowered. The quorum itself raises
`kraft.version` (KIP-853).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.feature_updates import update_features
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.UPDATE_FEATURES


async def handle_as_controller(
    broker: Broker, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    return await broker.controller.submit_and_follow(
        partial(update_features, request=request, api_version=context.api_version)
    )
