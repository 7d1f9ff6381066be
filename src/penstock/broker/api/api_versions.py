"""ApiVersions (18): report the APIs, their versions and the features that this node serves.

Versions 0 to 4. The dispatcher answers a request in a newer version in version 0 (KIP-511). The table is
collected from the handler modules. An API that a broker forwards to the controller is limited to the versions
that the controller serves, once these are known (`Forwarding.served`). Produce is listed from version 0 on
although versions 0 to 2 are refused (KAFKA-18659). It needs no permission, since clients ask it first.

Versions:
- 1: `throttle_time_ms` (KIP-124)
- 2: a throttled client pauses by itself (KIP-219)
- 3: flexible encoding (KIP-482) except in the response's header; the name and the version of the client's
  software (KIP-511); features (KIP-584)
- 4: the range of a supported feature may begin at 0 (KAFKA-17011)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.api_entry import Api
from penstock.metadata.controller.features import KRAFT_VERSION, SUPPORTED_FEATURES, advertised_features
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.network.context import RequestContext
    from penstock.broker.network.dispatch import Dispatcher
    from penstock.broker.quorum.quorum import Quorum
    from penstock.metadata.image import MetadataImage

_SOFTWARE_VERSION: Final = 3
"""The first version in which clients name their software (KIP-511) and features are answered (KIP-584)."""
_ZERO_LEVEL_VERSION: Final = 4
"""Clients of older versions treat a feature whose lowest level is 0 as an error (KAFKA-17011)."""
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class Parts(Protocol):
    """The parts of the node that this API uses."""

    controller_dispatcher: Dispatcher
    dispatcher: Dispatcher
    forwarding: Forwarding
    image: MetadataImage
    quorum: Quorum


def handle(parts: Parts, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    return _answer(parts, request, context, parts.forwarding.served(parts.dispatcher.advertised))


async def handle_as_controller(
    parts: Parts, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    return _answer(parts, request, context, parts.controller_dispatcher.advertised)


def _answer(
    parts: Parts,
    request: ApiVersionsRequest,
    context: RequestContext,
    served: Mapping[ApiKey, tuple[int, int]],
) -> ApiVersionsResponse:
    version = context.api_version
    if version >= _SOFTWARE_VERSION and not _names_itself(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = parts.image
    finalized = advertised_features(image.features)
    if parts.quorum.kraft_version > 0:
        finalized[KRAFT_VERSION] = parts.quorum.kraft_version  # in the quorum's log, not in the image
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in served.items()
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(
                name=feature.name, min_version=feature.min_level, max_version=feature.max_level
            )
            for feature in SUPPORTED_FEATURES
            if feature.min_level > 0 or version >= _ZERO_LEVEL_VERSION
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in sorted(finalized.items())
        ],
    )


def _names_itself(request: ApiVersionsRequest) -> bool:
    return all(map(_LEGAL_NAME.fullmatch, (request.client_software_name, request.client_software_version)))


API = (
    Api(ApiVersionsRequest)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
)
