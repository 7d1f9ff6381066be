"""Roles at a SQL server: what readers, writers and admins may execute, and clients with certificates."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from in_process_host import InProcessHost
from shell_terminal import run_shell
from sql_service import Service, served, unique

from certificates import Authority, Identity
from issuer import AUDIENCE, NAME, Issuer
from penstock.client.settings import ConfigError
from penstock.security.access.access import Access
from penstock.security.access.roles import Role
from penstock.sql.engine import Engine, EngineConfig
from penstock.sql.language import statements
from penstock.sql.server.application import application
from penstock.sql.server.roles import PATHS, STATEMENTS
from penstock.sql.server.server import SqlServer
from penstock.sql.server.streaming import Streams
from penstock.testing import Cluster

USERS = "rita: r, reader\nwanda: w, writer\nadam: a, admin\nclient: *, reader\n"
ROLES = {"rita": Role.READER, "wanda": Role.WRITER, "adam": Role.ADMIN}
OPEN = {"/chc/live", "/chc/ready"}


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("roles") / "users"
    path.write_text(USERS)
    return path


@pytest.fixture(scope="module")
def guarded(penstock_cluster: Cluster, users: Path) -> Iterator[Service]:
    properties = {"authentication.method": "BASIC", "penstock.authentication.users": str(users)}
    with served(penstock_cluster.bootstrap_servers, **properties) as found:
        yield found


def ask(service: Service, user: str, path: str, body: Any = None) -> httpx.Response:
    auth = (user, user[0])
    if body is None:
        return httpx.get(f"{service.url}{path}", auth=auth)
    return httpx.post(f"{service.url}{path}", json=body, auth=auth, timeout=60)


def execute(service: Service, user: str, text: str) -> httpx.Response:
    return ask(service, user, "/ksql", {"ksql": text})


def test_every_path_and_every_statement_needs_a_role(penstock_cluster: Cluster) -> None:
    kinds = {each for each in vars(statements).values() if isinstance(each, type)}
    kinds = {each for each in kinds if issubclass(each, statements.Statement)} - {statements.Statement}
    assert kinds == STATEMENTS.keys()
    config = EngineConfig(penstock_cluster.bootstrap_servers)
    engine = Engine(config, InProcessHost(penstock_cluster.bootstrap_servers))
    routes = application(engine, Streams(1), Access()).routes
    engine.close()
    assert {getattr(route, "path", None) for route in routes} == PATHS.keys()


@pytest.mark.parametrize("path", sorted(PATHS))
def test_strangers_are_refused_at_all_paths_but_the_probes(guarded: Service, path: str) -> None:
    for method in ("GET", "POST", "HEAD", "OPTIONS"):
        answer = httpx.request(method, f"{guarded.url}{path.partition('{')[0]}")
        assert (answer.status_code == 401) == (path not in OPEN), method


@pytest.mark.parametrize("path", sorted(path for path, needs in PATHS.items() if needs > Role.READER))
def test_paths_refuse_lesser_roles(guarded: Service, path: str) -> None:
    for user, role in ROLES.items():
        if role < PATHS[path]:
            answer = ask(guarded, user, path, {})
            assert (answer.status_code, answer.json()["error_code"]) == (403, 40300)
            assert f"User:{user} may not do this: expected the role" in answer.json()["message"]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("SHOW STREAMS;", Role.READER),
        ("SHOW PROPERTIES;", Role.READER),
        ("DESCRIBE {name};", Role.READER),
        ("EXPLAIN SELECT * FROM {name} EMIT CHANGES;", Role.READER),
        ("INSERT INTO {name} (id, name) VALUES (1, 'a');", Role.WRITER),
        ("CREATE TYPE {type} AS STRUCT<a INT>;", Role.WRITER),
        ("DROP TYPE IF EXISTS {type};", Role.WRITER),
        ("DROP STREAM IF EXISTS missing;", Role.WRITER),
        ("PAUSE ALL;", Role.WRITER),
        ("TERMINATE ALL;", Role.WRITER),
        ("ALTER SYSTEM 'ksql.query.pull.table.scan.enabled'='true';", Role.ADMIN),
        ("CREATE FUNCTION f(x INT) RETURNS INT AS 'a.py:b';", Role.ADMIN),
        ("DROP FUNCTION IF EXISTS f;", Role.ADMIN),
    ],
)
def test_statements_refuse_lesser_roles(guarded: Service, text: str, needs: Role) -> None:
    name = unique("S")
    made = execute(
        guarded,
        "wanda",
        f"CREATE STREAM {name} (id INT KEY, name STRING) WITH (kafka_topic='{name}', partitions=1, "
        "format='json');",
    )
    assert made.status_code == 200, made.text
    statement = text.format(name=name, type=unique("T"))
    for user, role in ROLES.items():
        answer = execute(guarded, user, statement)
        refused = answer.status_code == 403 and answer.json()["error_code"] == 40300
        assert refused == (role < needs), (user, answer.text)


def test_no_statement_of_a_request_runs_if_one_is_not_permitted(guarded: Service) -> None:
    type_name = unique("T")
    text = f"CREATE TYPE {type_name} AS STRUCT<a INT>; ALTER SYSTEM 'auto.offset.reset'='latest';"
    answer = execute(guarded, "wanda", text)
    assert answer.status_code == 403
    assert answer.json()["statementText"] == "ALTER SYSTEM 'auto.offset.reset'='latest';"
    assert type_name not in execute(guarded, "wanda", "SHOW TYPES;").text


def test_readers_query_and_do_not_insert(guarded: Service) -> None:
    name = unique("S")
    create = f"CREATE STREAM {name} (id INT KEY, name STRING) WITH (kafka_topic='{name}', partitions=1,"
    assert execute(guarded, "wanda", f"{create} format='json');").status_code == 200
    assert execute(guarded, "wanda", f"INSERT INTO {name} (id, name) VALUES (1, 'a');").status_code == 200
    asked = {"sql": f"SELECT * FROM {name};", "properties": {"auto.offset.reset": "earliest"}}
    found = ask(guarded, "rita", "/query-stream", asked)
    assert found.status_code == 200
    assert found.text.splitlines()[1:] == ['[1,"a"]']
    hidden = {"sql": f"INSERT INTO {name} (id, name) VALUES (1, 'a');"}
    assert ask(guarded, "rita", "/query-stream", hidden).status_code == 400


def test_readers_close_their_own_queries_alone(guarded: Service) -> None:
    name = unique("S")
    create = f"CREATE STREAM {name} (id INT KEY, name STRING) WITH (kafka_topic='{name}', partitions=1,"
    assert execute(guarded, "wanda", f"{create} format='json');").status_code == 200
    asked = {"sql": f"SELECT * FROM {name} EMIT CHANGES;"}
    for user, closing in (("rita", "rita"), ("wanda", "adam")):
        with httpx.stream(
            "POST", f"{guarded.url}/query-stream", json=asked, auth=(user, user[0]), timeout=60
        ) as rows:
            lines = rows.iter_lines()  # the query ends with it
            query_id = json.loads(next(lines))["queryId"]
            if user == "wanda":
                refused = ask(guarded, "rita", "/close-query", {"queryId": query_id})
                assert (refused.status_code, refused.json()["error_code"]) == (403, 40300)
            assert ask(guarded, closing, "/close-query", {"queryId": query_id}).status_code == 200


@pytest.mark.parametrize("by_option", [False, True])
def test_certificates_identify_clients(
    penstock_cluster: Cluster, users: Path, tmp_path: Path, by_option: bool
) -> None:
    """The server's own certificate comes from the properties or from the option."""
    authority = Authority(tmp_path / "authority")
    servers = penstock_cluster.bootstrap_servers
    properties = {
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.authentication": "REQUIRED",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
        "penstock.authentication.users": str(users),
    }
    if not by_option:
        properties["listeners"] = "https://127.0.0.1:0"
        properties["ssl.keystore.location"] = str(authority.server.store)
    engine = Engine(EngineConfig(servers, f"{tmp_path.name}_", properties=properties), InProcessHost(servers))
    given = {"certificate": authority.server.chain, "key": authority.server.key} if by_option else {}
    server = SqlServer(engine, port=0, **given)
    server.start()

    def get(path: str, identity: Identity | None, *, http2: bool) -> int:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        if identity is not None:
            context.load_cert_chain(identity.chain, identity.key)
        with httpx.Client(http2=http2, verify=context, timeout=30) as client:
            found = client.get(f"{server.url}{path}")
            assert found.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
            if path == "/info" and found.status_code == 200:
                insert = client.post(f"{server.url}/inserts-stream", json={"target": "x"})
                assert insert.status_code == 403
            return found.status_code

    try:
        for http2 in (False, True):
            assert get("/info", authority.client, http2=http2) == 200
            assert get("/info", authority.issue("other", "other"), http2=http2) == 401
        with pytest.raises(httpx.TransportError):
            get("/chc/live", None, http2=False)
        file = tmp_path / "shell.properties"
        file.write_text(
            f"ssl.truststore.location={authority.certificate}\n"
            f"ssl.keystore.location={authority.client.store}\n"
        )
        shell = ("--config-file", str(file), "-e")
        done = run_shell(server.url, tmp_path, *shell, "SHOW STREAMS;")
        assert (done.exit_code, done.stderr) == (0, "")
        refused = run_shell(server.url, tmp_path, *shell, "TERMINATE ALL;")
        assert (refused.exit_code, "expected the role writer" in refused.stderr) == (1, True)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"listeners": "https://127.0.0.1:0"}, "HTTPS needs a key"),
        ({"authentication.method": "NONE", "penstock.authentication.users": "/nowhere"}, "go together"),
        ({"authentication.method": "BASIC", "penstock.authentication.users": "/nowhere"}, "can't be read"),
    ],
)
def test_settings_that_let_nobody_in_are_told(
    penstock_cluster: Cluster, properties: dict[str, str], told: str
) -> None:
    servers = penstock_cluster.bootstrap_servers
    engine = Engine(EngineConfig(servers, properties=properties), InProcessHost(servers))
    with pytest.raises(ConfigError, match=told):
        SqlServer(engine, port=0)
    engine.close()


