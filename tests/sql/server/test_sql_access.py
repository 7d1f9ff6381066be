"""Access to a SQL server: over TLS, by name and password, and from pages of other origins."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from in_process_host import InProcessHost
from shell_terminal import run_shell
from sql_service import Service, served

from certificates import Authority
from penstock.client.settings import ConfigError
from penstock.sql.engine import Engine, EngineConfig
from penstock.sql.server.server import SqlServer
from penstock.testing import Cluster
from penstock.web.tls import server_context

USERS = "# who may ask\nann: secret:with:colons,admin,reader\nbert : pässword\n"


@pytest.fixture(scope="module")
def guarded(penstock_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("access") / "users"
    path.write_text(USERS)
    properties = {
        "authentication.method": "BASIC",
        "authentication.realm": "KsqlServer-Props",
        "authentication.roles": "admin",
        "authentication.skip.paths": "/v1/metadata*,/healthcheck",
        "penstock.authentication.users": str(path),
        "access.control.allow.origin": "https://*.example.com,http://localhost:3000",
    }
    with served(penstock_cluster.bootstrap_servers, **properties) as found:
        yield found


def ask(service: Service, path: str = "/info", **options: object) -> httpx.Response:
    return httpx.get(f"{service.url}{path}", **options)  # type: ignore[arg-type]


def test_who_names_no_user_is_asked_for_one(guarded: Service) -> None:
    answer = ask(guarded)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="KsqlServer-Props"'
    assert (answer.json()["@type"], answer.json()["error_code"]) == ("generic_error", 40100)
    for auth in (("ann", "wrong"), ("nobody", ""), ("nobody", "secret:with:colons"), ("", "")):
        assert ask(guarded, auth=auth).status_code == 401
    for header in ("Basic", "Basic !", "Basic /w==", "Bearer x", "Basic bm9jb2xvbg=="):
        assert ask(guarded, headers={"authorization": header}).status_code == 401


def test_who_names_a_user_with_a_role_may_ask(guarded: Service) -> None:
    assert ask(guarded, auth=("ann", "secret:with:colons")).status_code == 200
    assert ask(guarded, auth=("bert", "pässword")).status_code == 401


def test_the_shell_names_a_user(guarded: Service, tmp_path: Path) -> None:
    done = run_shell(
        guarded.url, tmp_path, "--user", "ann", "--password", "secret:with:colons", "-e", "SHOW STREAMS;"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    refused = run_shell(guarded.url, tmp_path, "-e", "SHOW STREAMS;")
    assert refused.exit_code == 1
    assert "expected the name and the password of a user" in refused.stderr


def test_some_paths_are_for_everybody(guarded: Service) -> None:
    for path in ("/chc/live", "/chc/ready", "/v1/metadata", "/v1/metadata/id", "/healthcheck"):
        assert ask(guarded, path).status_code == 200, path


def test_pages_of_some_origins_may_ask(guarded: Service) -> None:
    wanted = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
    told = httpx.options(f"{guarded.url}/ksql", headers=wanted)
    assert told.status_code == 200
    assert told.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "POST" in told.headers["access-control-allow-methods"]
    refused = ask(guarded, headers={"origin": "http://localhost:3000"})
    assert refused.headers["access-control-allow-origin"] == "http://localhost:3000"
    for origin in ("https://example.org", "https://app.example.com.evil.org", "http://localhost:30001"):
        answer = ask(guarded, "/healthcheck", headers={"origin": origin})
        assert "access-control-allow-origin" not in answer.headers


def test_without_the_property_no_other_origin_may_read(service: Service) -> None:
    assert "access-control-allow-origin" not in ask(service, headers={"origin": "https://a.org"}).headers


def test_basic_authentication_needs_its_users(penstock_cluster: Cluster) -> None:
    config = EngineConfig(penstock_cluster.bootstrap_servers, properties={"authentication.method": "BASIC"})
    engine = Engine(config, InProcessHost(penstock_cluster.bootstrap_servers))
    with pytest.raises(ConfigError, match=r"penstock\.authentication\.users"):
        SqlServer(engine, port=0)
    engine.close()


@pytest.mark.parametrize("http2", [False, True])
def test_tls_speaks_what_the_client_chooses(penstock_cluster: Cluster, tmp_path: Path, http2: bool) -> None:
    authority = Authority(tmp_path / "authority")
    identity = authority.server
    servers = penstock_cluster.bootstrap_servers
    config = EngineConfig(servers, f"{tmp_path.name}_")
    server = SqlServer(
        Engine(config, InProcessHost(servers)), port=0, certificate=identity.chain, key=identity.key
    )
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=str(authority.certificate))
        with httpx.Client(http2=http2, verify=trusted, timeout=30) as client:
            found = client.get(f"{server.url}/info")
            assert found.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            assert found.json()["KsqlServerInfo"]["ksqlServiceId"] == config.service_id
            listed = client.post(f"{server.url}/ksql", json={"ksql": "SHOW STREAMS;"})
            assert listed.json()[0]["streams"] == []
    finally:
        server.close()


def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    assert server_context(authority.server.store)
    for certificate, key in (
        (tmp_path / "missing", None),
        (authority.server.chain, authority.client.key),
        (authority.server.locked, None),
    ):
        with pytest.raises(ValueError, match=r"certificate and its key|without a password"):
            server_context(certificate, key)
