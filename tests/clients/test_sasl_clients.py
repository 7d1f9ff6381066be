"""Clients of all kinds that log in by SASL, over TLS, with every mechanism."""

import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from certificates import Authority
from penstock.testing import Cluster
from round_trips import TIMEOUT_S, by_aiokafka, by_confluent_kafka, by_java, by_kafka_python

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = {"PLAIN": "plain.PlainLoginModule"} | dict.fromkeys(MECHANISMS[1:], "scram.ScramLoginModule")
PASSWORD = 'of "ann", 100% =secret='

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS)


def login(mechanism: str, options: str) -> str:
    return f"org.apache.kafka.common.security.{MODULES[mechanism]} required {options};"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("sasl") / "authority")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    """A node where ann has the same password for each mechanism."""
    node, user = 'username="node" password="of-node" user_node="of-node"', f"user_ann={quoted(PASSWORD)}"
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login("PLAIN", f"{node} {user}"),
    }
    with Cluster(settings) as cluster:
        admin = AdminClient(settings_of(cluster, authority, "PLAIN"))
        for number in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            ann = UserScramCredentialUpsertion("ann", ScramCredentialInfo(number, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([ann])["ann"].result(TIMEOUT_S)
        yield cluster


def settings_of(cluster: Cluster, authority: Authority, mechanism: str) -> dict[str, str | int]:
    """The settings of confluent-kafka."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": mechanism,
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
        "log_level": 0,
    }


@pytest.fixture
def topic() -> str:
    return f"sasl-{uuid.uuid4().hex}"


@every_mechanism
def test_confluent_kafka(cluster: Cluster, authority: Authority, topic: str, mechanism: str) -> None:
    by_confluent_kafka(settings_of(cluster, authority, mechanism), topic)


@every_mechanism
def test_aiokafka(cluster: Cluster, authority: Authority, topic: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=str(authority.certificate)),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": PASSWORD,
    }
    by_aiokafka(settings, topic)


@every_mechanism
def test_kafka_python(cluster: Cluster, authority: Authority, topic: str, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(authority.certificate),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": PASSWORD,
    }
    by_kafka_python(settings, topic)


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param("PLAIN", marks=pytest.mark.long),
        pytest.param("SCRAM-SHA-256", marks=pytest.mark.long),
        "SCRAM-SHA-512",
    ],
)
def test_the_java_client(
    kafka_libs: Path, cluster: Cluster, authority: Authority, topic: str, tmp_path: Path, mechanism: str
) -> None:
    settings = tmp_path / "client.properties"
    options = f"username=ann password={quoted(PASSWORD)}".replace("\\", "\\\\")
    settings.write_text(
        "security.protocol=SASL_SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.certificate}\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={login(mechanism, options)}\n"
    )
    by_java(kafka_libs, cluster.bootstrap_servers, settings, topic)