def test_tokens_identify_clients(penstock_cluster: Cluster, users: Path, tmp_path: Path) -> None:
    issuer = Issuer()
    issuer.key("first")
    (tmp_path / "jwks").write_text(issuer.jwks("first"))
    properties = {
        "authentication.method": "BEARER",
        "penstock.authentication.users": str(users),
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks").as_uri(),
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    with served(penstock_cluster.bootstrap_servers, **properties) as service:
        for token, path, status in (
            (issuer.token("client"), "/info", 200),
            (issuer.token("client"), "/ksql/terminate", 403),
            (issuer.token("adam"), "/info", 401),  # has a password
            (Issuer().token("client"), "/info", 401),
        ):
            method = "POST" if path == "/ksql/terminate" else "GET"
            headers = {"authorization": f"Bearer {token}"}
            found = httpx.request(method, f"{service.url}{path}", headers=headers)
            assert found.status_code == status, found.text
        (tmp_path / "shell.properties").write_text(f"bearer.auth.token={issuer.token('client')}\n")
        words = ("--config-file", str(tmp_path / "shell.properties"), "-e", "SHOW STREAMS;")
        assert run_shell(service.url, tmp_path, *words).exit_code == 0


def test_a_server_that_others_reach_is_named_at_the_start(
    penstock_cluster: Cluster, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = penstock_cluster.bootstrap_servers
    guarded = {"authentication.method": "BASIC", "penstock.authentication.users": str(users)}
    caplog.set_level(logging.WARNING)
    for host, properties in (("127.0.0.1", {}), ("0.0.0.0", guarded), ("0.0.0.0", {})):
        engine = Engine(EngineConfig(servers, properties=properties), InProcessHost(servers))
        server = SqlServer(engine, host=host, port=0)
        server._server.give_up()
        engine.close()
    lines = [each.getMessage() for each in caplog.records if "not authenticated" in each.message]
    assert lines == [
        f"clients are not authenticated listeners=http://0.0.0.0:{server.port} remedy=docs/security.md"
    ]
