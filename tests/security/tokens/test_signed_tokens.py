"""Signed tokens: which are accepted, and the attacks on their validation."""

import hmac
import json
import time
from typing import Any

import pytest
from joserfc.jwk import OctKey, RSAKey

from issuer import AUDIENCE, KINDS, NAME, Issuer, part, signed
from penstock.security.tokens.compact import MAX_TOKEN_CHARS, InvalidToken
from penstock.security.tokens.keys import InvalidKeys, KeySet, UnknownKey
from penstock.security.tokens.validation import BearerToken, TokenRules, validate

RULES = TokenRules(issuer=NAME, audiences=frozenset({AUDIENCE, "other"}))


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    issuer = Issuer()
    issuer.key()
    return issuer


def accepted(token: str, keys: KeySet, rules: TokenRules = RULES, later_s: float = 0) -> BearerToken:
    return validate(token, keys, rules, int((time.time() + later_s) * 1000))


def refusal(token: str, keys: KeySet, rules: TokenRules = RULES, later_s: float = 0) -> str:
    with pytest.raises(InvalidToken) as refused:
        accepted(token, keys, rules, later_s)
    return str(refused.value)


def keys_of(issuer: Issuer) -> KeySet:
    return KeySet.parse(issuer.jwks())


@pytest.mark.parametrize(
    ("kind", "size", "algorithm"),
    [
        *(("RSA", 2048, name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        *(("EC", "P-256", "ES256"), ("EC", "P-384", "ES384"), ("EC", "P-521", "ES512")),
        *(("OKP", "Ed25519", "EdDSA"), ("OKP", "Ed448", "EdDSA")),
    ],
)
def test_every_algorithm_with_its_own_keys(kind: str, size: Any, algorithm: str) -> None:
    key = KINDS[kind].generate_key(size)
    keys = KeySet.parse(json.dumps({"keys": [key.as_dict(private=False)]}))
    claims = Issuer().claims(scope=["a", "b"])
    found = accepted(signed(key, {"alg": algorithm}, claims), keys)
    assert (found.principal, found.scopes) == ("ann", {"a", "b"})
    assert found.expires_at_ms == found.usable_until_ms == claims["exp"] * 1000
    another = KINDS[kind].generate_key(size)
    assert "signature" in refusal(signed(another, {"alg": algorithm}, claims), keys)


def test_the_claims_may_have_other_names(issuer: Issuer) -> None:
    rules = TokenRules(issuer=NAME, audiences=frozenset({"other"}), scope_claim="scp", principal_claim="azp")
    token = issuer.token(azp=" bert\n", scp="read write", aud=["other", "third"])
    found = accepted(token, keys_of(issuer), rules)
    assert (found.principal, found.scopes) == ("bert", {"read write"})
    assert refusal(issuer.token(aud="other"), keys_of(issuer), rules) == "azp is missing"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": None}, "the issuer (iss) is missing"),
        ({"iss": "https://other.example"}, "the issuer (iss) is 'https://other.example', expected"),
        ({"iss": [NAME]}, "iss is no text"),
        ({"aud": None}, "the audience (aud) is missing"),
        ({"aud": "another"}, "the audience (aud) is ['another'], expected one of kafka, other"),
        ({"aud": []}, "the audience (aud) is [], expected"),
        ({"aud": [AUDIENCE, 1]}, "the audience (aud) is neither a text nor a list of texts"),
        ({"exp": None}, "the token does not say when it expires (exp)"),
        ({"exp": "soon"}, "exp is no number"),
        ({"exp": True}, "exp is no number"),
        ({"exp": 10**30}, "exp is no date that is known"),
        ({"iat": None}, "the token does not say when it was issued (iat)"),
        ({"iat": 10**11}, "the token expires (exp) before it is issued (iat)"),
        ({"sub": None}, "sub is missing"),
        ({"sub": " \t"}, "sub is empty"),
        ({"sub": 7}, "sub is no text"),
        ({"jti": 7}, "jti is no text"),
        ({"scope": [""]}, "scope is empty"),
        ({"scope": ["a", 1]}, "scope is neither"),
        ({"scope": ["a", "a "]}, "scope has a scope twice"),
    ],
)
def test_what_a_token_must_say(issuer: Issuer, changed: dict[str, Any], reason: str) -> None:
    assert reason in refusal(issuer.token(**changed), keys_of(issuer))


