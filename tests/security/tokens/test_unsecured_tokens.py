"""Tokens without a signature: what the options ask for, and Kafka's decisions beside ours."""

import json
import random
import time
from pathlib import Path
from typing import Any, Final

import pytest

from issuer import Issuer, part
from kafka_tokens import kafkas_answers
from long_run import repetitions
from penstock.security.tokens.compact import InvalidToken
from penstock.security.tokens.unsecured import (
    InsufficientScope,
    UnsecuredRules,
    unsecured_token,
    validate_unsecured,
)
from penstock.security.tokens.validation import BearerToken

TOKENS: Final = repetitions("PENSTOCK_UNSECURED_TOKENS", gate=600, long=50_000)
OF_VALIDATOR: Final = "unsecuredValidator"
OPTIONS: Final = (
    {},
    {"PrincipalClaimName": "azp", "AllowableClockSkewMs": "60000"},
    {"ScopeClaimName": "scp", "RequiredScope": "a b"},
)


def unsigned(claims: object, header: object = None, signature: str = "") -> str:
    return f"{part(header or {'alg': 'none'})}.{part(claims)}.{signature}"


def accepted(token: str, options: dict[str, str], now_ms: float | None = None) -> BearerToken:
    rules = UnsecuredRules.of_options({OF_VALIDATOR + name: value for name, value in options.items()})
    return validate_unsecured(token, rules, int(now_ms or time.time() * 1000))


def test_a_login_makes_what_a_listener_accepts() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": 'ann "x"',
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginNumberClaim_level": "7",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    token = unsecured_token(options, 1_000_000_000_000)
    found = accepted(token, {"RequiredScope": "a"}, 1_000_000_000_000)
    assert (found.principal, found.scopes) == ('ann "x"', {"a", "b"})
    assert found.expires_at_ms == 1_000_000_060_000


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "unsecuredLoginStringClaim_sub"),
        ({"unsecuredLoginStringClaim_exp": "1"}, "a login sets this claim itself"),
        ({"unsecuredLoginLifetimeSeconds": "long"}, "expected a whole number"),
    ],
)
def test_a_login_needs_a_name(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        unsecured_token(options, 0)


def test_a_required_scope_is_named() -> None:
    with pytest.raises(InsufficientScope) as refused:
        accepted(unsigned(Issuer().claims(scope="a")), {"RequiredScope": " a b "})
    assert refused.value.required == ("a", "b")


def test_a_signed_token_is_not_an_unsecured_one() -> None:
    with pytest.raises(InvalidToken, match="'none' for an algorithm"):
        accepted(Issuer().token(), {})


@pytest.mark.parametrize("skew", ["-1", "1.5", "x"])
def test_the_clock_skew_is_a_number(skew: str) -> None:
    with pytest.raises(ValueError, match="unsecuredValidatorAllowableClockSkewMs"):
        UnsecuredRules.of_options({"unsecuredValidatorAllowableClockSkewMs": skew})


@pytest.mark.kafka
@pytest.mark.longer
@pytest.mark.timeout(600)
def test_both_accept_the_same(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    commands, cases = [], []
    now_s = int(time.time())
    for _ in range(TOKENS):
        token, options = random_token(rng, now_s), rng.choice(OPTIONS)
        words = [word for name, value in options.items() for word in (OF_VALIDATOR + name, value)]
        commands.append("\t".join(("unsecured", token, *words)))
        cases.append((token, options))
    outcomes = set()
    for (token, options), answer in zip(cases, kafkas_answers(kafka_libs, tmp_path, commands), strict=True):
        try:
            found = accepted(token, options, now_s * 1000)
            ours = ["accepted", found.principal, str(found.expires_at_ms), *sorted(found.scopes)]
        except InsufficientScope as refusal:
            ours = ["refused", "insufficient_scope", f"[{', '.join(refusal.required)}]"]
        except InvalidToken:
            ours = ["refused", "invalid_token", "null"]
        outcomes.add(tuple(ours[:2]))
        if answer[0] == "failed":
            assert ours[0] == "refused", "Kafka fails with another exception"
        else:
            assert answer == ours, (json.dumps(options), token)
    assert {("refused", "insufficient_scope"), ("refused", "invalid_token")} < outcomes


def random_token(rng: random.Random, now_s: int) -> str:
    claims: dict[str, Any] = Issuer().claims(
        iat=now_s - 100,
        azp="bert",
        scope=rng.choice(("a", ["a", "b"])),
        scp=rng.choice((["a", "b", "c"], "a", ["b"])),
    )
    changes: dict[str, list[Any]] = {
        "sub": ["", " ", " ann ", None, 7],
        "azp": ["", None, ["a"]],
        "exp": [now_s - 30, now_s - 3600, now_s + 600.75, None, "soon"],
        "iat": [now_s + 30, now_s + 3600, None, "now"],
        "scope": [None, [], "", ["", " a "], 7],
        "scp": [None, [], "a b"],
    }
    for name, values in changes.items():
        if rng.random() < 0.15:
            claims[name] = rng.choice(values)
    claims = {name: value for name, value in claims.items() if value is not None}
    header = rng.choice(({"alg": "none"},) * 8 + ({"alg": "NONE"}, {"alg": "HS256"}, {"alg": "none", "x": 1}))
    token = unsigned(claims, header, rng.choice(("",) * 9 + ("AA",)))
    damaged = (token[:-1], token + ".", token.replace(".", "..", 1))
    return token if rng.random() < 0.95 else rng.choice(damaged)
