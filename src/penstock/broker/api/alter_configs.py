"""AlterConfigs (33): replaces all configs of a resource. Clients had better use IncrementalAlterConfigs.

Versions 0 to 2. Log levels are changed by IncrementalAlterConfigs only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from penstock.metadata.controller.configs import alter_configs, check_broker_resource
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image import ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.ALTER_CONFIGS

Resource: TypeAlias = AlterConfigsRequest.AlterConfigsResource
ResourceResponse: TypeAlias = AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    """Configs of a single broker are asked of that broker; all else the controller decides."""
    refused = [(r, why) for r in request.resources if (why := _why_not_here(broker, r)) is not None]
    request.resources = [r for r in request.resources if _why_not_here(broker, r) is None]
    responses = [_refusal(resource, why) for resource, why in refused]
    if request.resources or not responses:
        try:
            answer = await broker.forwarding.forward(request, context)
        except KafkaError as error:
            answer = answer_error(request, error, context.api_version)
        if isinstance(answer, bytes):
            answer, _ = AlterConfigsResponse.decode(context.api_version, answer)
        assert isinstance(answer, AlterConfigsResponse)
        responses += answer.responses
    return AlterConfigsResponse(responses=responses)


async def handle_as_controller(
    broker: Broker, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    return await broker.controller.submit_and_follow(partial(alter_configs, request=request))


def answer_error(request: AlterConfigsRequest, error: KafkaError, _version: int) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_refusal(resource, error) for resource in request.resources])


def _why_not_here(broker: Broker, resource: Resource) -> Refusal | None:
    if resource.resource_type == ResourceType.BROKER:
        try:
            check_broker_resource(broker.node_id, resource.resource_name)
        except Refusal as refusal:
            return refusal
    return None


def _refusal(resource: Resource, why: KafkaError | Refusal) -> ResourceResponse:
    return AlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=why.code,
        error_message=why.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
