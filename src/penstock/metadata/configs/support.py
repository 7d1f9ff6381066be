"""Settings that Apache Kafka knows and this release cannot honour yet.

Taking them silently would be worse than refusing: a node that was asked for an authorizer or for TLS and
runs without is open. Each rule goes when its part arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.metadata.configs.definition import ConfigError, ConfigValue, invalid

if TYPE_CHECKING:
    from penstock.metadata.configs.broker_config import BrokerConfig

_ONLY: Final[Mapping[str, tuple[ConfigValue, str]]] = {
    "authorizer.class.name": ("", "there is no authorizer yet"),
    "create.topic.policy.class.name": (None, "Java classes cannot be loaded"),
    "alter.config.policy.class.name": (None, "Java classes cannot be loaded"),
    "client.quota.callback.class": (None, "Java classes cannot be loaded"),
    "replica.selector.class": (None, "Java classes cannot be loaded"),
    "config.providers": ([], "Java classes cannot be loaded"),
    "remote.log.storage.system.enable": (False, "there is no tiered storage yet"),
    "unstable.api.versions.enable": (False, "no API version in development is served"),
    "unstable.feature.versions.enable": (False, "no feature in development is supported"),
    "transaction.two.phase.commit.enable": (False, "there are no transactions yet"),
}


def refuse_unsupported(config: BrokerConfig) -> None:
    """ConfigError for the first setting that asks for something this release does not have."""
    for name, (only, reason) in _ONLY.items():
        if config[name] != only:
            raise invalid(name, str(config.static[name]), reason)
    if set(config.get_list("process.roles")) != {"broker", "controller"}:
        found = config.static["process.roles"]
        raise invalid("process.roles", found, "a node is broker,controller: both roles in one process")
    if config.metadata_log_dir not in config.log_dirs:
        raise invalid("metadata.log.dir", str(config.metadata_log_dir), "it must be one of log.dirs")
    if len(config.quorum_voters) > 1:
        raise invalid("controller.quorum.voters", config.static["controller.quorum.voters"], "one voter only")
    for voter in config.quorum_voters:
        if voter.node_id != config.node_id:
            raise ConfigError(
                "controller.quorum.voters",
                f"controller.quorum.voters: the only voter must be this node, {config.node_id}",
            )
    for listener in config.listeners:
        if listener.security_protocol != "PLAINTEXT":
            raise invalid("listeners", str(listener), f"{listener.security_protocol} is not served yet")