def test_clocks_may_differ(issuer: Issuer) -> None:
    keys, token = keys_of(issuer), issuer.token(lifetime_s=100)
    assert accepted(token, keys, later_s=98).principal == "ann"
    late = accepted(token, keys, later_s=120)
    assert late.usable_until_ms == late.expires_at_ms + 30_000, "else a session would end at once"
    assert "has expired" in refusal(token, keys, later_s=131)
    early = issuer.token(nbf=int(time.time()) + 60)
    assert "is valid in" in refusal(early, keys)
    assert accepted(early, keys, later_s=40).principal == "ann"


def test_a_token_without_a_signature_is_refused(issuer: Issuer) -> None:
    for algorithm in ("none", "None", "NONE", "nOnE"):
        header = part({"alg": algorithm, "kid": "first"})
        for signature in ("", part(b"x")):
            token = f"{header}.{part(issuer.claims())}.{signature}"
            assert "alg" in refusal(token, keys_of(issuer))
    stripped = issuer.token().rpartition(".")[0] + "."
    assert "signature" in refusal(stripped, keys_of(issuer))


def test_a_signature_has_one_text() -> None:
    issuer = Issuer("RSA")
    issuer.key()
    token, keys = issuer.token(), keys_of(issuer)
    accepted(token, keys)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    next_letter = letters[letters.index(token[-1]) + 1]
    assert "bits beyond the last byte" in refusal(token[:-1] + next_letter, keys), "256 bytes leave four bits"
    assert "characters outside of base64url" in refusal(token + "=", keys)


def test_the_public_key_is_no_secret_of_hmac() -> None:
    key = RSAKey.generate_key(2048)
    jwk = {**key.as_dict(private=False), "kid": "first"}
    keys = KeySet.parse(json.dumps({"keys": [jwk]}))
    secrets = (key.as_pem(private=False), key.as_der(private=False), jwk["n"].encode())
    for secret in secrets:
        for algorithm, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
            message = f"{part({'alg': algorithm, 'kid': 'first'})}.{part(Issuer().claims())}"
            forged = f"{message}.{part(hmac.digest(secret, message.encode(), digest))}"
            assert "alg" in refusal(forged, keys)


def test_shared_secrets_are_no_keys_of_an_issuer() -> None:
    key = OctKey.generate_key(256)
    keys = KeySet.parse(json.dumps({"keys": [key.as_dict()]}))
    assert len(keys) == 0
    assert "alg" in refusal(signed(key, {"alg": "HS256"}, Issuer().claims()), keys)


def test_keys_in_the_header_are_not_used(issuer: Issuer) -> None:
    own = Issuer()
    header = {"alg": "ES256", "jwk": own.key().as_dict(private=False), "jku": "https://evil.example"}
    assert "signature" in refusal(signed(own.key(), header, own.claims()), keys_of(issuer))
    with pytest.raises(UnknownKey) as unknown:
        accepted(signed(own.key(), {**header, "kid": "mine"}, own.claims()), keys_of(issuer))
    assert unknown.value.key_id == "mine"


def test_critical_extensions_are_refused(issuer: Issuer) -> None:
    header = {"alg": "ES256", "kid": "first", "crit": ["b64"], "b64": True}
    token = f"{part(header)}.{part(issuer.claims())}.{part(b'x')}"
    assert "crit" in refusal(token, keys_of(issuer))


