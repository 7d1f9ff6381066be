"""The stores of a listener or client: its own key, and the certificates that it trusts.

A store is a PEM file, a PKCS12 file or text in a config (KIP-651). A file's format is found by its bytes,
since Java reads and writes PKCS12 under the type JKS, too. Java's former formats JKS and JCEKS are refused:
`keytool` converts them. All contents are read at once, because the files may be replaced while a listener
uses them.
"""

from __future__ import annotations

import shlex
import ssl
from dataclasses import dataclass, field
from typing import Final

from penstock.security.tls.der import DerError
from penstock.security.tls.errors import InvalidStore
from penstock.security.tls.identities import Identity, NoPassword
from penstock.security.tls.names import distinguished_name, subject_of
from penstock.security.tls.pem import MARK, Section, sections
from penstock.security.tls.pkcs12 import Pkcs12, Pkcs12Error, read_pkcs12
from penstock.security.tls.settings import PASSWORD_OF_PEM_CERTIFICATES, PASSWORD_OF_PEM_KEYS, TlsSettings

_JAVA_FORMATS: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_STORE_BYTES_MAX: Final = 16 << 20
"""Larger files are not read: a system's whole list of authorities has 250 KB."""


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The certificates, as DER, whose holders and issuers are trusted; at least one."""

    certificates: tuple[bytes, ...] = field(repr=False)

    def load(self, context: ssl.SSLContext) -> None:
        """Let the context trust each certificate by itself: to Java, every one in a trust store is an anchor.

        Raises SSLError.
        """
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        for certificate in self.certificates:
            context.load_verify_locations(cadata=certificate)


@dataclass(frozen=True, slots=True)
class Stores:
    """The contents of both stores at the time when they were read. Equal stores make equal contexts."""

    settings: TlsSettings
    identity: Identity | None
    trusted: TrustStore | None

    @classmethod
    def read(cls, settings: TlsSettings) -> Stores:
        """Read both stores. Raises InvalidStore."""
        return cls(settings, key_store(settings), trust_store(settings))


def key_store(settings: TlsSettings) -> Identity | None:
    """Read the key with its certificates; None if no config names a key store.

    Of several keys in a PKCS12 file, it is the first. The key fits its certificate. Raises InvalidStore.
    """
    config, location = "ssl.keystore.location", settings.keystore_location
    if settings.keystore_key is not None:
        chain = _sections("ssl.keystore.certificate.chain", None, settings.keystore_certificate_chain or "")
        key = _sections("ssl.keystore.key", None, settings.keystore_key)
        identity = _identity("'ssl.keystore.key'", key, chain, settings)
    elif location is None:
        return None
    else:
        content = _content(config, location, settings.keystore_type)
        if isinstance(content, str):
            if settings.keystore_password is not None:
                raise InvalidStore(PASSWORD_OF_PEM_KEYS)
            found = _sections(config, location, content)
            identity = _identity(f"'{config}': {location!r}", found, found, settings)
        else:
            identity = _pkcs12_identity(location, content, settings)
    _check(identity, location)
    return identity


def trust_store(settings: TlsSettings) -> TrustStore | None:
    """Read the trust store; None if no config names one. Raises InvalidStore."""
    location = settings.truststore_location
    config = "ssl.truststore.location"
    if settings.truststore_certificates is not None:
        config = "ssl.truststore.certificates"
        found = _certificates(_sections(config, None, settings.truststore_certificates))
    elif location is None:
        return None
    else:
        content = _content(config, location, settings.truststore_type)
        if isinstance(content, str):
            if settings.truststore_password is not None:
                raise InvalidStore(PASSWORD_OF_PEM_CERTIFICATES)
            found = _certificates(_sections(config, location, content))
        else:
            held = _pkcs12(config, location, content, settings.truststore_password)
            if held.key is not None:
                raise InvalidStore(
                    f"'{config}': {location!r} has a private key: expected only trusted certificates, since "
                    "those in the key's chain can't be told from them"
                )
            found = held.others
    if not found:
        raise InvalidStore(f"{_place(config, location)} has no certificate: expected at least one")
    trusted = TrustStore(tuple(dict.fromkeys(found)))
    try:
        trusted.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    except ssl.SSLError as error:
        raise InvalidStore(
            f"{_place(config, location)} has a damaged certificate: {_reason(error)}"
        ) from None
    return trusted


def _content(config: str, path: str, kind: str | None) -> str | bytes:
    """Read a store: text for PEM, bytes for PKCS12."""
    try:
        with open(path, "rb") as file:
            data = file.read(_STORE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidStore(f"'{config}': {path!r} can't be read: {reason}") from None
    expected = "PEM or PKCS12" if kind is None else "PKCS12" if kind == "JKS" else kind
    kind_config = config.replace("location", "type")
    if MARK in data:
        if kind in ("PKCS12", "JKS"):
            raise InvalidStore(f"'{config}': {path!r} is PEM: expected '{kind_config}' PEM, found {kind}")
        return data.decode(errors="replace")
    found = _JAVA_FORMATS.get(data[:4])
    if found is not None:
        raise InvalidStore(
            f"'{config}': {path!r} is a {found} store: expected {expected}. Convert it with 'keytool "
            f"-importkeystore -srckeystore {shlex.quote(path)} -destkeystore {shlex.quote(f'{path}.p12')} "
            "-deststoretype pkcs12'"
        )
    if len(data) > _STORE_BYTES_MAX or data[:1] != b"\x30":
        raise InvalidStore(f"'{config}': {path!r} is neither PEM nor PKCS12: expected {expected}")
    if kind == "PEM":
        raise InvalidStore(
            f"'{config}': {path!r} is not PEM, but looks like PKCS12: expected '{kind_config}' PKCS12, "
            "found PEM"
        )
    return data


def _sections(config: str, path: str | None, text: str) -> list[Section]:
    try:
        return list(sections(text))
    except DerError as error:
        raise InvalidStore(f"{_place(config, path)} is damaged: {error}") from None


def _pkcs12(config: str, path: str, content: bytes, password: str | None) -> Pkcs12:
    try:
        return read_pkcs12(content, password)
    except Pkcs12Error as error:
        opened_by = f"{'without' if password is None else 'with'} '{config.replace('location', 'password')}'"
        raise InvalidStore(
            f"'{config}': {path!r} can't be read as PKCS12 {opened_by}: {error}. A file that 'keytool "
            "-importkeystore' of Java 17 writes can be read, if its keys have the file's password"
        ) from None


def _pkcs12_identity(path: str, content: bytes, settings: TlsSettings) -> Identity:
    config, password = "ssl.keystore.location", settings.keystore_password
    if password is None:
        raise InvalidStore(f"'{config}' names a PKCS12 store: expected 'ssl.keystore.password' as well")
    if settings.key_password not in (None, password):
        raise InvalidStore(
            f"'ssl.key.password' is not 'ssl.keystore.password': expected the same, or none, since {path!r} "
            "is PKCS12, in which keys have the file's password"
        )
    held = _pkcs12(config, path, content, password)
    if held.key is None:
        raise InvalidStore(f"'{config}': {path!r} has no private key")
    if not held.chain:
        raise InvalidStore(f"'{config}': {path!r} has no certificate that belongs to its key")
    return Identity(held.key, held.chain)


def _identity(place: str, key: list[Section], chain: list[Section], settings: TlsSettings) -> Identity:
    keys = [section for section in key if section.label.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise InvalidStore(f"{place} has {len(keys)} private keys: expected one")
    certificates = _certificates(chain)
    if not certificates:
        raise InvalidStore(f"{place} has no certificate: expected the key's own, and those of its issuers")
    return Identity(keys[0].text, certificates, settings.key_password)


def _certificates(found: list[Section]) -> tuple[bytes, ...]:
    return tuple(section.data for section in found if section.label == "CERTIFICATE")


def _check(identity: Identity, path: str | None) -> None:
    """Check that key and certificate fit, and that the certificate's name can be read."""
    place = "'ssl.keystore.key'" if path is None else f"'ssl.keystore.location': {path!r}"
    try:
        distinguished_name(subject_of(identity.chain[0]))
        identity.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    except NoPassword:
        raise InvalidStore(f"{place} has an encrypted key: 'ssl.key.password' is missing") from None
    except DerError as error:
        raise InvalidStore(f"{place} has a damaged certificate: {error}") from None
    except ssl.SSLError as error:
        reason = _reason(error)
        if identity.password is not None:
            raise InvalidStore(
                f"{place}: the key can't be used with its certificate, or 'ssl.key.password' is wrong: "
                f"{reason}"
            ) from None
        raise InvalidStore(f"{place}: the key can't be used with its certificate: {reason}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _place(config: str, path: str | None) -> str:
    return f"'{config}'" if path is None else f"'{config}': {path!r}"
