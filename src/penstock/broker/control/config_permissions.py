"""The permissions that guard the configs of a resource: its own for topics and groups, else the cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from penstock.metadata.image import ResourceType as ConfigResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType
from penstock.security.permissions import AUTHORIZATION_FAILED, Permissions

Resource: TypeAlias = (
    AlterConfigsRequest.AlterConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource
)

_GUARDS: Final[Mapping[int, ResourceType]] = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
}


def needed_for_configs(operation: Operation) -> tuple[tuple[Operation, ResourceType, str], ...]:
    """The permissions for `Api.needs` of an API that describes or alters configs."""
    return (
        (operation, ResourceType.TOPIC, "for configs of topics"),
        (operation, ResourceType.GROUP, "for configs of groups"),
        (operation, ResourceType.CLUSTER, "for configs of brokers and client metrics, and log levels"),
    )


def has_configs(resource_type: int) -> bool:
    """Whether this release has configs of resources of the type."""
    return resource_type in _GUARDS


def config_refusal(
    permissions: Permissions, operation: Operation, resource_type: int, name: str
) -> ErrorCode | None:
    """The error for a client that may not describe or alter the configs of a resource; None if it may.

    Handlers refuse resources of unknown types by themselves.
    """
    guard = _GUARDS.get(resource_type)
    if guard is None:
        return None
    guarded = CLUSTER_NAME if guard is ResourceType.CLUSTER else name
    return None if permissions.allows(operation, guard, guarded) else AUTHORIZATION_FAILED[guard]


def unauthorized_changes(
    permissions: Permissions, resources: Iterable[Resource]
) -> dict[tuple[int, str], ErrorCode]:
    """The resources whose configs a client may not alter, for the decision of the controller.

    Log levels are not among them, because the controller does not decide about them.
    """
    if permissions.is_unrestricted:
        return {}
    named = {(resource.resource_type, resource.resource_name) for resource in resources}
    refusals = {
        key: config_refusal(permissions, Operation.ALTER_CONFIGS, *key)
        for key in sorted(named)
        if key[0] != ConfigResourceType.BROKER_LOGGER
    }
    return {key: code for key, code in refusals.items() if code is not None}
