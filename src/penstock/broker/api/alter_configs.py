"""AlterConfigs (33): replaces all configs of a resource. Clients had better use IncrementalAlterConfigs.

Versions 0 to 2. Log levels are changed by IncrementalAlterConfigs only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.configs import alter_configs
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.ALTER_CONFIGS


async def handle_as_controller(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    return await broker.controller.submit_and_follow(partial(alter_configs, request=request))


def answer_error(request: AlterConfigsRequest, error: KafkaError, _version: int) -> AlterConfigsResponse:
    response = AlterConfigsResponse.AlterConfigsResourceResponse
    return AlterConfigsResponse(
        responses=[
            response(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
