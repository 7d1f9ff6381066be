"""The policies that say which keys of its clients a connector may override (KIP-458, KIP-1188)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from penstock.connect.configs.clients import ClientType, client_definition
from penstock.connect.configs.sink import has_dead_letter_topic
from penstock.connect.configs.source import OFFSETS_TOPIC
from penstock.connect.configs.topic_creation import is_used
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, ConfigValue, Importance
from penstock.connect.definitions.config_types import parse_type
from penstock.connect.definitions.validators import ValidList
from penstock.connect.errors import ConfigInvalid
from penstock.connect.plugins.plugin import PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.validation.config_infos import ConfigInfos, prefixed_infos
from penstock.java.hash_order import copied, grown
from penstock.java.strings import hash_code

log = logging.getLogger(__name__)

POLICY: Final = "connector.client.config.override.policy"
ALLOWLIST: Final = "connector.client.config.override.allowlist"


class OverridePolicy(ABC):
    """Allows or forbids each key; extend this class for a policy of your own."""

    name: ClassVar[str]
    """The name that messages show."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Take the configuration of the worker."""

    @abstractmethod
    def allows(self, key: str) -> bool:
        """Whether connectors may override a key of a client."""

    def errors(self, key: str) -> list[str]:
        """The errors of an override."""
        if self.allows(key):
            return []
        refused = f"The '{self.name}' policy does not allow '{key}' to be overridden"
        return [f"{refused} in the connector configuration."]


class AllPolicy(OverridePolicy):
    """Allows all keys."""

    name = "All"

    def allows(self, key: str) -> bool:
        return True


class NonePolicy(OverridePolicy):
    """Allows no key."""

    name = "None"

    def allows(self, key: str) -> bool:
        return False


class PrincipalPolicy(OverridePolicy):
    """Allows the keys that choose the user. Deprecated: Allowlist can do the same."""

    name = "Principal"

    def configure(self, properties: Mapping[str, str]) -> None:
        log.warning("The policy is deprecated, use Allowlist policy=Principal %s=%s", ALLOWLIST, PRINCIPAL)

    def allows(self, key: str) -> bool:
        return key in PRINCIPAL


PRINCIPAL: Final = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")


class AllowlistPolicy(OverridePolicy):
    """Allows the keys that the worker's configuration lists."""

    name = "Allowlist"
    definition: ClassVar[ConfigDef] = ConfigDef().define(
        ALLOWLIST,
        ConfigType.LIST,
        "",
        ValidList(),
        Importance.MEDIUM,
        "Keys of clients that connectors may override, with the policy Allowlist.",
    )
    allowed: frozenset[str] = frozenset()

    def configure(self, properties: Mapping[str, str]) -> None:
        self.allowed = frozenset(self.definition.parse(properties)[ALLOWLIST])

    def allows(self, key: str) -> bool:
        return key in self.allowed


def worker_policy(plugins: Plugins, worker: Mapping[str, str]) -> OverridePolicy:
    """Return the policy that a worker's configuration names.

    Raises:
        PluginNotFound: there is no such policy.
    """
    policy: OverridePolicy = plugins.new(worker.get(POLICY, AllPolicy.name), PluginKind.OVERRIDE_POLICY)
    policy.configure(worker)
    return policy


def overrides(properties: Mapping[str, str | None], client: ClientType) -> dict[str, Any]:
    """The keys of a client that a connector overrides, as the client names them."""
    return without_prefix(properties, client.value)


def without_prefix(properties: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The properties whose names begin with a prefix and go on, without it, in the order of a HashMap."""
    return {
        name.removeprefix(prefix): properties[name]
        for name in copied(properties, hash_code)
        if name.startswith(prefix) and name != prefix
    }


def clients_of(
    kind: PluginKind, properties: Mapping[str, str | None], worker: Mapping[str, str]
) -> Iterator[ClientType]:
    """The clients that a connector's tasks have, in the order in which validation shows their keys."""
    is_source = kind is PluginKind.SOURCE
    has_own_offsets = is_source and "group.id" in worker
    if has_own_offsets and worker.get("exactly.once.source.support", "").lower() != "enabled":
        has_own_offsets = bool((properties.get(OFFSETS_TOPIC) or "").strip())
    if is_source or has_dead_letter_topic(properties):
        yield ClientType.PRODUCER
    if not is_source or has_own_offsets:
        yield ClientType.CONSUMER
    if has_own_offsets or (is_used(properties) if is_source else has_dead_letter_topic(properties)):
        yield ClientType.ADMIN


def override_infos(
    policy: OverridePolicy, properties: Mapping[str, str | None], clients: Iterable[ClientType]
) -> ConfigInfos:
    """Validate the keys of clients that a connector overrides."""
    return ConfigInfos.merged("", (client_infos(policy, properties, client) for client in clients))


def client_infos(
    policy: OverridePolicy, properties: Mapping[str, str | None], client: ClientType
) -> ConfigInfos:
    keys = client_definition(client).keys
    found = overrides(properties, client)
    values = []
    for name in grown(found, hash_code):  # a HashMap of a HashMap, in Connect
        value = ConfigValue(name, errors=policy.errors(name))
        try:
            value.value = parse_type(name, found[name], keys[name].type) if name in keys else found[name]
        except ConfigInvalid as error:
            value.errors.append(str(error))
        values.append(value)
    return prefixed_infos(keys, values, client.value)
