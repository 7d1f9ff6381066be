"""IncrementalAlterConfigs (44, KIP-339): single configs of topics, brokers, groups, client metrics.

Versions 0 and 1. Log levels (resource type BROKER_LOGGER) are this process's own and are set here, not by
the controller; they are gone with a restart. Configs of a single broker are asked of that broker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker import loggers
from penstock.metadata.controller.configs import (
    ConfigChange,
    check_broker_resource,
    check_node_id,
    incremental_alter_configs,
)
from penstock.metadata.controller.state import Refusal
from penstock.metadata.image import ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
ResourceResponse = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    of_loggers = [r for r in request.resources if r.resource_type == ResourceType.BROKER_LOGGER]
    others = [r for r in request.resources if r.resource_type != ResourceType.BROKER_LOGGER]
    responses = [_set_log_levels(broker, resource, request.validate_only) for resource in of_loggers]
    responses += [refused for resource in others if (refused := _of_another_broker(broker, resource))]
    others = [resource for resource in others if _of_another_broker(broker, resource) is None]
    if others or not responses:
        request.resources = others
        try:
            answer = await broker.forwarding.forward(request, context)
        except KafkaError as error:
            answer = answer_error(request, error, context.api_version)
        if isinstance(answer, bytes):
            answer, _ = IncrementalAlterConfigsResponse.decode(context.api_version, answer)
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        responses += answer.responses
    return IncrementalAlterConfigsResponse(responses=responses)


async def handle_as_controller(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    return await broker.controller.submit_and_follow(partial(incremental_alter_configs, request=request))


def answer_error(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _version: int
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            ResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _of_another_broker(broker: Broker, resource: Resource) -> ResourceResponse | None:
    """The refusal of what another broker has to be asked for."""
    if resource.resource_type != ResourceType.BROKER:
        return None
    try:
        check_broker_resource(broker.node_id, resource.resource_name)
    except Refusal as refusal:
        return ResourceResponse(
            error_code=refusal.code,
            error_message=refusal.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    return None


def _set_log_levels(broker: Broker, resource: Resource, validate_only: bool) -> ResourceResponse:
    response = ResourceResponse(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    changes = [ConfigChange(c.name, c.config_operation, c.value) for c in resource.configs]
    try:
        check_node_id(
            broker.node_id, resource.resource_name, "Unexpected node id. Expected {0}, but received {1}"
        )
        loggers.check(changes)
    except Refusal as refusal:
        response.error_code, response.error_message = refusal.code, refusal.message
        return response
    if not validate_only:
        loggers.apply(changes)
    return response
