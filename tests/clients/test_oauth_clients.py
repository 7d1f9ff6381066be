"""Clients of all kinds that log in by OAUTHBEARER, over TLS, with tokens of an issuer over HTTPS."""

import os
import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.abc import AbstractTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider
from typer.testing import CliRunner

from certificates import Authority
from issuer import AUDIENCE, NAME, Issuer, IssuerServer
from penstock.cli.main import build_app
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as ClientCluster
from penstock.client.connections.connection import Connection
from penstock.client.errors import AuthenticationFailed
from penstock.protocol.messages import MetadataRequest, MetadataResponse
from penstock.testing import Cluster
from round_trips import by_aiokafka, by_confluent_kafka, by_java, by_kafka_python

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "ann",
    "sasl.oauthbearer.client.credentials.client.secret": "ann-secret",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("oauth") / "authority")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[IssuerServer]:
    issuer = Issuer("RSA")
    issuer.key()
    with IssuerServer(issuer, authority) as server:
        server.clients["node"] = "of-node"
        yield server


@pytest.fixture(scope="module")
def cluster(authority: Authority, server: IssuerServer) -> Iterator[Cluster]:
    trust = f'ssl.truststore.location="{authority.certificate}"'
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": server.url("/jwks"),
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.token.endpoint.url": server.url("/token"),
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": (
            f'{MODULE} required clientId="node" clientSecret="of-node" {trust};'
        ),
    }
    with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
def topic() -> str:
    return f"oauth-{uuid.uuid4().hex}"


def of_librdkafka(cluster: Cluster, authority: Authority) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "OAUTHBEARER",
        "log_level": 0,
    }


def of_kafka(cluster: Cluster, authority: Authority, server: IssuerServer) -> dict[str, str]:
    """The properties of a Java client, with a token by client credentials."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.oauthbearer.token.endpoint.url": server.url("/token"),
        "sasl.jaas.config": (
            f'{MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="{authority.certificate}";'
        ),
        **CREDENTIALS,
    }


def test_librdkafka_with_tokens_of_the_application(
    cluster: Cluster, authority: Authority, server: IssuerServer, topic: str
) -> None:
    asked = []

    def oauth_cb(_config: str) -> tuple[str, float]:
        asked.append(time.time())
        return server.issuer.token("ann", lifetime_s=600), time.time() + 600

    by_confluent_kafka({**of_librdkafka(cluster, authority), "oauth_cb": oauth_cb}, topic)
    assert asked


def test_librdkafka_with_client_credentials(
    cluster: Cluster, authority: Authority, server: IssuerServer, topic: str
) -> None:
    settings = {
        **of_librdkafka(cluster, authority),
        "https.ca.location": str(authority.certificate),
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": server.url("/token"),
        "sasl.oauthbearer.client.id": "ann",
        "sasl.oauthbearer.client.secret": "ann-secret",
        "sasl.oauthbearer.extensions": "traceId=7",
    }
    by_confluent_kafka(settings, topic)


def test_aiokafka(cluster: Cluster, authority: Authority, server: IssuerServer, topic: str) -> None:
    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return server.issuer.token("ann")

        def extensions(self) -> dict[str, str]:
            return {"traceId": "7"}

    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=str(authority.certificate)),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    by_aiokafka(settings, topic)


def test_kafka_python(cluster: Cluster, authority: Authority, server: IssuerServer, topic: str) -> None:
    class Tokens(KafkaPythonTokenProvider):
        def token(self) -> str:
            return server.issuer.token("ann")

    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(authority.certificate),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    by_kafka_python(settings, topic)


def test_our_own_client_logs_in_again_before_its_token_ends(
    cluster: Cluster, authority: Authority, server: IssuerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "lifetime_s", 3)
    config = ClientConfig.from_properties(of_kafka(cluster, authority, server))
    asked = server.count("/token")
    connection = Connection.connect(config.servers[0], config)
    end_s = time.monotonic() + 3.2
    while time.monotonic() < end_s:  # a connection whose session has ended is closed
        assert connection.call(MetadataRequest(), MetadataResponse).brokers
    connection.close()
    assert server.count("/token") >= asked + 2


def test_the_reason_why_a_client_is_not_let_in(
    cluster: Cluster, authority: Authority, server: IssuerServer
) -> None:
    properties = of_kafka(cluster, authority, server)
    wrong = {**properties, "sasl.oauthbearer.client.credentials.client.secret": "wrong"}
    for changed, reason in (
        (wrong, r"cannot log in at .* by OAUTHBEARER: no token: .*/token answers 401: .*invalid_client"),
        ({**properties, "sasl.mechanism": "PLAIN"}, "expected .*username"),
    ):
        with pytest.raises((AuthenticationFailed, ValueError), match=reason):
            ClientCluster(ClientConfig.from_properties(changed)).refresh([])


def test_a_command_ends_with_the_reason(
    cluster: Cluster, authority: Authority, server: IssuerServer, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    properties = of_kafka(cluster, authority, server)
    for secret, claims, reason in (
        ("wrong", {}, "answers 401"),
        ("ann-secret", {"aud": "another"}, '{"status":"invalid_token"}'),
    ):
        properties["sasl.oauthbearer.client.credentials.client.secret"] = secret
        if claims:
            (tmp_path / "token").write_text(server.issuer.token("ann", **claims))
            properties["sasl.oauthbearer.token.endpoint.url"] = (tmp_path / "token").as_uri()
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        words = ["topic", "list", "--command-config", str(file)]
        environment = {"PENSTOCK_BOOTSTRAP": cluster.bootstrap_servers, "COLUMNS": "400"}
        done = CliRunner().invoke(build_app("topic"), words, env=environment)
        assert done.exit_code == 1
        assert reason in done.stderr


@pytest.mark.parametrize("kind", ["client credentials", "a file", "librdkafka's names"])
def test_the_command_line(
    cluster: Cluster, authority: Authority, server: IssuerServer, topic: str, tmp_path: Path, kind: str
) -> None:
    properties = of_kafka(cluster, authority, server)
    if kind == "a file":
        token = tmp_path / "token"
        token.write_text(server.issuer.token("ann"))
        properties = {name: value for name, value in properties.items() if name not in CREDENTIALS}
        properties["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
    elif kind == "librdkafka's names":
        properties = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.certificate),
            "https.ca.location": str(authority.certificate),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": server.url("/token"),
            "sasl.oauthbearer.client.id": "ann",
            "sasl.oauthbearer.client.secret": "ann-secret",
        }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def command(line: str) -> str:
        words = [*line.split(), "--command-config", str(file)]
        environment = {"PENSTOCK_BOOTSTRAP": cluster.bootstrap_servers, "COLUMNS": "400"}
        done = CliRunner().invoke(build_app(words[0]), words, input="of ann\n", env=environment)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    command(f"topic create {topic}")
    command(f"produce {topic}")
    by_librdkafka = command(f"consume {topic} -e --from-beginning --group readers-of-{topic}")
    assert by_librdkafka == "of ann\n"
    if kind != "librdkafka's names":
        assert command(f"consume {topic} -e --from-beginning") == by_librdkafka
        command("topic list")


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_the_java_client(
    kafka_libs: Path,
    cluster: Cluster,
    authority: Authority,
    server: IssuerServer,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    properties = of_kafka(cluster, authority, server)
    del properties["bootstrap.servers"]
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={server.url('/token')}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {allowed}")
    by_java(kafka_libs, cluster.bootstrap_servers, file, topic)
