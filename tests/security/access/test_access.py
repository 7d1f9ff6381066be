"""Credentials of requests to HTTP servers: who is admitted, and in which role."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from certificates import Authority
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.exposure import is_loopback
from penstock.security.access.roles import EVERYBODY, Grant, Identity, Role
from penstock.security.access.settings import AccessSettings
from penstock.security.access.users import Users

USERS = """
alice: her:password, writer:orders-, reader
bob: MD5:5f4dcc3b5aa765d61d8327deb882cf99, admin
client: *, reader
"""


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users"
    file.write_text(USERS)
    return file


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("access") / "authority")


def settings(users: Path, **more: str) -> AccessSettings:
    given = {"authentication.method": "BASIC", "penstock.authentication.users": str(users)}
    given |= {name.replace("__", "."): value for name, value in more.items()}
    return AccessSettings.from_configs(given.get)


def by_certificate(users: Path, authority: Authority, **more: str) -> AccessSettings:
    return settings(
        users,
        **{
            "ssl__client__authentication": "REQUIRED",
            "ssl__truststore__location": str(authority.certificate),
            "ssl__keystore__location": str(authority.server.store),
            "ssl__principal__mapping__rules": "RULE:^CN=([^,]+),.*$/$1/",
            **more,
        },
    )


def der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text().partition("-----END CERTIFICATE-----")[0] + _END)


_END = "-----END CERTIFICATE-----\n"


def test_passwords_identify_users(users: Path) -> None:
    access = settings(users).access(is_tls=False, takes_prefixes=True)
    alice = access.identify([basic("alice:her:password")], None)
    assert alice == Identity("User:alice", (Grant(Role.WRITER, "orders-"), Grant(Role.READER)))
    bob = access.identify([basic("bob:password").replace("Basic", "bAsIc")], None)
    assert bob == Identity("User:bob", (Grant(Role.ADMIN),))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["Basic"],
        ["Basic !"],
        ["Basic /w=="],
        ["Basic YQ=="],
        [basic("alice")],
        [basic("alice:")],
        [basic("alice:wrong")],
        [basic(":her:password")],
        [basic("nobody:")],
        [basic("client:*")],
        [basic("client:")],
        [basic("\0:\0")],
        [basic("bob:5f4dcc3b5aa765d61d8327deb882cf99")],
        ["Bearer YTpi"],
        [basic("bob:password").replace("Basic", "Digest")],
        [basic("bob:password").replace("Basic ", "Basic\t")],
        [basic("bob:password"), basic("bob:password")],
        [basic("bob:wrong"), basic("bob:password")],
    ],
)
def test_all_other_headers_are_refused(users: Path, headers: list[str]) -> None:
    access = settings(users).access(is_tls=False, takes_prefixes=True)
    assert access.identify(headers, None) is None
    assert access.challenges == ('Basic realm=""',)


def test_certificates_identify_users_without_a_password(users: Path, authority: Authority) -> None:
    access = by_certificate(users, authority).access(is_tls=True, takes_prefixes=True)
    reader = access.identify([], der(authority.client.chain))
    assert reader == Identity("User:client", (Grant(Role.READER),), is_certified=True)
    # A certificate is no substitute for the password of a user that has one.
    assert access.identify([], der(authority.issue("alice", "alice").chain)) is None
    assert access.identify([], der(authority.server.chain)) is None
    assert access.identify([], b"no certificate") is None
    # A header decides alone, so that a wrong password is refused in any case.
    assert access.identify([basic("bob:wrong")], der(authority.client.chain)) is None
    assert access.identify([basic("bob:password")], der(authority.client.chain)) is not None


def test_a_certificate_that_no_rule_maps_is_refused(users: Path, authority: Authority) -> None:
    rules = {"ssl__principal__mapping__rules": "RULE:^CN=server,.*$/client/"}
    access = by_certificate(users, authority, **rules).access(is_tls=True, takes_prefixes=True)
    assert access.identify([], der(authority.client.chain)) is None
    assert access.identify([], der(authority.server.chain)) is not None


def test_without_users_everybody_may_do_everything() -> None:
    access = AccessSettings.from_configs({}.get).access(is_tls=False)
    assert access.is_open
    assert access.identify([], None) == EVERYBODY
    assert access.identify(["Basic !"], None) == EVERYBODY


def test_a_role_includes_lesser_ones_and_a_prefix_limits_it() -> None:
    alice = Identity("User:alice", (Grant(Role.WRITER, "orders-"), Grant(Role.READER)))
    assert alice.may(Role.WRITER, "orders-value")
    assert alice.may(Role.READER, "orders-value")
    assert not alice.may(Role.WRITER, "payments-value")
    assert not alice.may(Role.WRITER)
    assert not alice.may(Role.ADMIN, "orders-value")
    assert alice.has(Role.WRITER)
    assert not alice.is_limited
    limited = Identity("User:carol", (Grant(Role.READER, "a"), Grant(Role.ADMIN, "b")))
    assert limited.is_limited
    assert limited.prefixes == ("a", "b")
    assert limited.may(Role.ADMIN, "b")
    assert not limited.may(Role.READER)


def test_prefixes_may_contain_colons() -> None:
    assert Grant.of("writer::.context:orders-") == Grant(Role.WRITER, ":.context:orders-")
    assert Grant.of("Writer") is None
    assert Grant.of("developer") is None


def test_users_of_other_servers_files_keep_full_access(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ann: a, developer\nbert: b, admin\ncarl: c\n")
    users = Users.read(str(file), ("developer", "admin"))
    for name in ("ann", "bert"):
        found = users.find(name)
        assert found is not None
        assert found.grants == (Grant(Role.ADMIN),)
    assert users.find("carl") is None


def test_roles_admit_users_whose_roles_have_prefixes(users: Path) -> None:
    found = Users.read(str(users), ("writer",))
    assert found.find("alice") is not None
    assert found.find("bob") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: OBF:1abc", "user 'a' in .* has no usable password"),
        ("a:", "user 'a' in .* has no usable password"),
        ("a: b, reader\nc: d, writter", "user 'c' in .* has no role: expected reader, writer or admin"),
        ("a: b, admin:x-\nc: d", "user 'c' in .* has no role"),
        ("a: b, writer:", "has 'writer:': expected a prefix after the colon"),
    ],
)
def test_files_that_do_not_say_who_may_what_are_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "users"
    file.write_text(text)
    with pytest.raises(InvalidAccess, match=told):
        Users.read(str(file))


def test_only_the_registry_knows_prefixes(users: Path) -> None:
    with pytest.raises(InvalidAccess, match="found a role for 'orders-', expected roles without a prefix"):
        settings(users).access(is_tls=False)


def test_settings_show_no_secrets(users: Path) -> None:
    found = Users.read(str(users)).find("alice")
    assert "her:password" not in repr(found)


def test_a_host_is_on_loopback_only_if_its_address_is() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "localhost.example", "example")))


def test_changes_of_the_file_apply_to_the_next_request(users: Path, caplog: pytest.LogCaptureFixture) -> None:
    access = settings(users).access(is_tls=False, takes_prefixes=True)
    alice, carol = [basic("alice:her:password")], [basic("carol:c")]
    assert access.identify(alice, None) is not None
    replace(users, "alice: other, reader\ncarol: c, reader\n")
    assert access.identify(alice, None) is None
    assert access.identify(carol, None) == Identity("User:carol", (Grant(Role.READER),))
    for unusable in ("carol: c, reader\ndora: d, raeder\n", "carol:"):
        replace(users, unusable)
        assert access.identify(carol, None) is not None
        assert access.identify([basic("dora:d")], None) is None
        assert "users not read, the last ones stay" in caplog.text
        caplog.clear()
    users.unlink()
    assert access.identify(carol, None) is not None
    assert "can't be read" in caplog.text
    replace(users, "bob: b, admin\n")
    assert access.identify(carol, None) is None


def test_a_changed_file_must_not_have_prefixes_where_there_are_no_subjects(users: Path) -> None:
    users.write_text("carol: c, reader\n")
    access = settings(users).access(is_tls=False)
    replace(users, "carol: c, reader:x-\n")
    assert access.identify([basic("carol:c")], None) == Identity("User:carol", (Grant(Role.READER),))


def replace(file: Path, text: str) -> None:
    """Replace a file as editors do: the new one has another inode, however quickly it follows."""
    other = file.with_name("new")
    other.write_text(text)
    other.replace(file)
