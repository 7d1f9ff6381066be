"""Dynamic configs, by the resource they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.protocol.messages import ConfigRecord


class ResourceType(IntEnum):
    """The kind of resource a config belongs to, by its number in records and requests."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource with configs; the broker named "" stands for every broker of the cluster."""

    type: int
    name: str


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigsImage:
    def __init__(self) -> None:
        self._configs: dict[ConfigResource, dict[str, str]] = {}

    def copy(self) -> ConfigsImage:
        twin = ConfigsImage()
        twin._configs = {resource: dict(configs) for resource, configs in self._configs.items()}
        return twin

    def of(self, type_: ResourceType, name: str) -> Mapping[str, str]:
        """The configs set for one resource, as text; empty if there are none."""
        return self._configs.get(ConfigResource(type_, name), _NONE)

    def names(self, type_: ResourceType) -> list[str]:
        """The names of the resources of this type that have configs."""
        return sorted(resource.name for resource in self._configs if resource.type == type_)

    def replay(self, record: ConfigRecord) -> ConfigResource:
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = self._configs.setdefault(resource, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if not configs:
            del self._configs[resource]
        return resource

    def forget(self, type_: ResourceType, name: str) -> None:
        """Remove the configs of a deleted resource."""
        self._configs.pop(ConfigResource(type_, name), None)

    def differences(self, other: ConfigsImage) -> set[ConfigResource]:
        """The resources whose configs differ between the two images."""
        resources = self._configs.keys() | other._configs.keys()
        return {known for known in resources if self._configs.get(known) != other._configs.get(known)}

    def records(self) -> Iterator[ConfigRecord]:
        for resource, configs in sorted(self._configs.items()):
            for name, value in sorted(configs.items()):
                yield ConfigRecord(
                    resource_type=resource.type, resource_name=resource.name, name=name, value=value
                )
