"""Properties by Kafka's names, server lists, and errors that say what was expected."""

import pytest

from penstock.client.config import ClientConfig, ServerAddress, parse_servers
from penstock.client.fetcher import FetchConfig
from penstock.client.producer import ProducerConfig
from penstock.client.settings import ConfigError, from_properties, property_names


def test_servers_may_carry_a_listener_name_and_brackets():
    assert parse_servers("a:9092, PLAINTEXT://b:1 ,[::1]:2") == (
        ServerAddress("a", 9092),
        ServerAddress("b", 1),
        ServerAddress("::1", 2),
    )


@pytest.mark.parametrize("servers", ["", "host", "host:", ":9092", "host:0", "host:99999", "host:nine"])
def test_a_server_that_cannot_be_is_named(servers):
    with pytest.raises(ConfigError, match=r"expected host:port"):
        parse_servers(servers)


def test_properties_fill_the_fields_they_name():
    properties = {
        "bootstrap.servers": "h:1",
        "client.id": "me",
        "request.timeout.ms": "5",
        "fetch.min.bytes": "7",
    }
    config = ClientConfig.from_properties(properties)
    assert (config.client_id, config.request_timeout_ms, config.retry_backoff_ms) == ("me", 5, 100)
    assert from_properties(FetchConfig, properties).min_bytes == 7
    assert {"request.timeout.ms", "fetch.min.bytes"} <= property_names(ClientConfig, FetchConfig)


def test_missing_servers_are_told():
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        ClientConfig.from_properties({})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("request.timeout.ms", "soon", "a whole number from 1"),
        ("request.timeout.ms", "0", "a whole number from 1"),
        ("security.protocol", "SASL_SSL", "PLAINTEXT"),
        ("acks", "2", "all, 1 or 0"),
        ("enable.idempotence", "yes", "true or false"),
        ("isolation.level", "serializable", "read_uncommitted, read_committed"),
    ],
)
def test_an_invalid_value_is_named_with_what_was_expected(name, value, expected):
    config = next(c for c in (ClientConfig, ProducerConfig, FetchConfig) if name in property_names(c))
    with pytest.raises(ConfigError) as caught:
        from_properties(config, {name: value}, **({"servers": ()} if config is ClientConfig else {}))
    assert name in str(caught.value)
    assert value in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), ("-1", True), ("1", False), ("0", False)])
def test_only_acks_all_is_idempotent(acks, idempotent):
    assert from_properties(ProducerConfig, {"acks": acks}).idempotent is idempotent
