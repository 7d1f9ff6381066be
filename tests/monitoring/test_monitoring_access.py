"""Access to metrics: over TLS, with passwords and certificates; probes are open to everybody."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from certificates import Authority, Identity
from in_process import run, running_node
from issuer import AUDIENCE, NAME, Issuer
from penstock.broker.node import CannotStart
from penstock.monitoring.process import registry_of
from penstock.monitoring.server import MonitoringServer
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.settings import AccessSettings

USERS = "rita: r, reader\nadam: a, admin\nclient: *, reader\n"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def users(tmp_path: Path) -> str:
    (tmp_path / "users").write_text(USERS)
    return str(tmp_path / "users")


@contextmanager
def served(properties: dict[str, str], host: str = "127.0.0.1") -> Iterator[MonitoringServer]:
    settings = AccessSettings.from_configs(properties.get)
    server = MonitoringServer(registry_of(), host, 0, {"/readyz": lambda: None}, settings)
    try:
        yield server
    finally:
        server.close()


def get(url: str, user: str | None = None, context: ssl.SSLContext | None = None) -> int:
    """The status of an answer; a user is `name:password`."""
    headers = {} if user is None else {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=60, context=context
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def test_passwords_open_the_metrics(users: str) -> None:
    properties = {"authentication.method": "BASIC", "penstock.authentication.users": users}
    with served(properties) as server:
        url = f"http://127.0.0.1:{server.port}"
        for user in ("rita:r", "adam:a"):
            assert get(f"{url}/metrics", user) == 200
        for wrong in (None, "rita:a", "client:*", "client:", "nobody:r"):
            for path in ("/metrics", "/other", "/metrics/", "//metrics", "/readyz/../metrics"):
                assert get(url + path, wrong) == 401, path
        assert get(f"{url}/readyz") == 200


def test_two_headers_are_refused(users: str) -> None:
    properties = {"authentication.method": "BASIC", "penstock.authentication.users": users}
    right = base64.b64encode(b"rita:r").decode()
    with served(properties) as server, socket.create_connection(("127.0.0.1", server.port), 60) as sock:
        line = f"Authorization: Basic {right}\r\n"
        sock.sendall(f"GET /metrics HTTP/1.0\r\n{line}{line}\r\n".encode())
        assert b" 401 " in sock.makefile("rb").readline()


def trusting(authority: Authority, identity: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if identity is not None:
        context.load_cert_chain(identity.chain, identity.key)
    return context


def test_certificates_open_the_metrics(users: str, authority: Authority) -> None:
    properties = {
        "ssl.keystore.location": str(authority.server.store),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.authentication": "REQUESTED",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
        "penstock.authentication.users": users,
    }
    with served(properties) as server:
        url = f"https://127.0.0.1:{server.port}"
        # A client that begins no handshake delays no other one.
        with socket.create_connection(("127.0.0.1", server.port), 60):
            assert get(f"{url}/metrics", context=trusting(authority, authority.client)) == 200
        other = authority.issue("other", "other")
        assert get(f"{url}/metrics", context=trusting(authority, other)) == 401
        assert get(f"{url}/metrics", context=trusting(authority)) == 401
        assert get(f"{url}/readyz", context=trusting(authority)) == 200
        with pytest.raises(OSError, match=r"reset|closed|EOF|Remote end"):
            get(f"http://127.0.0.1:{server.port}/readyz")


def test_open_metrics_that_others_reach_are_named(users: str, caplog: pytest.LogCaptureFixture) -> None:
    guarded = {"authentication.method": "BASIC", "penstock.authentication.users": users}
    for host, properties in (("127.0.0.1", {}), ("0.0.0.0", guarded), ("0.0.0.0", {})):
        with served(properties, host) as server:
            port = server.port
    (line,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert line == f"clients are not authenticated listeners=http://0.0.0.0:{port} remedy=docs/security.md"


def test_a_node_serves_metrics_to_readers_only(tmp_path: Path, users: str, authority: Authority) -> None:
    settings = {
        "penstock.metrics.port": "0",
        "penstock.metrics.authentication.method": "BASIC",
        "penstock.metrics.authentication.users": users,
        "penstock.metrics.ssl.keystore.location": str(authority.server.store),
    }

    async def story() -> None:
        async with running_node(tmp_path / "node", **settings) as broker:
            assert broker.monitoring is not None
            url = f"https://127.0.0.1:{broker.monitoring.port}"
            assert await broker.run_in_worker(get, f"{url}/metrics", "rita:r", trusting(authority)) == 200
            assert await broker.run_in_worker(get, f"{url}/metrics", None, trusting(authority)) == 401
            with pytest.raises(urllib.error.HTTPError) as refused:
                await broker.run_in_worker(
                    partial(urllib.request.urlopen, f"{url}/metrics", context=trusting(authority))
                )
            assert refused.value.headers["WWW-Authenticate"] == 'Basic realm="penstock"'
            assert await broker.run_in_worker(get, f"{url}/healthz", None, trusting(authority)) == 200

    run(story())


def test_a_node_takes_tokens_by_its_own_settings(tmp_path: Path, users: str) -> None:
    issuer = Issuer()
    issuer.key("first")
    (tmp_path / "jwks").write_text(issuer.jwks("first"))
    settings = {
        "penstock.metrics.port": "0",
        "penstock.metrics.authentication.method": "BASIC,BEARER",
        "penstock.metrics.authentication.users": users,
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks").as_uri(),
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }

    async def story() -> None:
        async with running_node(tmp_path / "node", **settings) as broker:
            assert broker.monitoring is not None
            url = f"http://127.0.0.1:{broker.monitoring.port}/metrics"
            for principal, status in (("client", 200), ("rita", 401)):
                headers = {"authorization": f"Bearer {issuer.token(principal)}"}
                found = await broker.run_in_worker(partial(httpx.get, url, headers=headers))
                assert found.status_code == status
            assert found.headers.get_list("www-authenticate") == [
                'Basic realm="penstock"',
                'Bearer realm="penstock"',
            ]

    run(story())


def test_a_node_does_not_start_without_the_users(tmp_path: Path) -> None:
    settings = {"penstock.metrics.port": "0", "penstock.metrics.authentication.method": "BASIC"}

    async def story() -> None:
        async with running_node(tmp_path / "node", **settings):
            pass

    with pytest.raises(CannotStart, match=r"penstock\.metrics\.….*go together"):
        run(story())


def test_roles_with_prefixes_have_no_meaning(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("a: b, reader:x-")
    settings = AccessSettings.from_configs(
        {"authentication.method": "BASIC", "penstock.authentication.users": str(tmp_path / "users")}.get
    )
    with pytest.raises(InvalidAccess, match="expected roles without a prefix"):
        MonitoringServer(registry_of(), "127.0.0.1", 0, {}, settings)
