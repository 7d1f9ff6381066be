"""The TLS settings of one listener or client, under the names of Kafka's ``ssl.…`` configs.

Configs that only choose classes of Java (``ssl.provider``, ``ssl.engine.factory.class`` and the like) have no
meaning here. The combinations of stores that Apache Kafka's DefaultSslEngineFactory refuses are refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, cast

from penstock.security.tls.errors import InvalidStore, InvalidTls

PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
CLIENT_AUTH: Final = ("none", "requested", "required")
_CONFIGS: Final = {
    "protocol": "ssl.protocol",
    "enabled_protocols": "ssl.enabled.protocols",
    "cipher_suites": "ssl.cipher.suites",
    "keystore_type": "ssl.keystore.type",
    "keystore_location": "ssl.keystore.location",
    "keystore_password": "ssl.keystore.password",
    "keystore_key": "ssl.keystore.key",
    "keystore_certificate_chain": "ssl.keystore.certificate.chain",
    "key_password": "ssl.key.password",
    "truststore_type": "ssl.truststore.type",
    "truststore_location": "ssl.truststore.location",
    "truststore_password": "ssl.truststore.password",
    "truststore_certificates": "ssl.truststore.certificates",
    "endpoint_identification_algorithm": "ssl.endpoint.identification.algorithm",
    "client_auth": "ssl.client.auth",
    "allow_dn_changes": "ssl.allow.dn.changes",
    "allow_san_changes": "ssl.allow.san.changes",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsSettings:
    """The settings of one listener or client. Hashable; ``repr`` shows no keys and passwords.

    A store's type is PEM, PKCS12, JKS, or None: whatever the file holds. Under JKS, Kafka's default, Java
    reads PKCS12 as well, and so does `stores`. Raises InvalidTls.
    """

    protocol: str = "TLSv1.3"
    enabled_protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    keystore_type: str | None = "JKS"
    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    truststore_type: str | None = "JKS"
    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = field(default=None, repr=False)
    endpoint_identification_algorithm: str = "https"
    client_auth: str = "none"
    allow_dn_changes: bool = False
    allow_san_changes: bool = False

    @classmethod
    def from_configs(cls, get: Callable[[str], object], *, store_type: str | None = "JKS") -> TlsSettings:
        """Read the settings from parsed configs; ``get`` returns None for a config that is not set.

        ``store_type`` is the type of stores for which none is set. Raises InvalidTls.
        """
        values: dict[str, object] = {"keystore_type": store_type, "truststore_type": store_type}
        for name, config in _CONFIGS.items():
            value = get(config)
            if value is None:
                continue
            if name in ("enabled_protocols", "cipher_suites"):
                value = tuple(cast(Iterable[str], value))
            elif name in ("keystore_type", "truststore_type"):
                value = str(value).upper()
            elif name in ("client_auth", "endpoint_identification_algorithm"):
                value = str(value).lower()
            values[name] = value
        return cls(**values)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        _check_choice("ssl.client.auth", self.client_auth, CLIENT_AUTH)
        if self.endpoint_identification_algorithm not in ("https", ""):
            found = self.endpoint_identification_algorithm
            raise InvalidTls(
                f"'ssl.endpoint.identification.algorithm' is {found!r}: expected https, or an empty text "
                "to accept any host name"
            )
        _check_choice("ssl.protocol", self.protocol, ("TLS", *PROTOCOLS))
        for protocol in self.enabled_protocols:
            _check_choice("ssl.enabled.protocols", protocol, PROTOCOLS)
        for config, kind in (
            ("ssl.keystore.type", self.keystore_type),
            ("ssl.truststore.type", self.truststore_type),
        ):
            if kind is not None:
                _check_choice(config, kind, STORE_TYPES)
        self._check_key_store()
        self._check_trust_store()

    @property
    def protocols(self) -> tuple[str, ...]:
        """The versions that may be negotiated, oldest first; never empty.

        Without ``ssl.enabled.protocols``, these are the versions up to ``ssl.protocol``, as in Java.
        """
        if self.enabled_protocols:
            return tuple(each for each in PROTOCOLS if each in self.enabled_protocols)
        return PROTOCOLS[:1] if self.protocol == "TLSv1.2" else PROTOCOLS

    @property
    def has_key_store(self) -> bool:
        return self.keystore_location is not None or self.keystore_key is not None

    @property
    def has_trust_store(self) -> bool:
        return self.truststore_location is not None or self.truststore_certificates is not None

    def _check_key_store(self) -> None:
        key, chain = self.keystore_key, self.keystore_certificate_chain
        if (key is None) != (chain is None):
            raise InvalidStore(
                "'ssl.keystore.certificate.chain' and 'ssl.keystore.key' must be set together: found one"
            )
        if key is not None:
            _check_inline("keystore", "certificate.chain", self.keystore_type, self.keystore_location)
        is_pem = key is not None or (self.keystore_type == "PEM" and self.keystore_location is not None)
        if is_pem and self.keystore_password is not None:
            raise InvalidStore(PASSWORD_OF_PEM_KEYS)
        if self.keystore_location is None and self.keystore_password is not None:
            raise InvalidStore("'ssl.keystore.password' is set: expected 'ssl.keystore.location' as well")
        is_named = self.keystore_type not in ("PEM", None) and self.keystore_location is not None
        if is_named and self.keystore_password is None:
            raise InvalidStore("'ssl.keystore.location' is set: expected 'ssl.keystore.password' as well")

    def _check_trust_store(self) -> None:
        certificates, location = self.truststore_certificates, self.truststore_location
        if certificates is not None:
            _check_inline("truststore", "certificates", self.truststore_type, location)
        is_pem = certificates is not None or (self.truststore_type == "PEM" and location is not None)
        if is_pem and self.truststore_password is not None:
            raise InvalidStore(PASSWORD_OF_PEM_CERTIFICATES)
        if location is None and self.truststore_password is not None:
            raise InvalidStore("'ssl.truststore.password' is set: expected 'ssl.truststore.location' as well")


PASSWORD_OF_PEM_KEYS: Final = (
    "'ssl.keystore.password' is set for a PEM store: expected 'ssl.key.password', because only the key of "
    "such a store is encrypted"
)
PASSWORD_OF_PEM_CERTIFICATES: Final = (
    "'ssl.truststore.password' is set for a PEM store: expected none, because certificates in PEM form are "
    "not encrypted"
)


def _check_choice(config: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidTls(f"'{config}' has {value!r}: expected one of {', '.join(choices)}")


def _check_inline(store: str, contents: str, kind: str | None, location: str | None) -> None:
    if kind not in ("PEM", None):
        raise InvalidStore(f"'ssl.{store}.{contents}' is set: expected 'ssl.{store}.type' PEM, found {kind}")
    if location is not None:
        raise InvalidStore(f"'ssl.{store}.location' and 'ssl.{store}.{contents}' exclude each other")
