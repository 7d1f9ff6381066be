"""TLS and basic authentication of a registry's own listener, with our client and Confluent's."""

import urllib.error
import urllib.request
import uuid

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from typer.testing import CliRunner

from certificates import Authority
from penstock.cli import schema
from penstock.client.settings import ConfigError
from penstock.registry.api.listener import ListenerConfig
from penstock.registry.api.server import RegistryServer
from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.registry import RegistryClient
from penstock.testing import Cluster
from registry_node import properties

USERS = """
alice: her:password, sr-user
bob: MD5:5f4dcc3b5aa765d61d8327deb882cf99, other, admin
carol: hers, guest
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("registry-tls") / "authority")


@pytest.fixture
def secured(penstock_cluster: Cluster, authority, tmp_path):
    """Two instances that accept only clients with a certificate and a password."""
    users = tmp_path / "users"
    users.write_text(USERS)
    given = properties(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8]) | {
        "listeners": "https://127.0.0.1:0",
        "inter.instance.protocol": "https",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.truststore.type": "PEM",
        "ssl.client.authentication": "REQUIRED",
        "authentication.method": "BASIC",
        "authentication.roles": "sr-user,admin",
        "penstock.authentication.users": str(users),
    }
    servers = [RegistryServer(given), RegistryServer(given)]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.close()


def client(url, authority, **more):
    given = {
        "schema.registry.url": url,
        "schema.registry.ssl.truststore.location": str(authority.certificate),
        "schema.registry.ssl.keystore.location": str(authority.client.store),
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "alice:her:password",
        "max.retries": "0",
    }
    given |= {name.replace("__", ".").replace("_", "."): value for name, value in more.items()}
    return RegistryClient(RegistryConfig.from_properties({k: v for k, v in given.items() if v}))


def test_schemas_are_registered_over_tls_by_users_and_forwarded_to_the_leader(secured, authority):
    """Both instances are used; one of them leads."""
    urls = [server.url for server in secured]
    assert all(url.startswith("https://127.0.0.1:") for url in urls)
    numbers = [client(url, authority).register("s", "AVRO", '"string"') for url in urls]
    assert numbers[0] == numbers[1]
    theirs = SchemaRegistryClient(
        {
            "url": urls[1],
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(authority.client.chain),
            "ssl.key.location": str(authority.client.key),
            "basic.auth.user.info": "bob:password",
        }
    )
    assert theirs.register_schema("t", Schema('"long"', "AVRO")) > numbers[0]
    assert theirs.get_subjects() == ["s", "t"]


def test_commands_take_a_file_with_the_properties_of_clients(secured, authority, tmp_path):
    file = tmp_path / "registry.properties"
    file.write_text(
        f"schema.registry.url={secured[0].url}\nbasic.auth.user.info=bob:password\n"
        f"schema.registry.ssl.truststore.location={authority.certificate}\n"
        f"schema.registry.ssl.keystore.location={authority.client.store}\n"
    )
    schema_file = tmp_path / "order.avsc"
    schema_file.write_text('"long"')
    done = CliRunner().invoke(
        schema.app, ["register", "orders-value", str(schema_file), "--registry", str(file)]
    )
    assert "orders-value version 1 has id 1" in done.output, done.output
    file.write_text(file.read_text().replace("bob:password", "bob:wrong"))
    done = CliRunner().invoke(schema.app, ["list", "--registry", str(file)])
    assert (done.exit_code, "Unauthorized (401)" in done.output) == (1, True), done.output


@pytest.mark.parametrize("user", ["alice:wrong", "carol:hers", "nobody:", "alice:"])
def test_who_has_no_password_or_role_is_refused(secured, authority, user):
    with pytest.raises(RegistryRefused, match=r"answered 401 \(error code 401\): Unauthorized"):
        client(secured[0].url, authority, basic_auth_user_info=user).versions("s")
    token = {"bearer_auth_token": "t", "basic_auth_user_info": "", "basic_auth_credentials_source": ""}
    with pytest.raises(RegistryRefused, match="answered 401"):
        client(secured[0].url, authority, **token).versions("s")


def test_who_is_not_trusted_is_refused(secured, authority):
    url = secured[0].url
    with pytest.raises(RegistryUnreachable, match="certificate verify failed"):
        client(url, authority, schema_registry_ssl_truststore_location="").versions("s")
    with pytest.raises(RegistryUnreachable, match=r"(?i)certificate required|reset|broken pipe|closed"):
        client(url, authority, schema_registry_ssl_keystore_location="").versions("s")
    with pytest.raises(OSError, match="closed connection without response"):
        urllib.request.urlopen(url.replace("https", "http"), timeout=60)


def test_a_challenge_names_the_realm(penstock_cluster, tmp_path):
    users = tmp_path / "users"
    users.write_text("a: b")
    given = properties(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8])
    given |= {"authentication.method": "BASIC", "penstock.authentication.users": str(users)}
    server = RegistryServer({**given, "authentication.realm": "SchemaRegistry-Props"}, port=0)
    server.start()
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.url}/subjects", timeout=60)
        assert refused.value.headers["WWW-Authenticate"] == 'Basic realm="SchemaRegistry-Props"'
        assert b'"error_code":401' in refused.value.read()
        assert RegistryClient(
            RegistryConfig.from_properties({"schema.registry.url": server.url.replace("//", "//a:b@")})
        ).register("s", "AVRO", '"int"')
    finally:
        server.close()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"listeners": "https://127.0.0.1:8081"}, "'listeners' has https: HTTPS needs a key: expected"),
        ({"listeners": "127.0.0.1:8081"}, "expected one http://HOST:PORT or https://HOST:PORT"),
        ({"listeners": "http://a:1,https://a:2"}, "expected one http://HOST:PORT"),
        ({"inter.instance.protocol": "https"}, "is https, and 'listeners' has only http"),
        ({"authentication.method": "BASIC"}, "'penstock.authentication.users' go together"),
        (
            {"authentication.method": "BEARER"},
            r"is BEARER: sasl\.oauthbearer\.jwks\.endpoint\.url: it is not",
        ),
        ({"authentication.method": "DIGEST"}, "expected one of none, basic, bearer"),
        ({"penstock.authentication.users": "/nowhere"}, "go together"),
        (
            {"authentication.method": "BASIC", "penstock.authentication.users": "/nowhere"},
            "'/nowhere' can't be read",
        ),
        ({"ssl.keystore.type": "BKS"}, "expected one of PEM, PKCS12, JKS"),
        (
            {"penstock.authentication.users": "/nowhere", "ssl.client.authentication": "REQUIRED"},
            "'ssl.client.authentication' needs HTTPS",
        ),
    ],
)
def test_properties_that_cannot_be_are_told(given, told):
    def made():
        config = ListenerConfig.from_properties(given)
        return config.access(), config.tls_context()

    with pytest.raises(ConfigError, match=told):
        made()


def test_clients_certificates_need_somebody_to_trust(authority):
    given = {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": str(authority.server.store),
        "ssl.client.authentication": "REQUIRED",
    }
    with pytest.raises(ConfigError, match=r"is REQUIRED: expected 'ssl\.truststore\.location'"):
        ListenerConfig.from_properties(given).tls_context()
