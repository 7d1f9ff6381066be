"""Read and change configurations of brokers and topics, and log levels (KIP-226, KIP-339, KIP-412)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ServerUnreachable, error_from
from penstock.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    """The kinds of resources that have configurations."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigResource(NamedTuple):
    """A topic by its name, or a broker or its loggers by the broker's id."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower().replace('_', ' ')} {self.name}"


_TOPICS_PER_REQUEST: Final = 500


class _Operation(IntEnum):
    SET = 0
    DELETE = 1


class _Source(IntEnum):
    """The sources of values that are set for the resource itself, as opposed to defaults."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2


def alter_configs(cluster: Cluster, changes: Mapping[ConfigResource, Mapping[str, str | None]]) -> None:
    """Set these configurations, and remove those whose value is None; all others stay.

    Any broker changes topics; each broker changes its own configurations, and an unreachable broker is
    skipped without an error. Raises ServerError for the first resource that is refused; others may have
    changed by then.
    """
    topics = {resource: values for resource, values in changes.items() if resource.type is ResourceType.TOPIC}
    if topics:
        request = _alteration(topics)
        cluster.retry(lambda: _check(cluster.call_any(request, IncrementalAlterConfigsResponse)))
    for resource, values in changes.items():
        if resource.type is ResourceType.BROKER:
            _alter_broker(cluster, resource, values)


def _alter_broker(cluster: Cluster, resource: ConfigResource, values: Mapping[str, str | None]) -> None:
    node_id = int(resource.name)
    request = _alteration({resource: values})

    try:
        response = cluster.connection(node_id).call(request, IncrementalAlterConfigsResponse)
    except ServerUnreachable:
        cluster.disconnect(node_id)
    else:
        _check(response)


def _alteration(
    changes: Mapping[ConfigResource, Mapping[str, str | None]],
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(
                        name=name,
                        config_operation=_Operation.DELETE if value is None else _Operation.SET,
                        value=value,
                    )
                    for name, value in values.items()
                ],
            )
            for resource, values in changes.items()
        ]
    )


def _check(response: IncrementalAlterConfigsResponse) -> None:
    for answer in response.responses:
        if answer.error_code:
            resource = ConfigResource(ResourceType(answer.resource_type), answer.resource_name)
            raise error_from(answer.error_code, f"configuring {resource}", answer.error_message)


class Config(NamedTuple):
    """A configuration's effective value; `is_own` if it is set dynamically for this very resource."""

    name: str
    value: str | None
    is_own: bool


def describe_configs(
    cluster: Cluster, resources: Collection[ConfigResource], names: Collection[str]
) -> dict[ConfigResource, list[Config]]:
    """Read these configurations of these resources.

    Any broker answers for topics; each broker answers for itself, and unreachable brokers are left out.
    Raises ServerError.
    """
    found: dict[ConfigResource, list[Config]] = {}
    topics = [resource for resource in resources if resource.type is ResourceType.TOPIC]
    for start in range(0, len(topics), _TOPICS_PER_REQUEST):
        request = _describe(topics[start : start + _TOPICS_PER_REQUEST], names)
        found |= cluster.retry(lambda: _configs(cluster.call_any(request, DescribeConfigsResponse)))  # noqa: B023
    for resource in resources:
        if resource.type is not ResourceType.BROKER:
            continue
        node_id = int(resource.name)
        try:
            response = cluster.connection(node_id).call(_describe([resource], names), DescribeConfigsResponse)
        except ServerUnreachable:
            cluster.disconnect(node_id)
            continue
        found |= _configs(response)
    return found


def log_levels(cluster: Cluster, broker_id: int) -> dict[str, str | None]:
    """Read the levels of a broker's loggers, by name. Raises ServerError, ServerUnreachable."""
    resource = ConfigResource(ResourceType.BROKER_LOGGER, str(broker_id))
    response = cluster.connection(broker_id).call(_describe([resource], None), DescribeConfigsResponse)
    return {config.name: config.value for config in _configs(response)[resource]}


def alter_log_levels(cluster: Cluster, broker_id: int, levels: Mapping[str, str | None]) -> None:
    """Set the levels of loggers until the broker restarts; None makes a logger inherit its level.

    Raises ServerError, and ServerUnreachable.
    """
    request = _alteration({ConfigResource(ResourceType.BROKER_LOGGER, str(broker_id)): levels})
    _check(cluster.connection(broker_id).call(request, IncrementalAlterConfigsResponse))


def _describe(resources: Collection[ConfigResource], names: Collection[str] | None) -> DescribeConfigsRequest:
    """Build a request for some configurations, or for all if ``names`` is None."""
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configuration_keys=None if names is None else sorted(names),
            )
            for resource in resources
        ]
    )


def _configs(response: DescribeConfigsResponse) -> dict[ConfigResource, list[Config]]:
    found = {}
    for result in response.results:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        if result.error_code:
            raise error_from(result.error_code, f"configuration of {resource}", result.error_message)
        found[resource] = [
            Config(config.name, config.value, config.config_source in tuple(_Source))
            for config in result.configs
        ]
    return found
