"""Commands whose client is not let in: they end at once, with the brokers' reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from certificates import Authority
from penstock.cli.main import build_app
from penstock.testing import Cluster

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("login") / "authority")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    users = 'username="node" password="of-node" user_node="of-node" user_ann="of-ann"'
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN} {users};",
    }
    with Cluster(settings) as cluster:
        yield cluster


def outcome(cluster: Cluster, file: Path, command: str, **properties: str) -> tuple[int, str]:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    words = [*command.split(), "--command-config", str(file)]
    done = CliRunner().invoke(
        build_app(words[0]),
        words,
        input="a\n",
        env={"PENSTOCK_BOOTSTRAP": cluster.bootstrap_servers, "COLUMNS": "400"},
    )
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    "command",
    ["topic create t", "topic list", "produce t", "consume t -e --from-beginning", "acl list", "group list"],
)
def test_the_reason_is_the_brokers(
    cluster: Cluster, authority: Authority, tmp_path: Path, command: str
) -> None:
    trusting = {"security.protocol": "SASL_SSL", "ssl.truststore.location": str(authority.certificate)}
    login = f'{PLAIN} username="ann" password="%s";'
    for properties, code, words in (
        (
            {**trusting, "sasl.mechanism": "PLAIN", "sasl.jaas.config": login % "wrong"},
            *(1, "Authentication failed: Invalid username or password"),
        ),
        (
            {**trusting, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login % "of-ann"},
            *(1, "SCRAM-SHA-256"),
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": login % "of-ann",
            },
            *(1, "certificate"),
        ),
    ):
        found, stderr = outcome(cluster, tmp_path / "client.properties", command, **properties)
        assert found == code, stderr
        assert words in stderr
    right = {**trusting, "sasl.mechanism": "PLAIN", "sasl.jaas.config": login % "of-ann"}
    found, stderr = outcome(cluster, tmp_path / "client.properties", "topic list", **right)
    assert (found, stderr) == (0, "")