def test_parts_of_any_size_are_refused_before_they_are_read(issuer: Issuer) -> None:
    keys = keys_of(issuer)
    claims = issuer.claims()
    assert accepted(signed(issuer.key(), {"alg": "ES256", "x5c": ["A" * 9_000]}, claims), keys)
    assert "at most" in refusal(signed(issuer.key(), {"alg": "ES256", "x5c": ["A" * 20_000]}, claims), keys)
    assert accepted(issuer.token(groups=["g" * 100] * 400), keys)
    assert f"at most {MAX_TOKEN_CHARS}" in refusal(issuer.token(groups=["g" * 100] * 600), keys)
    assert "kid" in refusal(signed(issuer.key(), {"alg": "ES256", "kid": "k" * 1001}, claims), keys)
    header, payload, _ = issuer.token().split(".")
    assert "signature" in refusal(f"{header}.{payload}.{'A' * 5_000}", keys)
    deep = part(b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}")
    assert "nested" in refusal(f"{header}.{deep}.{part(b'x')}", keys)
    digits = part(b'{"exp":' + b"9" * 20_000 + b"}")
    assert "claims" in refusal(f"{header}.{digits}.{part(b'x')}", keys)


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b", "a.b.c.d", "a.b.c", "{}.{}.x", "é.é.é", f"{part([1])}.{part({})}.x"]
)
def test_what_is_no_token(issuer: Issuer, token: str) -> None:
    refusal(token, keys_of(issuer))


@pytest.mark.parametrize(
    "content", [b'{"sub":"ann","sub":"bob"}', b'{"exp":NaN}', b'{"exp":Infinity}', b"[1]", b"\xff", b"", b"{"]
)
def test_claims_that_could_be_read_in_two_ways(issuer: Issuer, content: bytes) -> None:
    token = signed(issuer.key(), {"alg": "ES256", "kid": "first"}, content)
    assert "claims" in refusal(token, keys_of(issuer))


def test_no_reason_shows_the_token(issuer: Issuer) -> None:
    token = issuer.token(aud="another")
    header, payload, signature = token.split(".")
    for damaged in (token, f"{header}.{payload}.{signature[:-4]}AAAA", f"{header}.{payload}!.{signature}"):
        reason = refusal(damaged, keys_of(issuer))
        assert not any(piece in reason for piece in (header, payload, signature))


def test_a_key_is_found_by_its_id_its_type_and_its_use() -> None:
    issuer, keys = Issuer(), {}
    for name in ("one", "two"):
        keys[name] = {**issuer.key(name).as_dict(private=False), "kid": name}
    rsa = {**RSAKey.generate_key(2048).as_dict(private=False), "kid": "rsa"}

    def parsed(*entries: object) -> KeySet:
        return KeySet.parse(json.dumps({"keys": list(entries)}))

    both = parsed(rsa, keys["one"], keys["two"])
    for name in ("one", "two"):
        assert accepted(issuer.token(key=name), both)
    assert accepted(signed(issuer.key("one"), {"alg": "ES256"}, issuer.claims()), parsed(rsa, keys["one"]))
    for unfit in (
        {**keys["one"], "use": "enc"},
        {**keys["one"], "key_ops": ["sign"]},
        {**keys["one"], "alg": "ES384"},
        {**keys["one"], "kid": "ONE"},
    ):
        assert "there is no key" in refusal(issuer.token(key="one"), parsed(unfit, keys["two"]))
    wrong_type = signed(issuer.key("one"), {"alg": "ES256", "kid": "rsa"}, issuer.claims())
    assert "there is no key" in refusal(wrong_type, both)


def test_key_sets_keep_what_they_can_use() -> None:
    good = Issuer()
    good.key()
    entries = json.loads(good.jwks())["keys"]
    rsa = RSAKey.generate_key(2048).as_dict(private=False)
    short = {**rsa, "n": str(rsa["n"])[:170]}
    entries += [short, {"kty": "AKP"}, {}, 7, {"kty": "EC", "crv": "P-256"}, {"kty": "OKP", "crv": "X25519"}]
    keys = KeySet.parse(json.dumps({"keys": entries}))
    assert len(keys) == 1
    assert accepted(good.token(), keys)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys":{}}', '{"keys":[],"keys":[]}', "\0"])
def test_what_is_no_key_set(text: str) -> None:
    with pytest.raises(InvalidKeys):
        KeySet.parse(text)
