"""Kafka's properties of clients, as librdkafka takes them."""

import pytest
from confluent_kafka.admin import AdminClient

from certificates import KEY_PASSWORD, Authority
from penstock.cli.client_properties import check_own_names, for_librdkafka


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("properties") / "authority")


def test_stores_become_pem(authority: Authority) -> None:
    translated = for_librdkafka(
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
            "ssl.keystore.location": str(authority.client.locked),
            "ssl.key.password": KEY_PASSWORD,
            "ssl.endpoint.identification.algorithm": "",
            "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
            "client.id": "billing",
        }
    )
    assert translated["ssl.ca.pem"].split() == authority.certificate.read_text().split()
    assert translated["ssl.certificate.pem"].split() == authority.client.chain.read_text().split()
    assert translated["ssl.endpoint.identification.algorithm"] == "none"
    assert translated["ssl.cipher.suites"] == "ECDHE-RSA-AES128-GCM-SHA256"
    assert translated["client.id"] == "billing"
    AdminClient(translated | {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_a_login_becomes_name_and_password() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a;b";'
    translated = for_librdkafka(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    )
    assert (translated["sasl.username"], translated["sasl.password"]) == ("ann", "a;b")
    assert "sasl.jaas.config" not in translated
    AdminClient(translated | {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_names_of_librdkafka_stay_as_they_are(authority: Authority) -> None:
    own = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(authority.client.chain),
        "ssl.key.location": str(authority.client.locked),
        "ssl.key.password": KEY_PASSWORD,
    }
    assert for_librdkafka(own) == own
    with pytest.raises(
        ValueError, match=r"ssl\.ca\.location is librdkafka's name.*ssl\.truststore\.location"
    ):
        check_own_names(own)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"ssl.truststore.location": "/no/such.pem", "security.protocol": "SSL"}, "/no/such.pem"),
        ({"ssl.keystore.type": "JCEKS"}, "ssl.keystore.type"),
        ({"sasl.jaas.config": "password"}, "sasl.jaas.config"),
    ],
)
def test_what_cannot_be_used_is_named(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        for_librdkafka(properties)
