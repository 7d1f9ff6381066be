"""Roles at a registry: what readers, writers and admins may do, and which subjects they see."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from certificates import Authority
from penstock.registry.api.resources import RESOURCES
from penstock.registry.api.server import RegistryServer
from penstock.security.access.roles import Role
from penstock.testing import Cluster
from registry_node import properties

USERS = """
admin: a, admin
reader: r, reader
writer: w, writer
orders: o, writer:orders-, reader:common-
other: o, writer::.other:
owner: o, admin:orders-
instance: *, admin
billing: *, writer:billing-
"""
READERS = {
    *{"GET /", "POST /", "GET /schemas", "GET /schemas/types", "GET /schemas/ids/{id}"},
    *{"GET /schemas/ids/{id}/schema", "GET /schemas/ids/{id}/subjects", "GET /schemas/ids/{id}/versions"},
    *{"GET /schemas/guids/{guid}", "GET /schemas/guids/{guid}/ids", "GET /subjects", "GET /contexts"},
    *{"POST /subjects/{subject}", "GET /subjects/{subject}/metadata", "GET /subjects/{subject}/versions"},
    "GET /subjects/{subject}/versions/{version}",
    "GET /subjects/{subject}/versions/{version}/schema",
    "GET /subjects/{subject}/versions/{version}/referencedby",
    "POST /compatibility/subjects/{subject}/versions",
    "POST /compatibility/subjects/{subject}/versions/{version}",
    *{"GET /config", "GET /config/{subject}", "GET /mode", "GET /mode/{subject}"},
}
WRITERS = {
    *{"DELETE /subjects/{subject}", "POST /subjects/{subject}/versions"},
    "DELETE /subjects/{subject}/versions/{version}",
    *{"PUT /config/{subject}", "DELETE /config/{subject}"},
}
ADMINS = {
    *{"PUT /config", "DELETE /config", "PUT /mode", "DELETE /mode", "PUT /mode/{subject}"},
    *{"DELETE /mode/{subject}", "DELETE /contexts/{context}"},
}

Ask = Callable[..., tuple[int, Any]]


def request(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(
        url + path, data, {"Content-Type": "application/json", **named}, method=method
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def password(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{user[0]}".encode()).decode()


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("registry-roles") / "users"
    file.write_text(USERS)
    return file


@pytest.fixture(scope="module")
def server(penstock_cluster: Cluster, users: Path) -> Iterator[RegistryServer]:
    given = properties(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8])
    given |= {"authentication.method": "BASIC", "penstock.authentication.users": str(users)}
    made = RegistryServer(given, port=0)
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def ask(server: RegistryServer) -> Ask:
    """Send a request as a user: ask(user, method, path, body)."""

    def send(user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return request(server.url, method, path, body, Authorization=password(user))

    for subject, schema in (("secret-a", "bytes"), ("orders-a", "string"), ("common-a", "double")):
        status, _ = send("admin", "POST", f"/subjects/{subject}/versions", {"schema": f'"{schema}"'})
        assert status == 200
    shared = {"schema": '"string"'}
    assert send("admin", "POST", "/subjects/secret-b/versions", shared)[0] == 200
    assert send("admin", "POST", "/subjects/:.other:x/versions", shared)[0] == 200
    return send


def test_every_endpoint_needs_a_role() -> None:
    assert {f"{each.method} {each.path}" for each in RESOURCES if each.needs is Role.READER} == READERS
    assert {f"{each.method} {each.path}" for each in RESOURCES if each.needs is Role.WRITER} == WRITERS
    assert {f"{each.method} {each.path}" for each in RESOURCES if each.needs is Role.ADMIN} == ADMINS
    assert len(RESOURCES) == len(READERS | WRITERS | ADMINS)


def filled(path: str) -> str:
    values = {"{id}": "1", "{guid}": "x", "{subject}": "unknown-1", "{version}": "1", "{context}": ".none"}
    for name, value in values.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("endpoint", sorted(READERS | WRITERS | ADMINS))
def test_each_endpoint_refuses_lesser_roles_and_strangers(
    endpoint: str, ask: Ask, server: RegistryServer
) -> None:
    """The requests of clients with the role are served, or are refused for another reason."""
    method, path = endpoint.split()
    path = filled(path)
    body = {} if method in ("POST", "PUT") else None
    stranger = request(server.url, method, path, body)
    assert stranger == (401, {"error_code": 401, "message": "Unauthorized"})
    roles = {"reader": Role.READER, "writer": Role.WRITER}
    needs = next(
        role
        for role, paths in ((Role.READER, READERS), (Role.WRITER, WRITERS), (Role.ADMIN, ADMINS))
        if endpoint in paths
    )
    for user, role in roles.items():
        status, found = ask(user, method, path, body)
        refused = status == 403 and found["error_code"] == 40301
        assert refused == (role < needs), (user, status, found)
    if path.startswith("/subjects/") or path.count("/") > 1:
        status, found = ask("orders", method, path, body)
        by_subject = "{subject}" in endpoint
        assert (status == 403) == (by_subject or needs > Role.READER), found


@pytest.mark.parametrize(
    "path", ["/metrics", "/v1/metadata/id", "/v1/metadata/version", "/nothing", "//", "/"]
)
def test_strangers_are_refused_everywhere(server: RegistryServer, path: str) -> None:
    for method in ("GET", "HEAD", "POST", "OPTIONS", "PATCH", "DELETE"):
        asked = urllib.request.Request(server.url + path, method=method)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=60)
        assert refused.value.code == 401


def test_writers_with_a_prefix_write_their_subjects_alone(ask: Ask) -> None:
    assert ask("orders", "POST", "/subjects/orders-b/versions", {"schema": '"int"'})[0] == 200
    assert ask("orders", "PUT", "/config/orders-b", {"compatibility": "FULL"})[0] == 200
    assert ask("orders", "DELETE", "/subjects/orders-b") == (200, [1])
    for method, path in (
        ("POST", "/subjects/secret-a/versions"),
        ("POST", "/subjects/common-a/versions"),
        ("POST", "/subjects/:.other:orders-a/versions"),
        ("POST", "/contexts/.other/subjects/orders-a/versions"),
        ("POST", "/subjects/%20orders-a/versions"),
        ("DELETE", "/subjects/secret-a"),
        ("DELETE", "/subjects/:*:orders-a"),
        ("PUT", "/config"),
        ("PUT", "/config/:.:"),
        ("PUT", "/mode/orders-a"),
    ):
        status, found = ask("orders", method, path, {"schema": '"int"', "mode": "IMPORT"})
        assert (status, found["error_code"]) == (403, 40301), (method, path, found)
    # The default context may be written out.
    assert ask("orders", "POST", "/subjects/:.:orders-a/versions", {"schema": '"string"'})[0] == 200
    assert ask("other", "POST", "/contexts/.other/subjects/y/versions", {"schema": '"string"'})[0] == 200
    assert ask("other", "POST", "/subjects/y/versions", {"schema": '"string"'})[0] == 403
    assert ask("owner", "PUT", "/mode/orders-a", {"mode": "READWRITE"})[0] == 200
    assert ask("owner", "PUT", "/mode", {"mode": "READWRITE"})[0] == 403


def test_other_subjects_do_not_exist_for_readers_with_a_prefix(ask: Ask) -> None:
    assert ask("orders", "GET", "/subjects") == (200, ["common-a", "orders-a"])
    assert ask("orders", "GET", "/subjects?deleted=true")[1] == ["common-a", "orders-a", "orders-b"]
    assert {each["subject"] for each in ask("orders", "GET", "/schemas")[1]} == {"common-a", "orders-a"}
    assert ask("orders", "GET", "/contexts") == (200, ["."])
    assert ".other" in ask("reader", "GET", "/contexts")[1]
    ids = {each["subject"]: each["id"] for each in ask("reader", "GET", "/schemas?subjectPrefix=")[1]}
    hidden, shared = ids["secret-a"], ids["orders-a"]
    assert ids["secret-b"] == shared
    unknown = ask("orders", "GET", "/schemas/ids/999999")
    for path in ("", "/schema", "/subjects", "/versions"):
        status, found = ask("orders", "GET", f"/schemas/ids/{hidden}{path}")
        assert (status, found["error_code"]) == (unknown[0], unknown[1]["error_code"])
    assert ask("orders", "GET", f"/schemas/ids/{shared}/subjects") == (200, ["orders-a"])
    as_hidden, as_missing = (
        ask("orders", "GET", f"/schemas/ids/{shared}?subject={subject}")
        for subject in ("secret-b", "missing")
    )
    assert as_hidden == as_missing
    whole = ask("admin", "GET", "/subjects/secret-a/versions/1")[1]
    assert ask("orders", "GET", f"/schemas/guids/{whole['guid']}")[0] == 404
    for path in ("/subjects/secret-a/versions", "/subjects/missing/versions", "/config/secret-a"):
        status, found = ask("orders", "GET", path)
        assert (status, found["error_code"]) == (403, 40301)


def test_references_and_aliases_show_no_other_subject(ask: Ask) -> None:
    def referring(subject: str) -> dict[str, Any]:
        reference = {"name": "r", "subject": subject, "version": 1}
        return {"schema": '["null", "int"]', "references": [reference]}

    for subject in ("secret-a", "missing"):
        for path in ("/subjects/orders-c/versions", "/compatibility/subjects/orders-a/versions"):
            status, found = ask("orders", "POST", path, referring(subject))
            assert (status, found["error_code"]) == (403, 40301), found
    assert ask("orders", "POST", "/subjects/orders-c/versions", referring("common-a"))[0] == 200
    assert ask("orders", "PUT", "/config/orders-d", {"alias": "secret-a"})[0] == 200
    for method, path in (
        ("GET", "/subjects/orders-d/versions"),
        ("GET", "/subjects/orders-d/versions/latest"),
        ("POST", "/subjects/orders-d/versions"),
        ("DELETE", "/subjects/orders-d"),
    ):
        status, found = ask("orders", method, path, {"schema": '"int"'} if method == "POST" else None)
        assert (status, found["error_code"]) == (403, 40301), found
        assert "secret" not in found["message"]
    assert ask("reader", "GET", "/subjects/orders-d/versions") == (200, [1])


def test_only_admins_name_other_clients(server: RegistryServer) -> None:
    for user, code in (("orders", 403), ("writer", 403)):
        header = {"Authorization": password(user), "X_Penstock_On_Behalf_Of": "instance"}
        assert request(server.url, "GET", "/subjects", **header)[0] == code
    as_billing = {"Authorization": password("admin"), "X_Penstock_On_Behalf_Of": "billing"}
    assert request(server.url, "GET", "/subjects", **as_billing) == (200, [])
    as_admin = {"Authorization": password("admin"), "X_Penstock_On_Behalf_Of": "writer"}
    assert request(server.url, "GET", "/subjects", **as_admin)[0] == 403  # it comes with a password


def test_clients_with_certificates_write_through_any_instance(
    penstock_cluster: Cluster, users: Path, tmp_path: Path
) -> None:
    """Two instances: one of them forwards, and the leader decides about the client and not the instance."""
    authority = Authority(tmp_path / "authority")
    instance = authority.issue("instance", "127.0.0.1", "localhost")
    given = properties(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8]) | {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": str(instance.store),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.authentication": "REQUIRED",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
        "penstock.authentication.users": str(users),
    }
    billing, stranger = authority.issue("billing", "billing"), authority.issue("stranger", "stranger")
    servers = [RegistryServer(given), RegistryServer(given)]
    try:
        for server in servers:
            server.start()

        def client(url: str, identity: Any) -> SchemaRegistryClient:
            return SchemaRegistryClient(
                {
                    "url": url,
                    "ssl.ca.location": str(authority.certificate),
                    "ssl.certificate.location": str(identity.chain),
                    "ssl.key.location": str(identity.key),
                    "max.retries": 0,
                }
            )

        for number, server in enumerate(servers):
            theirs = client(server.url, billing)
            assert theirs.register_schema(f"billing-{number}", Schema('"long"', "AVRO"))
            for subject in ("secret", "orders-x"):
                with pytest.raises(SchemaRegistryError) as refused:
                    theirs.register_schema(subject, Schema('"long"', "AVRO"))
                assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
            reference = SchemaReference("r", "secret", 1)
            with pytest.raises(SchemaRegistryError) as refused:
                theirs.register_schema("billing-r", Schema('"long"', "AVRO", [reference]))
            assert refused.value.error_code == 40301
            with pytest.raises(SchemaRegistryError) as unknown:
                client(server.url, stranger).get_subjects()
            assert unknown.value.http_status_code == 401
        assert client(servers[0].url, billing).get_subjects() == ["billing-0", "billing-1"]
    finally:
        for server in servers:
            server.close()
