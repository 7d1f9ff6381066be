"""Properties by Kafka's names, server lists, and errors that name the expected values."""

import pytest

from penstock.client.config import ClientConfig, ServerAddress, parse_servers
from penstock.client.producing.producer import ProducerConfig
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.settings import ConfigError, from_properties, property_names
from penstock.security.tls.settings import TlsSettings


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
        ("security.protocol", "TLS", "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("sasl.mechanism", "NTLM", "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("ssl.truststore.type", "BKS", "one of PEM, PKCS12, JKS"),
        ("ssl.truststore.certificates", "MIIB", "PEM, beginning with -----BEGIN"),
        ("ssl.endpoint.identification.algorithm", "ldaps", "https, or an empty text"),
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


JAAS = 'M required username="a" password="hidden";'


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": JAAS}, "SASL_SSL needs 'sasl.mechanism'"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "needs 'sasl.jaas.config'"),
        ({"sasl.jaas.config": "a:hidden"}, "invalid value for 'sasl.jaas.config': expected '<login module>"),
        ({"ssl.keystore.key": "hidden"}, "invalid value for 'ssl.keystore.key': expected PEM"),
        ({"ssl.keystore.key": "-----BEGIN hidden"}, "must be set together: found one"),
        (
            {"ssl.truststore.location": "/a", "ssl.truststore.certificates": "-----BEGIN CERTIFICATE"},
            "'ssl.truststore.location' and 'ssl.truststore.certificates' exclude each other",
        ),
        ({"ssl.keystore.password": "hidden"}, "expected 'ssl.keystore.location' as well"),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/a",
                "ssl.keystore.password": "hidden",
            },
            "set for a PEM store: expected 'ssl.key.password'",
        ),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "'TLSv1.1': expected one of TLSv1.2, TLSv1.3"),
    ],
)
def test_security_that_cannot_be_is_told_without_what_is_secret(properties, expected):
    with pytest.raises(ConfigError, match=expected) as caught:
        ClientConfig.from_properties({"bootstrap.servers": "h:1"} | properties)
    assert "hidden" not in str(caught.value)


def test_secrets_are_not_shown():
    given = {
        "bootstrap.servers": "h:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "scram-sha-512",
        "sasl.jaas.config": JAAS,
        "ssl.key.password": "hidden",
        "ssl.truststore.location": "/a",
        "ssl.truststore.password": "hidden",
        "ssl.keystore.certificate.chain": "-----BEGIN shown",
        "ssl.keystore.key": "-----BEGIN hidden",
        "ssl.endpoint.identification.algorithm": "",
    }
    config = ClientConfig.from_properties(given)
    assert (config.security_protocol, config.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (config.login.username, config.login.password) == ("a", "hidden")
    assert "hidden" not in repr(config)
    assert hash(config) == hash(ClientConfig.from_properties(given))


def test_settings_of_tls_are_those_of_a_broker():
    given = {
        "ssl.protocol": "TLSv1.2",
        "ssl.enabled.protocols": "TLSv1.3, TLSv1.2",
        "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "pkcs12",
        "ssl.truststore.location": "/trust",
        "ssl.truststore.password": "t",
        "ssl.keystore.type": "jks",
        "ssl.keystore.location": "/keys",
        "ssl.keystore.password": "s",
        "ssl.key.password": "k",
    }
    lists = {name: given[name].split(", ") for name in ("ssl.enabled.protocols", "ssl.cipher.suites")}
    theirs = TlsSettings.from_configs((given | lists).get)
    assert ClientConfig.from_properties({"bootstrap.servers": "h:1"} | given).tls_settings == theirs
    assert ClientConfig.from_properties({"bootstrap.servers": "h:1"}).tls_settings == TlsSettings(
        keystore_type=None, truststore_type=None
    )


@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), ("-1", True), ("1", False), ("0", False)])
def test_only_acks_all_is_idempotent(acks, idempotent):
    assert from_properties(ProducerConfig, {"acks": acks}).idempotent is idempotent
