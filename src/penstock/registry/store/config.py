"""A registry's settings for its cluster, under the names of Confluent's configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.settings import (
    ConfigError,
    boolean,
    from_properties,
    one_of,
    setting,
    text,
    whole_number,
)
from penstock.registry.subjects import Settings

_PREFIX: Final = "kafkastore."
_TOPIC_PREFIX: Final = "kafkastore.topic.config."
_SERVERS: Final = "kafkastore.bootstrap.servers"
_LEVELS: Final = (
    *("none", "backward", "backward_transitive", "forward", "forward_transitive"),
    *("full", "full_transitive"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreConfig:
    """The settings of a store.

    ``client`` holds the client's properties, which have the prefix ``kafkastore.``.
    """

    client: ClientConfig
    topic: str = setting("kafkastore.topic", "_schemas", text)
    replication_factor: int = setting("kafkastore.topic.replication.factor", 3, whole_number(1, 32_767))
    timeout_ms: int = setting("kafkastore.timeout.ms", 10_000, whole_number(1))
    start_timeout_ms: int = setting("kafkastore.init.timeout.ms", 60_000, whole_number(1))
    group_id: str = setting("schema.registry.group.id", "schema-registry", text)
    session_timeout_ms: int = setting("kafkagroup.session.timeout.ms", 6_000, whole_number(1))
    is_eligible: bool = setting("leader.eligibility", True, boolean)
    topic_config: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> StoreConfig:
        """Read the configuration from properties. Raises ConfigError if one is missing or invalid."""
        if _SERVERS not in properties:
            raise ConfigError(f"'{_SERVERS}' is missing: expected host:port[,host:port...]")
        of_client = {
            name.removeprefix(_PREFIX): value
            for name, value in properties.items()
            if name.startswith(_PREFIX) and not name.startswith(_TOPIC_PREFIX)
        }
        of_topic = {
            name.removeprefix(_TOPIC_PREFIX): value
            for name, value in properties.items()
            if name.startswith(_TOPIC_PREFIX)
        }
        client = ClientConfig.from_properties({"client.id": "penstock-registry", **of_client})
        return from_properties(cls, properties, client=client, topic_config=of_topic)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answers:
    level: str = setting("schema.compatibility.level", "backward", one_of(*_LEVELS))
    allows_mode_changes: bool = setting("mode.mutability", True, boolean)
    validates_fields: bool = setting("schema.validate.fields", False, boolean)
    rejects_empty_subject: bool = setting("schema.reject.empty.subject", False, boolean)


def settings_from(properties: Mapping[str, str]) -> Settings:
    """Read those properties that affect the registry's answers. Raises ConfigError if one is invalid."""
    found = from_properties(_Answers, properties)
    return Settings(
        compatibility_level=found.level.upper(),
        allows_mode_changes=found.allows_mode_changes,
        validates_fields=found.validates_fields,
        rejects_empty_subject=found.rejects_empty_subject,
    )
