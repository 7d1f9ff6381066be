"""Policies say which keys of clients connectors may override."""

import pytest

from penstock.connect.configs.clients import ClientType
from penstock.connect.errors import PluginNotFound
from penstock.connect.plugins.plugin import PluginKind
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.validation.client_overrides import (
    OverridePolicy,
    clients_of,
    overrides,
    worker_policy,
)

KEY = "connector.client.config.override.policy"
PLUGINS = Plugins(shipped_plugins(), from_packages=False)


class OnlyTimes(OverridePolicy):
    name = "OnlyTimes"

    def allows(self, key: str) -> bool:
        return key.endswith(".ms")


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ("All", {"linger.ms", "sasl.mechanism"}),
        ("None", set()),
        ("Principal", {"sasl.mechanism"}),
        ("Allowlist", {"linger.ms"}),
        ("org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy", set()),
        (f"{__name__}:OnlyTimes", {"linger.ms"}),
    ],
)
def test_policies_allow_keys(policy: str, allowed: set[str]) -> None:
    worker = {KEY: policy, "connector.client.config.override.allowlist": "linger.ms,acks"}
    made = worker_policy(PLUGINS, worker)
    assert {key for key in ("linger.ms", "sasl.mechanism") if made.allows(key)} == allowed


def test_all_keys_may_be_overridden_by_default() -> None:
    properties = {"producer.override.linger.ms": "5", "consumer.override.fetch.min.bytes": "1", "name": "s1"}
    assert overrides(properties, ClientType.PRODUCER) == {"linger.ms": "5"}
    assert worker_policy(PLUGINS, {}).errors("linger.ms") == []


def test_other_overrides_are_refused() -> None:
    assert worker_policy(PLUGINS, {KEY: "None"}).errors("linger.ms") == [
        "The 'None' policy does not allow 'linger.ms' to be overridden in the connector configuration."
    ]
    with pytest.raises(PluginNotFound, match=r"implements ConnectorClientConfigOverridePolicy and"):
        worker_policy(PLUGINS, {KEY: "Nope"})


def test_tasks_have_the_clients_that_they_need() -> None:
    source, sink = PluginKind.SOURCE, PluginKind.SINK
    standalone: dict[str, str] = {}
    distributed = {"group.id": "connect"}
    assert list(clients_of(source, {}, standalone)) == [ClientType.PRODUCER]
    assert list(clients_of(sink, {}, distributed)) == [ClientType.CONSUMER]
    own_offsets = {"offsets.storage.topic": "mine"}
    assert list(clients_of(source, own_offsets, standalone)) == [ClientType.PRODUCER]
    assert set(clients_of(source, own_offsets, distributed)) == set(ClientType)
    exactly_once = {**distributed, "exactly.once.source.support": "ENABLED"}
    assert set(clients_of(source, {}, exactly_once)) == set(ClientType)
    dead_letters = {"errors.deadletterqueue.topic.name": "dead"}
    assert set(clients_of(sink, dead_letters, standalone)) == set(ClientType)
