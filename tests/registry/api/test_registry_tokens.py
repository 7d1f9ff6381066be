"""Bearer tokens at a registry, with our client and Confluent's, through an instance that forwards."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from issuer import AUDIENCE, NAME, Issuer
from penstock.client.settings import ConfigError
from penstock.registry.api.server import RegistryServer
from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.registry import RegistryClient
from penstock.testing import Cluster
from registry_node import properties


def test_tokens_open_the_registry(penstock_cluster: Cluster, tmp_path: Path) -> None:
    issuer = Issuer()
    issuer.key("first")
    (tmp_path / "users").write_text("ann: *, writer:orders-\n")
    (tmp_path / "jwks").write_text(issuer.jwks("first"))
    given = properties(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8]) | {
        "authentication.method": "BEARER",
        "penstock.authentication.users": str(tmp_path / "users"),
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks").as_uri(),
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }

    def theirs(url: str, token: str) -> SchemaRegistryClient:
        return SchemaRegistryClient(
            {
                "url": url,
                "bearer.auth.credentials.source": "STATIC_TOKEN",
                "bearer.auth.token": token,
                "bearer.auth.logical.cluster": "lsrc-1",
                "bearer.auth.identity.pool.id": "pool-1",
                "max.retries": 0,
            }
        )

    servers = [RegistryServer(given, port=0), RegistryServer(given, port=0)]
    try:
        for server in servers:
            server.start()
        for number, server in enumerate(servers):
            client = theirs(server.url, issuer.token("ann"))
            assert client.register_schema(f"orders-{number}", Schema('"long"', "AVRO"))
            with pytest.raises(SchemaRegistryError) as denied:
                client.register_schema("payments", Schema('"long"', "AVRO"))
            assert denied.value.error_code == 40301
            for wrong in (issuer.token("bob"), issuer.token("ann", aud="other"), Issuer().token("ann")):
                with pytest.raises(SchemaRegistryError) as refused:
                    theirs(server.url, wrong).get_subjects()
                assert refused.value.http_status_code == 401
            asked = {"schema.registry.url": server.url, "bearer.auth.token": issuer.token("ann")}
            ours = RegistryClient(RegistryConfig.from_properties(asked))
            assert ours.register("orders-ours", "AVRO", '"int"')
    finally:
        for server in servers:
            server.close()


def test_a_registry_without_keys_does_not_start(penstock_cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann: *, reader\n")
    given = properties(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8]) | {
        "authentication.method": "BEARER",
        "penstock.authentication.users": str(tmp_path / "users"),
        "sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere",
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with pytest.raises(ConfigError, match="there are no keys for tokens"):
        RegistryServer(given, port=0).start()
