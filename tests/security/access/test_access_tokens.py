"""Bearer tokens at HTTP servers: which are accepted, and whom they name."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from certificates import Authority
from issuer import AUDIENCE, NAME, Issuer, IssuerServer, part
from penstock.security.access.access import Access
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.roles import Grant, Identity, Role
from penstock.security.access.settings import AccessSettings

USERS = "ann: *, writer\nbob: b, admin\nadmin: *, admin\n"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    made = Issuer()
    made.key("first")
    return made


@pytest.fixture
def properties(tmp_path: Path, issuer: Issuer) -> dict[str, str]:
    (tmp_path / "users").write_text(USERS)
    (tmp_path / "jwks").write_text(issuer.jwks("first"))
    return {
        "authentication.method": "BASIC,BEARER",
        "penstock.authentication.users": str(tmp_path / "users"),
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "jwks").as_uri(),
        "sasl.oauthbearer.expected.issuer": NAME,
        "sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
        "sasl.oauthbearer.clock.skew.seconds": "5",
    }


def access_of(properties: dict[str, str]) -> Access:
    access = AccessSettings.from_configs(properties.get).access(is_tls=False)
    access.start()
    return access


def test_tokens_name_users_without_a_password(properties: dict[str, str], issuer: Issuer) -> None:
    access = access_of(properties)
    ann = Identity("User:ann", (Grant(Role.WRITER),))
    assert access.identify([f"Bearer {issuer.token('ann')}"], None) == ann
    assert access.identify([f"bearer  {issuer.token('ann')}"], None) == ann
    bob = base64.b64encode(b"bob:b").decode()
    assert access.identify([f"Basic {bob}"], None) == Identity("User:bob", (Grant(Role.ADMIN),))
    # A token is no substitute for the password of a user that has one.
    assert access.identify([f"Bearer {issuer.token('bob')}"], None) is None
    assert access.identify([f"Bearer {issuer.token('nobody')}"], None) is None
    assert access.challenges == ('Basic realm=""', 'Bearer realm=""')


def test_tokens_of_others_are_refused(properties: dict[str, str], issuer: Issuer) -> None:
    access = access_of(properties)
    header, claims, signature = issuer.token("ann").split(".")
    as_admin = part(issuer.claims("admin"))
    unsigned = part({"alg": "none"})
    foreign = Issuer()
    wrong = [
        "",
        "ann",
        "..",
        f"{header}.{claims}.",
        f"{header}.{as_admin}.{signature}",
        f"{unsigned}.{as_admin}.",
        f"{unsigned}.{as_admin}.{signature}",
        foreign.token("admin"),
        issuer.token("admin", key="second"),
        issuer.token("admin", aud="elsewhere"),
        issuer.token("admin", aud=None),
        issuer.token("admin", iss="https://other.example"),
        issuer.token("admin", iss=None),
        issuer.token("admin", exp=None),
        issuer.token("admin", lifetime_s=-60),
        issuer.token("admin", sub=None),
    ]
    for token in wrong:
        assert access.identify([f"Bearer {token}"], None) is None, token
        assert access.identify([f"Basic {token}"], None) is None


def test_without_the_method_no_token_is_accepted(properties: dict[str, str], issuer: Issuer) -> None:
    access = access_of({**properties, "authentication.method": "BASIC"})
    assert access.identify([f"Bearer {issuer.token('ann')}"], None) is None


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("sasl.oauthbearer.jwks.endpoint.url", None, r"jwks\.endpoint\.url: it is not set"),
        ("sasl.oauthbearer.jwks.endpoint.url", "http://issuer.example/", "expected https:"),
        ("sasl.oauthbearer.expected.issuer", None, r"expected\.issuer: it is not set"),
        ("sasl.oauthbearer.expected.audience", None, r"expected\.audience: it is not set"),
        ("sasl.oauthbearer.expected.audience", " , ", r"expected\.audience: it is not set"),
        ("sasl.oauthbearer.clock.skew.seconds", "soon", "expected a whole number"),
        ("penstock.authentication.users", None, "go together"),
        ("authentication.method", "BEARER,NONE", "expected one of"),
        ("authentication.method", "TOKEN", "expected one of"),
        ("authentication.method", "", "expected one of"),
    ],
)
def test_settings_with_which_tokens_cannot_be_checked_are_refused(
    properties: dict[str, str], name: str, value: str | None, told: str
) -> None:
    given = {key: text for key, text in {**properties, name: value}.items() if text is not None}
    with pytest.raises(InvalidAccess, match=told):
        AccessSettings.from_configs(given.get).access(is_tls=False)


def test_without_keys_a_server_does_not_start(properties: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "jwks").unlink()
    with pytest.raises(InvalidAccess, match="there are no keys for tokens"):
        access_of(properties)


def test_keys_come_from_an_endpoint_that_is_trusted(
    properties: dict[str, str], issuer: Issuer, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    with IssuerServer(issuer, authority) as server:
        given = {
            **properties,
            "sasl.oauthbearer.jwks.endpoint.url": server.url("/jwks"),
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "0",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "0",
        }
        with pytest.raises(InvalidAccess, match="certificate verify failed"):
            access_of(given)
        store = {"penstock.authentication.jwks.ssl.truststore.location": str(authority.certificate)}
        access = access_of({**given, **store})
        try:
            assert access.identify([f"Bearer {issuer.token('ann')}"], None) is not None
        finally:
            access.close()
