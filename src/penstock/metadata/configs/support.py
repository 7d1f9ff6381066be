"""Settings that Apache Kafka supports and this release does not.

Ignoring some of them silently would be worse than refusing them: a node that was configured with an
authorizer or TLS and runs without is open to everyone. Others have no effect, and a node logs them at its
start. Each rule is removed once its feature is supported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from penstock.metadata.configs.definition import ConfigKey, ConfigValue, invalid
from penstock.metadata.configs.reference import broker_key

if TYPE_CHECKING:
    from penstock.metadata.configs.broker_config import BrokerConfig

_ONLY: Final[Mapping[str, tuple[ConfigValue, str]]] = {
    "create.topic.policy.class.name": (None, "Java classes cannot be loaded"),
    "alter.config.policy.class.name": (None, "Java classes cannot be loaded"),
    "client.quota.callback.class": (None, "Java classes cannot be loaded"),
    "remote.log.storage.system.enable": (False, "there is no tiered storage yet"),
    "unstable.feature.versions.enable": (False, "no feature in development is supported"),
    "ssl.engine.factory.class": (None, "Java classes cannot be loaded"),
}

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The authorizer with ACLs in the metadata log (KIP-801)."""

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The selector of KIP-392, by which consumers read from an in-sync replica in their rack."""


def refuse_unsupported(config: BrokerConfig) -> None:
    """Raise InvalidConfig for the first setting that requires a feature this release does not have."""
    for name, (only, reason) in _ONLY.items():
        if config[name] != only:
            raise invalid(name, str(config.static[name]), reason)
    authorizer = config["authorizer.class.name"]
    if authorizer not in ("", STANDARD_AUTHORIZER):
        reason = f"Java classes cannot be loaded; {STANDARD_AUTHORIZER} is built in"
        raise invalid("authorizer.class.name", str(authorizer), reason)
    selector = config["replica.selector.class"]
    if selector not in (None, RACK_AWARE_SELECTOR):
        reason = f"Java classes cannot be loaded; {RACK_AWARE_SELECTOR} is built in"
        raise invalid("replica.selector.class", str(selector), reason)


_WITHOUT_EFFECT: Final = ("Accepted for compatibility: ", "Not served yet: ")
"""The words with which the reference begins the description of a config that has no effect."""

_PARTS_TO_COME: Final = (
    ("sasl.login.class", "Java classes cannot be loaded"),
    ("sasl.login.callback.", "Java classes cannot be loaded"),
    ("sasl.client.callback.", "Java classes cannot be loaded"),
    ("sasl.server.callback.", "Java classes cannot be loaded"),
    ("ssl.protocol", "ssl.enabled.protocols decides"),
    ("ssl.provider", "OpenSSL provides TLS"),
    ("ssl.keymanager.algorithm", "OpenSSL provides TLS"),
    ("ssl.trustmanager.algorithm", "OpenSSL provides TLS"),
    ("ssl.secure.random.implementation", "OpenSSL provides TLS"),
    ("security.providers", "OpenSSL provides TLS"),
    ("principal.builder.", "Java classes cannot be loaded"),
    ("early.start.listeners", "the listeners of controllers open early, and no others"),
    ("group.consumer.", "groups have the classic protocol"),
    ("group.streams.", "groups have the classic protocol"),
    ("group.share.", "there are no share groups yet"),
    ("share.", "there are no share groups yet"),
    ("remote.", "there is no tiered storage yet"),
    ("log.local.", "there is no tiered storage yet"),
    ("follower.fetch.last.tiered.", "there is no tiered storage yet"),
)
"""Prefixes of configs whose features are not supported yet, with the reason."""


_OAUTH_CLASSES: Final = "org.apache.kafka.common.security.oauthbearer."
"""Kafka's handlers of OAUTHBEARER: their names choose what is built in, or are refused."""

_SHIPPED: Final = frozenset(
    {"share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr"}
)
"""Keys that Kafka's own server.properties sets: a user who starts from that file did not choose them."""


def reason_without_effect(key: ConfigKey) -> str | None:
    """The reason why a broker config has no effect; None if it has one."""
    for words in _WITHOUT_EFFECT:
        if key.doc.startswith(words):
            return key.doc.removeprefix(words).rstrip(".")
    for beginning, reason in _PARTS_TO_COME:
        if key.name.startswith(beginning):
            return reason
    return None


def settings_without_effect(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """Iterate over settings that differ from their default but have no effect, with the reason."""
    for name in sorted(config.static):
        key = broker_key(name)
        if key is not None and name not in _SHIPPED and config.static[name].strip() != key.default:
            reason = reason_without_effect(key)
            if reason is not None and not config.static[name].strip().startswith(_OAUTH_CLASSES):
                yield name, reason
