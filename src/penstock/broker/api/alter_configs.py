"""AlterConfigs (33): replace all configs of a resource. Clients should prefer IncrementalAlterConfigs.

Versions 0 to 2. Only IncrementalAlterConfigs changes log levels. A request for configs of a single broker
must be sent to that broker. Needs ALTER_CONFIGS on the topic or the group; on the cluster for configs of
brokers and client metrics.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.control.config_changes import Outcome, answers, change_configs
from penstock.broker.control.config_permissions import needed_for_configs, unauthorized_changes
from penstock.metadata.controller.configs import alter_configs
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import AlterConfigsRequest, AlterConfigsResponse
from penstock.security.acls import Operation

if TYPE_CHECKING:
    from penstock.broker.control.config_changes import ConfigHost
    from penstock.broker.control.controller import Controller
    from penstock.broker.network.context import RequestContext

ResourceResponse = AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    host: ConfigHost, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    resources = list(request.resources)
    outcomes = await change_configs(host, request, context)
    return AlterConfigsResponse(responses=answers(ResourceResponse, resources, outcomes))


async def handle_as_controller(
    controller: Controller, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    unauthorized = unauthorized_changes(context.permissions, request.resources)
    return await controller.submit_and_follow(
        partial(
            alter_configs,
            request=request,
            is_forwarded=context.is_forwarded,
            unauthorized=unauthorized,
        )
    )


def answer_error(request: AlterConfigsRequest, error: KafkaError, _version: int) -> AlterConfigsResponse:
    failed = [Outcome(error.code, error.message)] * len(request.resources)
    return AlterConfigsResponse(responses=answers(ResourceResponse, request.resources, failed))


API = (
    Api(AlterConfigsRequest, answer_error=answer_error)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node.controller, handle_as_controller)
    .needs(*needed_for_configs(Operation.ALTER_CONFIGS))
)
