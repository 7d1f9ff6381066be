"""A client's own bearer token: fetched from an issuer, kept, and fetched again before it expires.

The times are those of Kafka's ExpiringCredentialRefreshingLogin, which has a thread for them. Here the login
that finds the token due fetches the next one; a connection logs in again before its session, which is as long
as the token, ends.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from penstock.security.oauth.errors import TokenUnavailable
from penstock.security.tokens.compact import InvalidToken, JsonObject, parse_compact
from penstock.security.tokens.validation import date_s

log = logging.getLogger(__name__)

_AGAIN_AFTER_MS: Final = 10_000
"""The pause after a failed attempt while the last token is still good, as in Kafka."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshRules:
    """When a token is fetched again."""

    window_factor: float = 0.8
    """`sasl.login.refresh.window.factor`: the part of its life after which it is due."""
    window_jitter: float = 0.05
    """`sasl.login.refresh.window.jitter`: the part of its life that is added at random."""
    min_period_s: int = 60
    """`sasl.login.refresh.min.period.seconds`"""
    buffer_s: int = 300
    """`sasl.login.refresh.buffer.seconds`: the time that should be left then."""

    def due_at_ms(self, life: TokenLife, now_ms: int, chance: float) -> int:
        """When a token that was fetched now is due; ``chance`` is from 0 to 1."""
        part = self.window_factor + self.window_jitter * chance
        end_ms = life.expires_at_ms
        if now_ms + 1000 * (self.min_period_s + self.buffer_s) > end_ms:  # no room for the margins
            return now_ms + int((end_ms - now_ms) * part)
        start_ms = now_ms if life.issued_at_ms is None else life.issued_at_ms
        proposed_ms = min(start_ms + int((end_ms - start_ms) * part), end_ms - 1000 * self.buffer_s)
        return max(proposed_ms, now_ms + 1000 * self.min_period_s)


class TokenLife(NamedTuple):
    """The dates in a client's own token, on the issuer's clock."""

    issued_at_ms: int | None
    expires_at_ms: int


def life_of(token: str, principal_claim: str = "sub") -> TokenLife:
    """Read when a token expires, without verifying it, and check what Kafka's clients check.

    Raises TokenUnavailable.
    """
    try:
        claims: JsonObject = parse_compact(token).claims
        issued_s, expires_s = date_s(claims, "iat"), date_s(claims, "exp")
    except InvalidToken as error:
        raise TokenUnavailable(f"the issuer's token is not one for Kafka: {error}") from None
    if expires_s is None or not claims.get(principal_claim):
        missing = "exp" if expires_s is None else principal_claim
        raise TokenUnavailable(f"the issuer's token is not one for Kafka: it has no {missing}")
    return TokenLife(None if issued_s is None else issued_s * 1000, expires_s * 1000)


class FileToken:
    """The token in a file, which something else renews; it is read for each login."""

    def __init__(self, path: Path, principal_claim: str) -> None:
        self._path = path
        self._principal_claim = principal_claim

    def __call__(self) -> str:
        """Return the token. Raises TokenUnavailable."""
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenUnavailable(f"the token in {self._path} cannot be read: {error}") from None
        life_of(token, self._principal_claim)
        return token


class KeptToken:
    """A token that is fetched when it is due, for all connections that log in with it. Thread-safe."""

    def __init__(
        self,
        fetch: Callable[[], str],
        rules: RefreshRules,
        principal_claim: str = "sub",
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._fetch = fetch
        self._rules = rules
        self._principal_claim = principal_claim
        self._clock_ms = clock_ms
        self._chance = chance
        self._lock = threading.Lock()
        self._token = ""
        self._expires_at_ms = 0
        self._due_at_ms = 0

    def __call__(self) -> str:
        """Return the token; if it is due, this fetches the next one and blocks. Raises TokenUnavailable."""
        with self._lock:
            now_ms = self._clock_ms()
            if now_ms >= self._due_at_ms:
                self._renew(now_ms)
            return self._token

    def _renew(self, now_ms: int) -> None:
        try:
            token = self._fetch()
            life = life_of(token, self._principal_claim)
        except TokenUnavailable as error:
            if now_ms >= self._expires_at_ms:
                raise
            log.warning("token not fetched, the last one is still good reason=%s", error)
            self._due_at_ms = now_ms + _AGAIN_AFTER_MS
            return
        self._token, self._expires_at_ms = token, life.expires_at_ms
        self._due_at_ms = self._rules.due_at_ms(life, now_ms, self._chance())
