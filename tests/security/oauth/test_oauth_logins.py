"""A client's own token: the settings, the requests to the issuer, and when a token is fetched again."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from certificates import Authority
from issuer import Issuer, IssuerServer, part
from penstock.security.oauth.errors import InvalidOAuth, TokenUnavailable
from penstock.security.oauth.login import OAuthLogin, read_login
from penstock.security.oauth.names import ASSERTION_RETRIEVER, FILE_RETRIEVER, RETRIEVER
from penstock.security.oauth.tokens import KeptToken, RefreshRules, TokenLife, life_of

URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials.client."
ASSERTION = "sasl.oauthbearer.assertion."


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("oauth") / "authority")


@pytest.fixture
def server(authority: Authority) -> Iterator[IssuerServer]:
    with IssuerServer(Issuer(), authority) as server:
        yield server


def login(
    server: IssuerServer, authority: Authority, options: dict[str, str], **configs: object
) -> OAuthLogin:
    settings = {URL: server.url("/token"), "sasl.login.retry.backoff.max.ms": 100, **configs}
    return read_login(settings.get, {"ssl.truststore.location": str(authority.certificate), **options})


def claims_of(token: str) -> dict[str, object]:
    payload = token.split(".")[1]
    claims: dict[str, object] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


def test_client_credentials_of_the_login_module(server: IssuerServer, authority: Authority) -> None:
    options = {"clientId": "ann", "clientSecret": "ann-secret", "scope": "a b", "extension_traceId": "7"}
    logged_in = login(server, authority, options)
    found = logged_in()
    assert (claims_of(found.token)["sub"], claims_of(found.token)["scope"]) == ("ann", "a b")
    assert found.extensions == (("traceId", "7"),)
    assert logged_in().token == found.token
    assert server.requests == [("/token", {"grant_type": "client_credentials", "scope": "a b"})]
    assert "ann-secret" not in repr(found)


def test_configs_precede_the_options(server: IssuerServer, authority: Authority) -> None:
    server.clients["%20:"] = "a b+"
    configs: dict[str, object] = {f"{CREDENTIALS}id": "%20:"}
    plain = {f"{CREDENTIALS}id": "ann", f"{CREDENTIALS}secret": "ann-secret"}
    assert claims_of(login(server, authority, {"clientId": "x"}, **plain)().token)["sub"] == "ann"
    with pytest.raises(InvalidOAuth, match=r"client\.secret: it is not set"):
        login(server, authority, {}, **configs)


def test_id_and_secret_are_encoded_if_the_issuer_wants_it(server: IssuerServer, authority: Authority) -> None:
    server.clients["a+b"] = "c%3Ad%2B"
    configs = {f"{CREDENTIALS}id": "a b", f"{CREDENTIALS}secret": "c:d+"}
    with pytest.raises(TokenUnavailable, match="401"):
        login(server, authority, {}, **configs)()
    encoded = login(server, authority, {}, **configs, **{"sasl.oauthbearer.header.urlencode": True})
    assert claims_of(encoded().token)["sub"] == "a+b"


def test_what_the_issuer_refuses(server: IssuerServer, authority: Authority) -> None:
    refused = login(server, authority, {"clientId": "ann", "clientSecret": "wrong"})
    with pytest.raises(TokenUnavailable, match=r"answers 401: .*invalid_client") as unavailable:
        refused()
    assert "wrong" not in str(unavailable.value)
    assert server.count("/token") == 1, "it is not asked again"
    logged_in = login(server, authority, {"clientId": "ann", "clientSecret": "ann-secret"})
    for answer, reason in (
        ((503, ""), "answers 503"),
        ((200, "{"), "without an access_token"),
        ((200, '{"access_token":""}'), "without an access_token"),
        ((200, '{"access_token":"opaque"}'), "not one for Kafka"),
        ((200, json.dumps({"access_token": Issuer().token(exp=None)})), "it has no exp"),
    ):
        server.answers["/token"] = lambda answer=answer: answer
        with pytest.raises(TokenUnavailable, match=reason):
            logged_in()


def test_an_assertion_proves_who_the_client_is(
    server: IssuerServer, authority: Authority, tmp_path: Path
) -> None:
    key = load_pem_private_key(server.issuer.key("assertions").as_pem(private=True), None)
    key_file, template = tmp_path / "key.pem", tmp_path / "template.json"
    encryption = BestAvailableEncryption(b"of the key")
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    template.write_text('{"header":{"kid":"mine"},"payload":{"sub":"carl","x":1}}')
    configs: dict[str, object] = {
        f"{ASSERTION}algorithm": "ES256",
        f"{ASSERTION}private.key.file": str(key_file),
        f"{ASSERTION}private.key.passphrase": "of the key",
        f"{ASSERTION}claim.iss": "penstock",
        f"{ASSERTION}claim.sub": "bert",
        f"{ASSERTION}claim.jti.include": True,
        "sasl.oauthbearer.scope": "s",
    }
    by_grant = login(server, authority, {}, **configs, **{RETRIEVER: ASSERTION_RETRIEVER})
    assert claims_of(by_grant().token)["sub"] == "bert"
    form = server.requests[-1][1]
    assert (form["grant_type"], form["scope"]) == ("urn:ietf:params:oauth:grant-type:jwt-bearer", "s")
    assertion = claims_of(form["assertion"])
    assert {"iss", "sub", "iat", "exp", "nbf", "jti"} == assertion.keys()
    assert assertion["exp"] - assertion["nbf"] == 360  # type: ignore[operator]
    as_client = login(server, authority, {}, **configs, **{f"{ASSERTION}template.file": str(template)})
    assert claims_of(as_client().token)["sub"] == "carl"
    assert "client-assertion-type:jwt-bearer" in server.requests[-1][1]["client_assertion_type"]
    wrong = login(server, authority, {}, **configs | {f"{ASSERTION}private.key.passphrase": "secret"})
    with pytest.raises(TokenUnavailable, match="cannot be used: expected an EC key") as unavailable:
        wrong()
    assert "secret" not in str(unavailable.value)


def test_an_assertion_in_a_file(server: IssuerServer, authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "assertion.jwt"
    file.write_text(server.issuer.token("dora", key="assertions") + "\n")
    logged_in = login(server, authority, {}, **{f"{ASSERTION}file": str(file)})
    assert claims_of(logged_in().token)["sub"] == "dora"


def test_a_token_in_a_file_is_read_for_each_login(tmp_path: Path) -> None:
    file, issuer = tmp_path / "token", Issuer()
    logged_in = read_login({URL: file.as_uri()}.get, {})
    with pytest.raises(TokenUnavailable, match="cannot be read"):
        logged_in()
    for principal in ("ann", "bert"):
        token = issuer.token(principal)
        file.write_text(token + "\n")
        assert logged_in().token == token
    file.write_text("a.b.c")
    with pytest.raises(TokenUnavailable, match="not one for Kafka"):
        logged_in()


@pytest.mark.parametrize(
    ("configs", "options", "reason"),
    [
        ({}, {}, f"{URL}: it is not set"),
        ({URL: "http://issuer.example/"}, {}, "expected https:"),
        ({URL: "https://issuer.example/"}, {"clientSecret": "x"}, "client.id: it is not set"),
        ({URL: "https://issuer.example/"}, {"clientId": "x"}, "client.secret: it is not set"),
        ({URL: "file:///a", RETRIEVER: ASSERTION_RETRIEVER}, {}, "an https: URL"),
        (
            {URL: "https://issuer.example/", RETRIEVER: FILE_RETRIEVER},
            {},
            "a file: URL",
        ),
        ({RETRIEVER: "com.example.Mine"}, {}, "no class is loaded"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, {}, "no class is loaded"),
        (
            {URL: "https://issuer.example/", f"{ASSERTION}claim.iss": "x"},
            {},
            r"private\.key\.file: it is not set",
        ),
        ({}, {"unsecuredLoginStringClaim_x": "y"}, "expected unsecuredLoginStringClaim_sub"),
        ({}, {"extension_auth": "x"}, "expected letters"),
        (
            {URL: "https://issuer.example/", f"{CREDENTIALS}id": "a", f"{CREDENTIALS}secret": "b"},
            {"ssl.keystore.key": "x"},
            "must be set together",
        ),
    ],
)
def test_settings_that_are_refused(configs: dict[str, str], options: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOAuth, match=reason):
        read_login(configs.get, options)


def test_an_unsecured_token_is_made_for_each_login() -> None:
    logged_in = read_login({}.get, {"unsecuredLoginStringClaim_sub": "ann"})
    assert claims_of(logged_in().token)["sub"] == "ann"


NOW_MS = 1_000_000_000_000


@pytest.mark.parametrize(
    ("issued_s", "expires_s", "chance", "due_s"),
    [
        (0, 3600, 0.0, 2880),
        (0, 3600, 1.0, 3060),
        (None, 3600, 0.0, 2880),
        (-3000, 600, 0.0, 60),  # due already, but not within the shortest period
        (-1000, 2000, 0.0, 1400),
        (0, 1000, 1.0, 700),  # the buffer
        (0, 300, 0.0, 240),  # no room for the margins
        (0, 300, 1.0, 255),
    ],
)
def test_when_a_token_is_due(issued_s: int | None, expires_s: int, chance: float, due_s: int) -> None:
    issued_ms = None if issued_s is None else NOW_MS + issued_s * 1000
    life = TokenLife(issued_ms, NOW_MS + expires_s * 1000)
    assert RefreshRules().due_at_ms(life, NOW_MS, chance) == NOW_MS + due_s * 1000


def test_a_token_is_kept_until_it_is_due() -> None:
    now_ms, fetched = [NOW_MS], []

    def token() -> str:
        if len(fetched) == 2:
            fetched.append("")
            raise TokenUnavailable("the issuer is away")
        now_s = now_ms[0] // 1000
        made = f"{part({'alg': 'x'})}.{part({'sub': 'a', 'iat': now_s, 'exp': now_s + 3600})}.x"
        fetched.append(made)
        return made

    kept = KeptToken(token, RefreshRules(), clock_ms=lambda: now_ms[0], chance=lambda: 0.0)
    first = kept()
    now_ms[0] += 2_879_000
    assert kept() == first
    now_ms[0] += 1_000
    second = kept()
    assert second != first
    now_ms[0] += 2_880_000
    assert kept() == second, "the issuer is away, and the token still good"
    now_ms[0] += 9_999
    assert (kept(), len(fetched)) == (second, 3)
    now_ms[0] += 1
    assert kept() not in (first, second)


def test_without_a_good_token_the_reason_is_raised() -> None:
    now_ms, is_away = [NOW_MS], False

    def token() -> str:
        if is_away:
            raise TokenUnavailable("the issuer is away")
        return f"{part({'alg': 'x'})}.{part({'sub': 'a', 'exp': NOW_MS // 1000 + 60})}.x"

    kept = KeptToken(token, RefreshRules(), clock_ms=lambda: now_ms[0])
    assert life_of(kept()).expires_at_ms == NOW_MS + 60_000
    is_away = True
    now_ms[0] += 60_000
    with pytest.raises(TokenUnavailable, match="away"):
        kept()
