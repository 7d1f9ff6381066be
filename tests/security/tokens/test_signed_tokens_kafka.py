"""Random tokens, decided about by Apache Kafka's BrokerJwtValidator and by ours.

Ours refuses some tokens that Kafka accepts. `STRICTER` has the reasons; any other difference is an error.
"""

import base64
import json
import random
import time
from pathlib import Path
from typing import Any, Final

import pytest
from joserfc.jwk import OctKey

from issuer import ALGORITHMS, AUDIENCE, NAME, Issuer, part, signed
from kafka_tokens import kafkas_answers
from long_run import repetitions
from penstock.security.tokens.compact import InvalidToken
from penstock.security.tokens.keys import KeySet
from penstock.security.tokens.validation import TokenRules, validate

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

TOKENS: Final = repetitions("PENSTOCK_TOKENS", gate=1_500, long=100_000)
STRICTER: Final = (
    "the header's alg is 'HS256'",  # Kafka takes shared secrets from a key set
    "characters outside of base64url",  # jose4j skips them
    "bits beyond the last byte",  # jose4j ignores them
    "nbf is no date that is known",  # one before 1970
)
RULES: Final = (
    TokenRules(issuer=NAME, audiences=frozenset({AUDIENCE})),
    TokenRules(issuer=NAME, audiences=frozenset({AUDIENCE, "other"}), clock_skew_s=1200),
    TokenRules(issuer=NAME, audiences=frozenset({"other"}), scope_claim="scp", principal_claim="azp"),
)
TEXTS: Final = ("ann", " bert ", "", " ", "\u00a0", "\t", "ädel", "a,b=c", "\U0001f600")
ANY: Final = (None, True, False, 0, -1, 1.5, 2**40, [], {}, [1], ["a", "b"], ["a", "a"], ["a", " a"], [None])


def test_both_accept_the_same_tokens(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    issuers = [Issuer("RSA"), Issuer("EC"), Issuer("OKP")]
    entries = [
        json.loads(issuer.jwks(f"{issuer.kind}-{name}"))["keys"][0] for issuer in issuers for name in "ab"
    ]
    secret = OctKey.generate_key(256)
    entries.append({**secret.as_dict(), "kid": "secret"})
    jwks = tmp_path / "jwks.json"
    jwks.write_text(json.dumps({"keys": entries}))
    keys = KeySet.parse(jwks.read_text())
    commands, tokens, now_ms = [], [], int(time.time() * 1000)
    for rules in RULES:
        names = (rules.scope_claim, rules.principal_claim, *rules.audiences)
        commands.append("\t".join(("rules", jwks.as_uri(), rules.issuer, str(rules.clock_skew_s), *names)))
        for _ in range(TOKENS // len(RULES)):
            token = random_token(rng, issuers, secret)
            commands.append(f"token\t{token}")
            tokens.append((token, rules))
    answers = kafkas_answers(kafka_libs, tmp_path, commands)
    accepted, reasons, stricter = 0, set(), 0
    for (token, rules), answer in zip(tokens, answers, strict=True):
        try:
            found = validate(token, keys, rules, now_ms)
        except InvalidToken as refusal:
            reason = str(refusal)
            reasons.add(" ".join(reason.split()[:4]))
            if answer[0] == "accepted":
                assert any(known in reason for known in STRICTER), (reason, answer, token, readable(token))
                stricter += 1
            continue
        kafkas = ["accepted", found.principal, str(found.expires_at_ms), *sorted(found.scopes)]
        assert answer == kafkas, readable(token)
        accepted += 1
    print(f"accepted {accepted}, stricter {stricter}, refused for {len(reasons)} reasons of {len(tokens)}")
    assert accepted > TOKENS / 10
    assert len(reasons) > 20, reasons
    assert stricter < TOKENS / 20


def readable(token: str) -> str:
    pieces = (piece + "=" * (-len(piece) % 4) for piece in token.split("."))
    return " ".join(
        base64.urlsafe_b64decode(piece.encode("ascii", "replace")).decode("latin1")[:300] for piece in pieces
    )


def random_token(rng: random.Random, issuers: list[Issuer], secret: Any) -> str:
    issuer = rng.choice(issuers)
    name = f"{issuer.kind}-{rng.choice('ab')}"
    header: dict[str, Any] = {"alg": ALGORITHMS[issuer.kind], "kid": name}
    if issuer.kind == "RSA":
        header["alg"] = rng.choice(("RS256", "RS512", "PS256", "PS384"))
    if rng.random() < 0.05:
        header["kid"] = rng.choice((None, "unknown", "RSA-a", "EC-b", 7, ""))
    if rng.random() < 0.03:
        del header["kid"]
    if rng.random() < 0.03:
        header |= rng.choice(({"typ": "at+jwt"}, {"crit": ["x"], "x": 1}, {"x": [1]}, {"cty": "text"}))
    key = issuer.key(name)
    if rng.random() < 0.02:
        header, key = {"alg": "HS256", "kid": "secret"}, secret
    token = signed(key, header, random_claims(rng))
    return token if rng.random() < 0.85 else damaged(rng, token)


def random_claims(rng: random.Random) -> object:
    now_s = int(time.time())
    claims: dict[str, Any] = {
        "iss": NAME,
        "aud": rng.choice((AUDIENCE, [AUDIENCE], ["other", AUDIENCE], "other")),
        "sub": rng.choice(TEXTS),
        "azp": rng.choice(TEXTS[:2]),
        "iat": now_s - 100,
        "exp": now_s + rng.choice((3600, 900, 600.75, -600, -3600)),
        "scope": rng.choice(("a", "a b", ["a", "b"])),
    }
    changes: dict[str, list[Any]] = {
        "iss": ["https://other.example", NAME + "/"],
        "aud": ["another", ["another"], ""],
        "sub": [*TEXTS],
        "azp": [*TEXTS],
        "iat": [now_s + 7200, now_s + 60, now_s - 10**8],
        "nbf": [now_s - 50, now_s + 600, now_s + 1800, now_s + 7200],
        "exp": [now_s + 10**8, str(now_s + 600)],
        "scope": [*TEXTS],
        "scp": ["a", ["a", "b"]],
        "jti": ["x"],
        "other": [1],
    }
    for name, values in changes.items():
        chance = rng.random()
        if chance < 0.05:
            claims[name] = rng.choice(values)
        elif chance < 0.07:
            claims[name] = rng.choice(ANY)
        elif chance < 0.09:
            claims.pop(name, None)
    if rng.random() < 0.02:
        return json.dumps(claims)[:-1].encode() + b',"sub":"twice"}'
    return claims


def damaged(rng: random.Random, token: str) -> str:
    header, claims, signature = token.split(".")
    where = rng.randrange(len(token))
    return rng.choice(
        (
            f"{header}.{claims}.",
            f"{header}.{claims}",
            f"{part({'alg': 'none'})}.{claims}.{signature}",
            f"{part({'alg': 'none'})}.{claims}.",
            f"{part({'alg': rng.choice(('RS256', 'ES256', 'none', 'X', 7, ''))})}.{claims}.{signature}",
            f"{header}.{claims}.{signature}.{signature}",
            f"{header}.{part(rng.choice(ANY))}.{signature}",
            f"{header}..{signature}",
            f" {token} ",
            token[:where] + rng.choice("Aa0-_+/=.") + token[where + 1 :],
            token[:where],
            token[:where] + token[where + 1 :],
        )
    )
