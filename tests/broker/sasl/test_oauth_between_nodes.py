"""Nodes that log in at each other by OAUTHBEARER, with tokens that last seconds."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from certificates import Authority
from issuer import AUDIENCE, NAME, Issuer, IssuerServer
from penstock.testing import Cluster

TIMEOUT_S = 30
TOKEN_S = 3
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def server(authority: Authority) -> Iterator[IssuerServer]:
    issuer = Issuer()
    issuer.key()
    with IssuerServer(issuer, authority) as server:
        server.clients = {"node": "of-node"}
        server.lifetime_s = TOKEN_S
        yield server


@pytest.fixture
def cluster(authority: Authority, server: IssuerServer) -> Iterator[Cluster]:
    module = (
        f'{MODULE} required clientId="node" clientSecret="of-node" '
        f'ssl.truststore.location="{authority.certificate}";'
    )
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": server.url("/jwks"),
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.token.endpoint.url": server.url("/token"),
        "listener.name.controller.oauthbearer.sasl.jaas.config": module,
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": module,
    }
    with Cluster(settings, nodes=3) as cluster:
        yield cluster


def test_three_nodes_replicate_over_several_tokens(cluster: Cluster, server: IssuerServer) -> None:
    def oauth_cb(_config: str) -> tuple[str, float]:
        return server.issuer.token("ann"), time.time() + 600

    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": oauth_cb,
        "acks": "all",
        "linger.ms": 0,
        "log_level": 0,
    }
    producer = Producer(settings)
    end_s = time.monotonic() + TOKEN_S + 1
    while time.monotonic() < end_s:
        producer.produce("t", b"x")
        assert producer.flush(TIMEOUT_S) == 0
    for node in cluster.nodes:
        assert "session has ended" not in node.log_tail()
    cluster.node(1).kill()
    producer.produce("t", b"after the loss")
    assert producer.flush(TIMEOUT_S) == 0
