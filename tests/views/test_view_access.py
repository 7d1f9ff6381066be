"""Access to servers of views: over TLS, with passwords and certificates, and among the nodes."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from views_cluster import Runner, counting_app

from certificates import Authority, Identity
from penstock.client.settings import ConfigError
from penstock.security.access.access import Access
from penstock.testing import Cluster
from penstock.views.access import ServerAccess
from penstock.views.forwarding import Forwarder, Unreachable
from penstock.views.http import PATHS, application
from penstock.views.server import ViewServer
from waiting import wait_until

KEYS = [f"k{n:02}" for n in range(20)]
USERS = "rita: r, reader\nnode: n, reader\nviews: *, reader\nclient: *, reader\n"


def application_of(penstock_cluster: Cluster) -> Runner:
    """An application of its own, and so a group of nodes of its own, with one value for each key."""
    name = f"access-{uuid.uuid4().hex[:12]}"
    made = Runner(penstock_cluster.bootstrap_servers, counting_app(name, f"{name}-in"), {f"{name}-in": 4})
    made.create_topics()
    made.process(f"{name}-in", [(key.encode(), "x", 1 + n) for n, key in enumerate(KEYS)])
    return made


@pytest.fixture(scope="module")
def runner(penstock_cluster: Cluster) -> Runner:
    return application_of(penstock_cluster)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("views-access") / "authority")


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("views-access") / "users"
    path.write_text(USERS)
    return str(path)


def by_password(users: str) -> dict[str, str]:
    return {
        "authentication.method": "BASIC",
        "penstock.authentication.users": users,
        "basic.auth.user.info": "node:n",
    }


def by_certificate(users: str, authority: Authority, identity: Identity) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(identity.store),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.authentication": "REQUESTED",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
        "penstock.authentication.users": users,
    }


def two_nodes(runner: Runner, properties: dict[str, str]) -> Iterator[list[ViewServer]]:
    """Two nodes without standbys, so that each has half of the partitions."""
    servers = [
        ViewServer(
            runner.topology,
            bootstrap_servers=runner.servers,
            port=0,
            standbys=0,
            server_properties=properties,
        )
        for _ in range(2)
    ]
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait_until_ready()
        wait_until(lambda: all(len(server.node.routes.members) == 2 for server in servers))
        wait_until(
            lambda: all(len({kept.tp.partition for _, kept in server.node.held()}) == 2 for server in servers)
        )
        yield servers
    finally:
        for server in servers:
            server.close()


@pytest.fixture(scope="module")
def with_passwords(runner: Runner, users: str) -> Iterator[list[ViewServer]]:
    yield from two_nodes(runner, by_password(users))


def test_readers_get_every_key_from_every_node(with_passwords: list[ViewServer]) -> None:
    for server in with_passwords:
        with httpx.Client(base_url=server.endpoint, auth=("rita", "r"), timeout=60) as client:
            for key in KEYS:
                assert client.get(f"/stores/counts/keys/{key}").json()["value"] == 1
            assert len(client.get("/stores/counts/entries").json()["entries"]) == len(KEYS)


@pytest.mark.parametrize("path", ["/", "/other", "/stores/counts/keys/k01", *PATHS])
def test_strangers_are_refused_at_all_paths_but_the_probe(
    with_passwords: list[ViewServer], path: str
) -> None:
    url = with_passwords[0].endpoint + path.partition("{")[0]
    for auth in (None, ("rita", "wrong"), ("views", "*"), ("views", "")):
        for headers in ({}, {"penstock-forwarded": "http://127.0.0.1:1"}):
            found = httpx.get(url, auth=auth, headers=headers)
            if path == "/health/ready":
                assert (found.status_code, found.json()) == (200, {"status": "ready"})
            else:
                assert (found.status_code, found.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
                assert found.headers["www-authenticate"] == 'Basic realm="views"'
    ready = httpx.get(f"{with_passwords[0].endpoint}/health/ready", auth=("rita", "r")).json()
    assert len(ready["members"]) == 2


def test_every_path_needs_a_role(with_passwords: list[ViewServer]) -> None:
    routes = application(with_passwords[0].node, access=Access()).routes
    assert {getattr(route, "path", None) for route in routes} == PATHS.keys()


def get(url: str, authority: Authority, identity: Identity | None) -> tuple[int, Any]:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if identity is not None:
        context.load_cert_chain(identity.chain, identity.key)
    try:
        with urllib.request.urlopen(url, timeout=60, context=context) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def test_nodes_ask_each_other_over_tls_with_their_certificates(
    penstock_cluster: Cluster, users: str, authority: Authority
) -> None:
    identity = authority.issue("views", "127.0.0.1", "localhost")
    runner = application_of(penstock_cluster)
    for servers in two_nodes(runner, by_certificate(users, authority, identity)):
        for server in servers:
            assert server.endpoint.startswith("https://")
            for key in KEYS:
                path = f"{server.endpoint}/stores/counts/keys/{key}"
                assert get(path, authority, authority.client)[1]["value"] == 1
            assert get(f"{server.endpoint}/stores", authority, None)[0] == 401
            assert get(f"{server.endpoint}/stores", authority, authority.elsewhere)[0] == 401


def test_a_node_with_tls_shows_no_credentials_to_others(authority: Authority) -> None:
    """A member of the group that names an endpoint without TLS would see passwords."""
    context = ssl.create_default_context(cafile=str(authority.certificate))

    async def story() -> None:
        forwarder = Forwarder(context, [("authorization", "Basic c2VjcmV0")])
        with pytest.raises(Unreachable, match="expected https, as this node has it"):
            await forwarder.get("http://127.0.0.1:1", "/health", [], 5)
        with pytest.raises(Unreachable, match="expected http, as this node has it"):
            await Forwarder().get("https://127.0.0.1:1", "/health", [], 5)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"basic.auth.user.info": None}, "the other nodes would not answer this one: expected"),
        ({"basic.auth.user.info": "node:wrong"}, "the other nodes would not answer this one"),
        ({"basic.auth.user.info": "node"}, "expected user:password"),
        ({"authentication.method": None}, "go together"),
        ({"ssl.client.authentication": "REQUIRED", "authentication.method": None}, "needs HTTPS"),
        ({"penstock.authentication.users": "/nowhere"}, "can't be read"),
    ],
)
def test_properties_with_which_nodes_would_not_answer_are_told(
    users: str, changes: dict[str, str | None], told: str
) -> None:
    properties = {name: value for name, value in {**by_password(users), **changes}.items() if value}
    with pytest.raises(ConfigError, match=told):
        ServerAccess.from_properties(properties)


def test_a_certificate_that_the_users_do_not_name_is_told(users: str, authority: Authority) -> None:
    with pytest.raises(ConfigError, match="the node's own certificate in the file of users"):
        ServerAccess.from_properties(by_certificate(users, authority, authority.server))


def test_an_advertised_url_has_the_scheme_of_the_server(runner: Runner) -> None:
    with pytest.raises(ConfigError, match="expected http://host:port"):
        ViewServer(runner.topology, bootstrap_servers=runner.servers, port=0, advertised="https://example:1")


def test_a_server_that_others_reach_is_named_at_the_start(
    runner: Runner, users: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for host, properties in (("127.0.0.1", {}), ("0.0.0.0", by_password(users)), ("0.0.0.0", {})):
        server = ViewServer(
            runner.topology,
            bootstrap_servers=runner.servers,
            host=host,
            port=0,
            advertised="http://localhost:1",
            server_properties=properties,
        )
        port = server._server._listening.getsockname()[1]
        server._server.give_up()
    lines = [each.getMessage() for each in caplog.records if "not authenticated" in each.message]
    assert lines == [f"clients are not authenticated listeners=http://0.0.0.0:{port} remedy=docs/security.md"]
