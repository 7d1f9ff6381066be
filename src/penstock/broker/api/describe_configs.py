"""DescribeConfigs (32): report configs with their values, sources and synonyms.

Versions 1 to 4. Values of secrets are never included. An empty list of names requests all configs, like a
null list. A request with a resource of an unknown type is refused as a whole. Needs DESCRIBE_CONFIGS on the
topic or the group; on the cluster for brokers, log levels and client metrics.

Versions:
- 1: `config_source` replaces `is_default`; synonyms (KIP-226)
- 2: a throttled client pauses by itself (KIP-219)
- 3: `config_type` and documentation (KIP-569)
- 4: flexible encoding (KIP-482)
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.control.config_permissions import config_refusal, has_configs, needed_for_configs
from penstock.broker.network.answers import Answer
from penstock.broker.setup import loggers
from penstock.metadata.configs import describe
from penstock.metadata.configs.describe import ConfigEntry, ConfigSource
from penstock.metadata.controller.state import Refusal
from penstock.metadata.controller.topic_names import check_topic_name
from penstock.metadata.image import ResourceType
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from penstock.security.acls import Operation

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image import MetadataImage
    from penstock.security.permissions import Permissions

RESOURCES_PER_TURN = 4

Resource = DescribeConfigsRequest.DescribeConfigsResource
Result = DescribeConfigsResponse.DescribeConfigsResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym


class Parts(Protocol):
    """The parts of the node that this API uses."""

    config: BrokerConfig
    image: MetadataImage
    node_id: int


def handle(
    parts: Parts, request: DescribeConfigsRequest, context: RequestContext
) -> Answer[DescribeConfigsResponse]:
    for resource in request.resources:
        if not has_configs(resource.resource_type):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected resource type {resource.resource_type} for resource {resource.resource_name}",
            )
    if len(request.resources) > RESOURCES_PER_TURN:
        return Answer.working(_describe_many(parts, request, context.permissions))
    results = [_describe(parts, resource, request, context.permissions) for resource in request.resources]
    return Answer.of(DescribeConfigsResponse(results=results))


async def handle_as_controller(
    parts: Parts, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    """Answer from this controller's own image, whether it is active or not."""
    return await handle(parts, request, context)


async def _describe_many(
    parts: Parts, request: DescribeConfigsRequest, permissions: Permissions
) -> DescribeConfigsResponse:
    """Describe the resources in turns, since each one takes a millisecond or two."""
    results = []
    for number, resource in enumerate(request.resources, 1):
        results.append(_describe(parts, resource, request, permissions))
        if number % RESOURCES_PER_TURN == 0:
            await asyncio.sleep(0)
    return DescribeConfigsResponse(results=results)


def _describe(
    parts: Parts, resource: Resource, request: DescribeConfigsRequest, permissions: Permissions
) -> Result:
    result = Result(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    code = config_refusal(
        permissions, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
    )
    if code is not None:
        result.error_code, result.error_message = code, code.default_message
        return result
    names = resource.configuration_keys or None
    try:
        entries = _entries(parts, resource.resource_type, resource.resource_name, names)
    except Refusal as refusal:
        result.error_code, result.error_message = refusal.code, refusal.message or ""
        return result
    result.configs = [_encoded(entry, request) for entry in sorted(entries)]
    return result


def _entries(parts: Parts, type_: int, name: str, names: Collection[str] | None) -> Iterable[ConfigEntry]:
    configs = parts.image.configs
    match type_:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in parts.image.topics.by_name:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return describe.describe_topic(parts.config, configs.of(ResourceType.TOPIC, name), names)
        case ResourceType.BROKER:
            if not name:
                return describe.describe_cluster_default(parts.config, names)
            _check_broker_id(parts, name, "expected {0} or empty string, but received {1}")
            return describe.describe_broker(parts.config, names)
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            _check_broker_id(parts, name, "expected {0} but received {1}")
            return _logger_entries(names)
        case ResourceType.GROUP:
            if not name:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return describe.describe_group(parts.config, configs.of(ResourceType.GROUP, name), names)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return describe.describe_client_metrics(configs.of(ResourceType.CLIENT_METRICS, name), names)
    raise Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {type_}")


def _check_broker_id(parts: Parts, name: str, unexpected: str) -> None:
    """Refuse another broker's id, since a broker describes only itself."""
    try:
        broker_id = int(name)
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != parts.node_id:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, {unexpected.format(parts.node_id, name)}"
        )


def _logger_entries(names: Collection[str] | None) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            name=name,
            value=level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            sensitive=False,
            type=describe.UNKNOWN_TYPE,
            synonyms=(),
            doc=None,
        )
        for name, level in loggers.levels().items()
        if names is None or name in names
    ]


def _encoded(
    entry: ConfigEntry, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[Synonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )


def answer_error(
    request: DescribeConfigsRequest, error: KafkaError, _version: int
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            Result(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


API = (
    Api(DescribeConfigsRequest, answer_error=answer_error)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
    .needs(*needed_for_configs(Operation.DESCRIBE_CONFIGS))
)
