"""How connections are secured: TLS and SASL, under the property names of Kafka's Java clients.

Keys and certificates are in PEM or PKCS12 files, or PEM in the properties themselves (KIP-651). A file's type
is found by its bytes, so that ``ssl.truststore.type`` and ``ssl.keystore.type`` are not necessary. Host names
are verified unless ``ssl.endpoint.identification.algorithm`` is empty. Spark executors need the files under
the same paths; certificates in the properties need no files.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from penstock.client.security.kerberos_config import kerberos_login
from penstock.client.security.oauth_config import OAuthConfig, token_login
from penstock.client.settings import ConfigError, setting, text
from penstock.security.kerberos.settings import SERVICE_NAME
from penstock.security.sasl.clients import GSSAPI, MECHANISMS, OAUTHBEARER, Credentials, Login, parse_login
from penstock.security.sasl.jaas import EXPECTED, parse_jaas
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.settings import PROTOCOLS, STORE_TYPES, TlsSettings

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PEM: Final = "-----BEGIN "


def _protocol(value: str) -> str:
    if value.upper() not in _PROTOCOLS:
        raise ValueError(f"one of {', '.join(_PROTOCOLS)}")
    return value.upper()


def _mechanism(value: str) -> str:
    if value.upper() not in MECHANISMS:
        raise ValueError(f"one of {', '.join(MECHANISMS)}")
    return value.upper()


def _store_type(value: str) -> str:
    if value.upper() not in STORE_TYPES:
        raise ValueError(f"one of {', '.join(STORE_TYPES)}")
    return value.upper()


def _names(value: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in value.split(","))))


def _pem(value: str) -> str:
    if _PEM not in value:
        raise ValueError("PEM, beginning with -----BEGIN")
    return value


def _jaas(value: str) -> str:
    parse_jaas(value)
    return value


def _identification(value: str) -> str:
    if value.lower() not in ("https", ""):
        raise ValueError("https, or an empty text to accept any host name")
    return value.lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class SecurityConfig(OAuthConfig):
    """Settings of TLS and SASL. Hashable; ``repr`` does not show keys and passwords."""

    security_protocol: str = setting("security.protocol", "PLAINTEXT", _protocol)
    tls_protocol: str = setting("ssl.protocol", "TLSv1.3", text)
    enabled_protocols: tuple[str, ...] = setting("ssl.enabled.protocols", PROTOCOLS, _names)
    cipher_suites: tuple[str, ...] = setting("ssl.cipher.suites", (), _names)
    truststore_type: str | None = setting("ssl.truststore.type", None, _store_type)
    truststore_location: str | None = setting("ssl.truststore.location", None, text)
    truststore_password: str | None = setting("ssl.truststore.password", None, text, is_secret=True)
    truststore_certificates: str | None = setting("ssl.truststore.certificates", None, _pem)
    keystore_type: str | None = setting("ssl.keystore.type", None, _store_type)
    keystore_location: str | None = setting("ssl.keystore.location", None, text)
    keystore_password: str | None = setting("ssl.keystore.password", None, text, is_secret=True)
    keystore_chain: str | None = setting("ssl.keystore.certificate.chain", None, _pem)
    keystore_key: str | None = setting("ssl.keystore.key", None, _pem, is_secret=True)
    key_password: str | None = setting("ssl.key.password", None, text, is_secret=True)
    identification: str = setting("ssl.endpoint.identification.algorithm", "https", _identification)
    sasl_mechanism: str | None = setting("sasl.mechanism", None, _mechanism)
    jaas: str | None = setting("sasl.jaas.config", None, _jaas, is_secret=True)
    kerberos_service_name: str | None = setting(SERVICE_NAME, None, text)

    def __post_init__(self) -> None:
        if self.uses_sasl:
            self._check_login()
        try:
            _ = self.tls_settings
        except InvalidTls as error:
            raise ConfigError(str(error)) from None

    @property
    def tls_settings(self) -> TlsSettings:
        """The settings of TLS alone."""
        return TlsSettings(
            protocol=self.tls_protocol,
            enabled_protocols=self.enabled_protocols,
            cipher_suites=self.cipher_suites,
            keystore_type=self.keystore_type,
            keystore_location=self.keystore_location,
            keystore_password=self.keystore_password,
            keystore_key=self.keystore_key,
            keystore_certificate_chain=self.keystore_chain,
            key_password=self.key_password,
            truststore_type=self.truststore_type,
            truststore_location=self.truststore_location,
            truststore_password=self.truststore_password,
            truststore_certificates=self.truststore_certificates,
            endpoint_identification_algorithm=self.identification,
        )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def login(self) -> Login | None:
        """The user that SASL authenticates by a password; None without one."""
        if self.jaas is None or self.sasl_mechanism in (OAUTHBEARER, GSSAPI):
            return None
        return parse_login(self.jaas)

    def credentials(self, host: str) -> Credentials:
        """Return the user, the token of now, or a ticket for the service on a host.

        This may wait for the server that has tokens or tickets. Raises LoginUnavailable.
        """
        if self.sasl_mechanism == OAUTHBEARER:
            return token_login(self.of_oauth(), self.jaas)()
        if self.sasl_mechanism == GSSAPI:
            return kerberos_login(self.jaas, self.kerberos_service_name)(host)
        login = self.login
        assert login is not None, "the settings are checked"
        return login

    def _check_login(self) -> None:
        """Check that SASL has what it needs. Raises ConfigError, MissingExtra."""
        if self.sasl_mechanism == OAUTHBEARER:
            token_login(self.of_oauth(), self.jaas)
            return
        if self.sasl_mechanism == GSSAPI:
            kerberos_login(self.jaas, self.kerberos_service_name)
            return
        if self.sasl_mechanism is None or self.jaas is None:
            missing = "sasl.mechanism" if self.sasl_mechanism is None else "sasl.jaas.config"
            raise ConfigError(f"'security.protocol' {self.security_protocol} needs '{missing}'")
        try:
            parse_login(self.jaas)
        except ValueError:
            raise ConfigError(f"invalid value for 'sasl.jaas.config': expected {EXPECTED}") from None


@lru_cache(maxsize=16)
def tls_context(config: SecurityConfig) -> ssl.SSLContext:
    """The TLS context, made once for each configuration.

    Without a truststore the system's certificate authorities are trusted. Raises ConfigError.
    """
    from penstock.security.tls.contexts import (
        client_context,
    )  # 15 ms, which clients without TLS need not wait for

    try:
        return client_context(config.tls_settings)
    except InvalidTls as error:
        raise ConfigError(str(error)) from None
