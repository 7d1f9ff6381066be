"""How connections are secured: TLS and SASL, under the property names of Kafka's Java clients.

Certificates and keys are PEM (``ssl.truststore.type=PEM``, KIP-651), in files or in the properties
themselves; Java's own stores (JKS, PKCS12) are not read. Host names are verified unless
``ssl.endpoint.identification.algorithm`` is empty. Spark executors need the files under the same paths;
certificates in the properties need no files.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from penstock.client.security.sasl import MECHANISMS, Login, parse_jaas
from penstock.client.settings import ConfigError, setting, text

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PEM: Final = "-----BEGIN "
_HOW_TO_CONVERT: Final = (
    "Java's own stores are not read; 'keytool -exportcert -rfc' and 'openssl pkcs12' convert them"
)


def _protocol(value: str) -> str:
    if value.upper() not in _PROTOCOLS:
        raise ValueError(f"one of {', '.join(_PROTOCOLS)}")
    return value.upper()


def _mechanism(value: str) -> str:
    if value.upper() not in MECHANISMS:
        raise ValueError(f"one of {', '.join(MECHANISMS)}")
    return value.upper()


def _pem_type(value: str) -> str:
    if value.upper() != "PEM":
        raise ValueError(f"PEM. {_HOW_TO_CONVERT}")
    return "PEM"


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
class SecurityConfig:
    """Settings of TLS and SASL. Hashable; ``repr`` does not show keys and passwords."""

    security_protocol: str = setting("security.protocol", "PLAINTEXT", _protocol)
    truststore_type: str = setting("ssl.truststore.type", "PEM", _pem_type)
    truststore_location: str | None = setting("ssl.truststore.location", None, text)
    truststore_certificates: str | None = setting("ssl.truststore.certificates", None, _pem)
    keystore_type: str = setting("ssl.keystore.type", "PEM", _pem_type)
    keystore_location: str | None = setting("ssl.keystore.location", None, text)
    keystore_chain: str | None = setting("ssl.keystore.certificate.chain", None, _pem)
    keystore_key: str | None = setting("ssl.keystore.key", None, _pem, is_secret=True)
    key_password: str | None = setting("ssl.key.password", None, text, is_secret=True)
    identification: str = setting("ssl.endpoint.identification.algorithm", "https", _identification)
    sasl_mechanism: str | None = setting("sasl.mechanism", None, _mechanism)
    jaas: str | None = setting("sasl.jaas.config", None, _jaas, is_secret=True)

    def __post_init__(self) -> None:
        if self.uses_sasl and (self.sasl_mechanism is None or self.jaas is None):
            missing = "sasl.mechanism" if self.sasl_mechanism is None else "sasl.jaas.config"
            raise ConfigError(f"'security.protocol' {self.security_protocol} needs '{missing}'")
        if (self.keystore_chain is None) != (self.keystore_key is None):
            raise ConfigError(
                "'ssl.keystore.certificate.chain' and 'ssl.keystore.key' must be set together: found one"
            )
        for one, other, names in (
            (self.truststore_location, self.truststore_certificates, "truststore.certificates"),
            (self.keystore_location, self.keystore_chain, "keystore.certificate.chain"),
        ):
            if one is not None and other is not None:
                raise ConfigError(
                    f"'ssl.{names.partition('.')[0]}.location' and 'ssl.{names}' exclude each other"
                )

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def login(self) -> Login | None:
        """The user that SASL authenticates; None without one."""
        return None if self.jaas is None else parse_jaas(self.jaas)


@lru_cache(maxsize=16)
def tls_context(config: SecurityConfig) -> ssl.SSLContext:
    """The TLS context, made once for each configuration.

    Without a truststore the system's certificate authorities are trusted. Raises ConfigError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.identification == "https"
    if not load_truststore(context, config):
        context.load_default_certs()
    load_keystore(context, config)
    return context


def load_truststore(context: ssl.SSLContext, config: SecurityConfig) -> bool:
    """Load the truststore and return whether one is configured. Raises ConfigError."""
    trusted = config.truststore_certificates
    if config.truststore_location is not None:
        trusted = _read_pem(config.truststore_location, "ssl.truststore.location")
    if trusted is None:
        return False
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise ConfigError(f"the truststore has no readable certificates: {error}") from None
    return True


def load_keystore(context: ssl.SSLContext, config: SecurityConfig) -> bool:
    """Load the keystore and return whether one is configured. Raises ConfigError."""
    if config.keystore_location is not None:
        _load_key(context, _read_pem(config.keystore_location, "ssl.keystore.location"), config)
    elif config.keystore_chain is not None:
        _load_key(context, f"{config.keystore_key}\n{config.keystore_chain}", config)
    else:
        return False
    return True


def _read_pem(path: str, name: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"'{name}': {path!r} can't be read: {error.strerror}") from None
    if _PEM.encode() not in data:
        raise ConfigError(f"'{name}': {path!r} is not PEM. {_HOW_TO_CONVERT}")
    return data.decode(errors="replace")


def _load_key(context: ssl.SSLContext, pem: str, config: SecurityConfig) -> None:
    password = config.key_password

    def given_password() -> str:
        if password is None:
            raise ConfigError("the key of the keystore is encrypted: 'ssl.key.password' is missing")
        return password

    with _file_with(pem) as path:
        try:
            context.load_cert_chain(path, password=given_password)
        except ssl.SSLError as error:
            raise ConfigError(
                f"the keystore has no matching key and certificate, or 'ssl.key.password' is wrong: {error}"
            ) from None


@contextmanager
def _file_with(content: str) -> Iterator[str]:
    """Write a temporary file that only this user can read, since `ssl` loads keys only from files."""
    descriptor, path = tempfile.mkstemp(prefix="penstock-", suffix=".pem")
    try:
        with open(descriptor, "w") as file:
            file.write(content)
        yield path
    finally:
        os.unlink(path)
