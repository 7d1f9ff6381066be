"""IncrementalAlterConfigs (44, KIP-339): single configs of topics, brokers, groups, client metrics.

Versions 0 and 1. Log levels (resource type BROKER_LOGGER) are this process's own and are set here, not by
the controller; they are gone with a restart. Configs of a single broker are asked of that broker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.config_changes import Outcome, answers, change_configs
from penstock.metadata.controller.configs import incremental_alter_configs
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS

ResourceResponse = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    resources = list(request.resources)
    outcomes = await change_configs(broker, request, context)
    return IncrementalAlterConfigsResponse(responses=answers(ResourceResponse, resources, outcomes))


async def handle_as_controller(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    return await broker.controller.submit_and_follow(partial(incremental_alter_configs, request=request))


def answer_error(
    request: IncrementalAlterConfigsRequest, error: KafkaError, _version: int
) -> IncrementalAlterConfigsResponse:
    failed = [Outcome(error.code, error.message)] * len(request.resources)
    return IncrementalAlterConfigsResponse(responses=answers(ResourceResponse, request.resources, failed))
