"""`penstock start --registry` at a node that authenticates its clients, with --registry-config."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from typer.testing import CliRunner

from penstock.cli.main import build_app
from penstock.processes.children import start_command

SECURED = """
process.roles=broker,controller
node.id=1
listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
  required username="broker" password="b" user_broker="b" user_registry="r";
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
confluent.basic.auth.user.info=node:n
"""
REGISTRY = """
kafkastore.security.protocol=SASL_PLAINTEXT
kafkastore.sasl.mechanism=PLAIN
kafkastore.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="registry" password="{password}";
authentication.method=BASIC
penstock.authentication.users={users}
listeners=http://127.0.0.1:0
"""


def started(directory: Path, password: str) -> subprocess.Popen[bytes]:
    (directory / "server.properties").write_text(f"{SECURED}log.dirs={directory / 'data'}\n")
    (directory / "users").write_text("ann: secret, writer:orders-\nnode: n, reader\n")
    text = REGISTRY.format(password=password, users=directory / "users")
    (directory / "registry.properties").write_text(text)
    config, registry = (str(directory / f"{name}.properties") for name in ("server", "registry"))
    words = ["start", "--config", config, "--registry", "--registry-config", registry]
    return start_command(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def produced(servers: str, value: bytes) -> KafkaError | None:
    """Produce a record to a topic that checks its values; return the broker's error."""
    login = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "registry",
        "sasl.password": "r",
    }
    checks = {"confluent.value.schema.validation": "true"}
    admin = AdminClient(login)
    (made,) = admin.create_topics([NewTopic("orders", 1, 1, config=checks)]).values()
    try:
        made.result(60)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    errors: list[KafkaError | None] = []
    producer = Producer({**login, "message.timeout.ms": 30_000})
    producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors[0]


def test_the_registry_logs_in_at_the_node(tmp_path: Path) -> None:
    process = started(tmp_path, "r")
    try:
        assert process.stdout is not None
        ready, url = (process.stdout.readline().decode().split()[-1] for _ in range(2))
        client = SchemaRegistryClient({"url": url, "basic.auth.user.info": "ann:secret"})
        assert client.register_schema("orders-value", Schema('"string"', "AVRO")) == 1
        with pytest.raises(SchemaRegistryError, match="User is denied operation Write"):
            client.register_schema("payments-value", Schema('"string"', "AVRO"))
        assert produced(ready, b"\0\0\0\0\1" + b"\2a") is None
        refused = produced(ready, b"\0\0\0\0\2")
        assert refused is not None
        assert refused.code() == KafkaError.INVALID_RECORD
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_wrong_credentials_end_the_node_with_the_reason(tmp_path: Path) -> None:
    process = started(tmp_path, "wrong")
    assert process.stderr is not None
    told = process.stderr.read()  # to the end of the process, which `communicate` would end itself
    assert process.wait(60) == 1
    assert b"--registry: " in told
    assert b"'registry' is not authenticated by PLAIN" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--registry-config", "f"], "expected --registry with it"),
        (["--registry", "--registry-config", "/nowhere"], "--registry-config /nowhere: No such file"),
        (["--registry-config", "f", "--brokers", "2"], "expected --registry with it"),
        (["--registry", "--registry-config", "/nowhere", "--brokers", "2"], "/nowhere: No such file"),
    ],
)
def test_options_that_contradict_each_other_are_told(tmp_path: Path, words: list[str], told: str) -> None:
    done = CliRunner().invoke(build_app("start"), ["start", "--data-dir", str(tmp_path / "data"), *words])
    assert done.exit_code == 2
    assert told in done.output
