"""TLS and SASL against Apache Kafka: reading without Spark, and the source and sink in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import penstock
from certificates import KEY_PASSWORD, Authority
from kafka_node import KafkaNode, free_port
from penstock.client.errors import AuthenticationFailed, ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(180)]

TOPIC = "secured"
PASSWORD = 'a "quoted", \\ long=one'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Secured(NamedTuple):
    """A node with security; ``servers`` has the address of each listener."""

    servers: dict[str, str]
    authority: Authority


@pytest.fixture(scope="module")
def secured(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory / "authority")
    names = ("SSL", "SASL_SSL", "SASL_PLAINTEXT")
    servers = {name: f"127.0.0.1:{free_port()}" for name in names}
    node = KafkaNode(kafka_libs, directory)
    node.config["listeners"] += "".join(f",{name}://{address}" for name, address in servers.items())
    node.config["listener.security.protocol.map"] += "".join(f",{name}:{name}" for name in names)
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="{quoted}";'
    node.config |= {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    for name in ("sasl_ssl", "sasl_plaintext"):
        node.config[f"listener.name.{name}.plain.sasl.jaas.config"] = login.replace("\\", "\\\\")
        for mechanism in MECHANISMS[1:]:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            node.config[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = module
    with node:
        prepare(node.bootstrap_servers)
        yield Secured(servers, authority)


def prepare(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion("ann", info, PASSWORD.encode())
        admin.alter_user_scram_credentials([change])["ann"].result(30)
    producer = Producer({"bootstrap.servers": servers})
    for n in range(20_000):
        producer.produce(TOPIC, b"%d" % n + bytes(100), partition=n % 2)
    assert producer.flush(30) == 0


def jaas(mechanism: str, password: str = PASSWORD) -> str:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f"org.apache.kafka.common.security.{module}LoginModule required\n"
        f'  username="ann"\n  password="{quoted}";'
    )


def sasl(protocol: str, mechanism: str, authority: Authority, password: str = PASSWORD) -> dict[str, str]:
    properties = {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas(mechanism, password),
    }
    if protocol == "SASL_SSL":
        properties["ssl.truststore.certificates"] = authority.certificate.read_text()
    return properties


def mutual(authority: Authority) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.client.locked),
        "ssl.key.password": KEY_PASSWORD,
    }


def rows_read(servers: str, properties: dict[str, str]) -> int:
    table = penstock.read(TOPIC, servers, columns=["value"], properties=properties).to_table()
    return len({value.rstrip(b"\0") for value in table.column("value").to_pylist()})


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_mechanism(secured: Secured, protocol: str, mechanism: str) -> None:
    properties = sasl(protocol, mechanism, secured.authority)
    assert rows_read(secured.servers[protocol], properties) == 20_000


def test_a_certificate_of_the_client(secured: Secured) -> None:
    properties = mutual(secured.authority)
    assert rows_read(secured.servers["SSL"], properties) == 20_000
    without = {name: value for name, value in properties.items() if ".key" not in name}
    with pytest.raises(ClientError):
        rows_read(secured.servers["SSL"], without)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_at_once_and_not_shown(secured: Secured, mechanism: str) -> None:
    properties = sasl("SASL_SSL", mechanism, secured.authority, "hidden")
    with pytest.raises(AuthenticationFailed, match=rf"'ann' is not authenticated by {mechanism}: ") as caught:
        rows_read(secured.servers["SASL_SSL"], properties)
    assert "hidden" not in str(caught.value)


@pytest.mark.spark
def test_the_source_and_the_sink_in_spark(secured: Secured, spark: SparkSession) -> None:
    source = sasl("SASL_SSL", "SCRAM-SHA-512", secured.authority)
    target = mutual(secured.authority)
    (
        spark.read.format("penstock")
        .options(**{f"kafka.{name}": value for name, value in source.items()})
        .option("kafka.bootstrap.servers", secured.servers["SASL_SSL"])
        .option("subscribe", TOPIC)
        .load()
        .selectExpr("key", "value")
        .write.format("penstock")
        .options(**{f"kafka.{name}": value for name, value in target.items()})
        .option("kafka.bootstrap.servers", secured.servers["SSL"])
        .option("topic", "secured-copy")
        .option("delivery", "exactly-once")
        .mode("append")
        .save()
    )
    columns = {"columns": ["value"], "properties": target}
    assert penstock.read("secured-copy", secured.servers["SSL"], **columns).to_table().num_rows == 20_000
