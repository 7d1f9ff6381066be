"""IncrementalAlterConfigs (44, KIP-339): change single configs of topics, brokers, groups, client metrics.

Versions 0 and 1. Log levels (resource type BROKER_LOGGER) belong to this process and are set here, not by the
controller; a restart resets them. A request for configs of a single broker must be sent to that broker.

Needs ALTER_CONFIGS on the topic or the group; on the cluster for configs of brokers and client metrics, and
for log levels of a broker. Log levels of a controller need CLUSTER_ACTION instead, as in Kafka.

Versions:
- 1: flexible encoding (KIP-482)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.control.config_changes import (
    Outcome,
    answers,
    change_configs,
    is_of_loggers,
    set_log_levels,
)
from penstock.broker.control.config_permissions import needed_for_configs, unauthorized_changes
from penstock.broker.setup.host import NodeHost
from penstock.metadata.controller.configs import incremental_alter_configs
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.config_changes import ConfigHost
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext

ResourceResponse = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


class ControllerParts(NodeHost, Protocol):
    """The parts of a controller that this API uses."""

    controller: Controller


async def handle(
    host: ConfigHost, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    resources = list(request.resources)
    outcomes = await change_configs(host, request, context)
    return IncrementalAlterConfigsResponse(responses=answers(ResourceResponse, resources, outcomes))


async def handle_as_controller(
    parts: ControllerParts, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    """Set log levels of this controller, active or not; the active controller decides the other configs."""
    decide = partial(
        incremental_alter_configs,
        is_forwarded=context.is_forwarded,
        unauthorized=unauthorized_changes(context.permissions, request.resources),
    )
    of_loggers = [resource for resource in request.resources if is_of_loggers(resource)]
    if not of_loggers:
        return await parts.controller.submit_and_follow(partial(decide, request=request))
    others = [resource for resource in request.resources if not is_of_loggers(resource)]
    set_here = [
        set_log_levels(
            parts,
            resource,
            context.permissions,
            Operation.CLUSTER_ACTION,
            validate_only=request.validate_only,
        )
        for resource in of_loggers
    ]
    response = IncrementalAlterConfigsResponse()
    if others:
        left = IncrementalAlterConfigsRequest(resources=others, validate_only=request.validate_only)
        response = await parts.controller.submit_and_follow(partial(decide, request=left))
    response.responses = [*response.responses, *answers(ResourceResponse, of_loggers, set_here)]
    return response


def answer_error(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _version: int
) -> IncrementalAlterConfigsResponse:
    failed = [Outcome(error.code, error.message)] * len(request.resources)
    return IncrementalAlterConfigsResponse(responses=answers(ResourceResponse, request.resources, failed))


API = (
    Api(IncrementalAlterConfigsRequest, answer_error=answer_error)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
    .needs(
        *needed_for_configs(Operation.ALTER_CONFIGS),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "for log levels of a controller"),
    )
)
