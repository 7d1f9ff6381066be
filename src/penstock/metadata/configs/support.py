"""Settings that Apache Kafka knows and this release cannot honour yet.

Taking them silently would be worse than refusing: a node that was asked for an authorizer or for TLS and
runs without is open. Each rule goes when its part arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.metadata.configs.definition import ConfigValue, invalid

if TYPE_CHECKING:
    from penstock.metadata.configs.broker_config import BrokerConfig

_ONLY: Final[Mapping[str, tuple[ConfigValue, str]]] = {
    "authorizer.class.name": ("", "there is no authorizer yet"),
    "create.topic.policy.class.name": (None, "Java classes cannot be loaded"),
    "alter.config.policy.class.name": (None, "Java classes cannot be loaded"),
    "client.quota.callback.class": (None, "Java classes cannot be loaded"),
    "config.providers": ([], "Java classes cannot be loaded"),
    "remote.log.storage.system.enable": (False, "there is no tiered storage yet"),
    "unstable.api.versions.enable": (False, "no API version in development is served"),
    "unstable.feature.versions.enable": (False, "no feature in development is supported"),
    "transaction.two.phase.commit.enable": (False, "a transaction is decided by its producer alone"),
}

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""KIP-392's own: consumers read from an in-sync replica in their rack."""


def refuse_unsupported(config: BrokerConfig) -> None:
    """ConfigError for the first setting that asks for something this release does not have."""
    for name, (only, reason) in _ONLY.items():
        if config[name] != only:
            raise invalid(name, str(config.static[name]), reason)
    selector = config["replica.selector.class"]
    if selector not in (None, RACK_AWARE_SELECTOR):
        reason = f"Java classes cannot be loaded; {RACK_AWARE_SELECTOR} is built in"
        raise invalid("replica.selector.class", str(selector), reason)
    for listener in config.listeners:
        if listener.security_protocol != "PLAINTEXT":
            raise invalid("listeners", str(listener), f"{listener.security_protocol} is not served yet")
