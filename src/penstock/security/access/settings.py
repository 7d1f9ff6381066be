"""The settings of access to an HTTP server, under the names of Confluent's servers.

The schema registry, ksqlDB and Confluent's other servers share these names, and so do the servers here. A
node has them with the prefix ``penstock.metrics.``. The names that Confluent's servers do not have begin
with ``penstock.``.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.security.access.access import Access, by_password
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.users import Users, UsersFile
from penstock.security.oauth.errors import InvalidOAuth
from penstock.security.oauth.names import (
    EXPECTED_AUDIENCE,
    EXPECTED_ISSUER,
    JWKS_URL,
    PRINCIPAL_CLAIM,
    SCOPE_CLAIM,
)
from penstock.security.oauth.validator import TokenValidator, read_validator
from penstock.security.tls.contexts import ask_for_certificates, server_context
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.principals import SslPrincipals
from penstock.security.tls.settings import CLIENT_AUTH, TlsSettings

METHOD: Final = "authentication.method"
ROLES: Final = "authentication.roles"
REALM: Final = "authentication.realm"
SKIP_PATHS: Final = "authentication.skip.paths"
USERS: Final = "penstock.authentication.users"
CLIENT_AUTHENTICATION: Final = "ssl.client.authentication"
PRINCIPAL_RULES: Final = "ssl.principal.mapping.rules"
METHODS: Final = ("none", "basic", "bearer")
JWKS_STORE: Final = "penstock.authentication.jwks."
"""The prefix of the settings of the trust store for the issuer's endpoint."""
_NUMBERS: Final = (
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
)
ISSUER_SETTINGS: Final = (JWKS_URL, EXPECTED_ISSUER, EXPECTED_AUDIENCE, *_NUMBERS)
TOKEN_SETTINGS: Final = (*ISSUER_SETTINGS, PRINCIPAL_CLAIM, SCOPE_CLAIM)
"""The settings of bearer tokens, under Kafka's names. Clients of Kafka have the last two as well."""
JWKS_STORE_SETTINGS: Final = tuple(
    f"{JWKS_STORE}ssl.truststore.{each}" for each in ("location", "type", "password")
)

_LISTS: Final = ("ssl.enabled.protocols", "ssl.cipher.suites")

Get = Callable[[str], object]
"""Returns the value of a config as text, or a list of texts; None if it is not set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessSettings:
    """The settings of one server. ``tls`` has its key store and trust store, with or without HTTPS."""

    methods: tuple[str, ...] = ()
    roles: tuple[str, ...] = ("*",)
    realm: str = ""
    skip_paths: tuple[str, ...] = ()
    users_file: str | None = None
    principal_rules: str | None = None
    tls: TlsSettings = field(default_factory=TlsSettings)
    tokens: TokenValidator | None = None

    @classmethod
    def from_configs(cls, get: Get, *, realm: str = "") -> AccessSettings:
        """Read the settings; ``realm`` is the default of that setting. Raises InvalidAccess."""
        methods = parse_methods(get(METHOD))
        client_auth = _choice(CLIENT_AUTHENTICATION, get, CLIENT_AUTH)
        given_realm, users_file, rules = get(REALM), get(USERS), get(PRINCIPAL_RULES)
        try:
            tls = TlsSettings.from_configs(lambda name: _of_tls(get, name, client_auth), store_type=None)
        except InvalidTls as error:
            raise InvalidAccess(str(error)) from None
        settings = cls(
            methods=methods,
            roles=_listed(get(ROLES)) or ("*",),
            realm=realm if given_realm is None else str(given_realm),
            skip_paths=_listed(get(SKIP_PATHS)),
            users_file=None if users_file in (None, "") else str(users_file),
            principal_rules=None if rules is None else str(rules),
            tls=tls,
            tokens=_token_validator(get) if "bearer" in methods else None,
        )
        settings._check()
        return settings

    def _check(self) -> None:
        if self.methods and self.users_file is None:
            shown = ",".join(self.methods).upper()
            raise InvalidAccess(f"'{METHOD}' {shown} and '{USERS}' go together: found one of them")
        if not self.methods and self.users_file is not None and self.tls.client_auth == "none":
            raise InvalidAccess(
                f"'{USERS}' is set, and '{METHOD}' is NONE, but BASIC or BEARER and '{USERS}' go together, "
                f"or '{CLIENT_AUTHENTICATION}' and '{USERS}': found one of them"
            )

    def is_guarded(self, *, is_tls: bool) -> bool:
        """Whether every client shows a password or a certificate."""
        return self.users_file is not None or (is_tls and self.tls.client_auth == "required")

    @property
    def open_paths(self) -> re.Pattern[str]:
        """The pattern of the paths that are exempt; ``*`` in one stands for any characters."""
        return open_paths(*self.skip_paths)

    def tls_context(self) -> ssl.SSLContext:
        """The context of a server with HTTPS. Raises InvalidAccess."""
        if not self.tls.has_key_store:
            raise InvalidAccess("HTTPS needs a key: expected 'ssl.keystore.location' as well")
        self._require_trust_store()
        try:
            return server_context(self.tls)
        except InvalidTls as error:
            raise InvalidAccess(str(error)) from None

    def ask_for_certificates(self, context: ssl.SSLContext) -> None:
        """Let a server with another context ask its clients for certificates. Raises InvalidAccess."""
        self._require_trust_store()
        try:
            ask_for_certificates(context, self.tls)
        except InvalidTls as error:
            raise InvalidAccess(str(error)) from None

    def _require_trust_store(self) -> None:
        if self.tls.client_auth != "none" and not self.tls.has_trust_store:
            raise InvalidAccess(
                f"'{CLIENT_AUTHENTICATION}' is {self.tls.client_auth.upper()}: expected "
                "'ssl.truststore.location' as well"
            )

    def access(self, *, is_tls: bool, takes_prefixes: bool = False) -> Access:
        """Read the users. Raises InvalidAccess.

        ``takes_prefixes`` says whether roles may be limited by prefixes, which only the registry knows.
        """
        if self.users_file is None:
            return Access()
        if not self.methods and not is_tls:
            raise InvalidAccess(f"'{CLIENT_AUTHENTICATION}' needs HTTPS, and without it nobody could come in")

        def check(users: Users) -> None:
            if users.prefixes and not takes_prefixes:
                raise InvalidAccess(
                    f"found a role for {min(users.prefixes)!r}, expected roles without a prefix: only the "
                    "schema registry has subjects"
                )

        try:
            users = UsersFile(self.users_file, self.roles, check).current
        except InvalidAccess as error:
            raise InvalidAccess(f"'{USERS}': {error}") from None
        try:
            principals = SslPrincipals(self.principal_rules)
        except InvalidTls as error:
            raise InvalidAccess(str(error)) from None
        schemes = {"basic": by_password(users)} if "basic" in self.methods else {}
        return Access(users, schemes, principals, self.realm, self.tokens)


def parse_methods(value: object) -> tuple[str, ...]:
    """Parse the methods of authentication by a header; none for NONE. Raises InvalidAccess."""
    found = tuple(each.lower() for each in _listed(value))
    unknown = [each for each in found if each not in METHODS]
    if unknown or ("none" in found and len(found) > 1) or (value is not None and not found):
        told = f"invalid value {str(value)!r} for '{METHOD}'"
        raise InvalidAccess(f"{told}: expected one of {', '.join(METHODS)}, or basic,bearer")
    return () if "none" in found else found


def _token_validator(get: Get) -> TokenValidator:
    def parsed(name: str) -> object:
        value = get(name)
        if value is None or name not in (*_NUMBERS, EXPECTED_AUDIENCE):
            return value
        return _listed(value) if name == EXPECTED_AUDIENCE else _number(value)

    store = {name.removeprefix(JWKS_STORE): get(name) for name in JWKS_STORE_SETTINGS}
    options = {name: str(value) for name, value in store.items() if value is not None}
    try:
        return read_validator(parsed, options)
    except InvalidOAuth as error:
        raise InvalidAccess(f"'{METHOD}' is BEARER: {error}") from None


def _number(value: object) -> object:
    """A number in a text; what is none is returned, so that its error names it."""
    try:
        return int(str(value))
    except ValueError:
        return value


def open_paths(*paths: str) -> re.Pattern[str]:
    """The pattern of all these paths; ``*`` in one stands for any characters."""
    return re.compile("|".join(re.escape(each).replace(r"\*", ".*") for each in paths) or r"(?!)")


def _listed(value: object) -> tuple[str, ...]:
    parts = value if isinstance(value, list) else str(value or "").split(",")
    return tuple(filter(None, (str(each).strip() for each in parts)))


def _choice(name: str, get: Get, choices: tuple[str, ...]) -> str:
    found = get(name)
    value = choices[0] if found is None else str(found).strip().lower()
    if value not in choices:
        told = f"invalid value {str(found)!r} for '{name}'"
        raise InvalidAccess(f"{told}: expected one of {', '.join(choices)}")
    return value


def _of_tls(get: Get, name: str, client_auth: str) -> object:
    if name == "ssl.client.auth":
        return client_auth
    value = get(name)
    return list(_listed(value)) if name in _LISTS and value is not None else value
