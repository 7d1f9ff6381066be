"""A throw-away certificate authority: its own certificate, and those that it issues, as PEM files.

Keys are of the curve P-256, which take a fraction of a millisecond to make.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.testing.security.private import write_secret

_VALID: Final = datetime.timedelta(days=3650)
_CLOCK_SKEW: Final = datetime.timedelta(days=1)


class Authority:
    """An authority whose files are in ``directory``. The directory's files are read if it has them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.certificate_file = directory / "authority.pem"
        key_file = directory / "authority.key"
        if not key_file.exists():
            key, certificate = _new_authority()
            self.certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
            write_secret(key_file, _pem(key))
        loaded = load_pem_private_key(key_file.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key = loaded
        self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())

    def store(self, name: str, *hosts: str) -> Path:
        """The PEM file with a key and its certificate, issued at the first call.

        The certificate names CN=name, and ``hosts``, which are IP addresses or host names.
        """
        file = self._directory / f"{quote(name, safe='')}.store.pem"
        if not file.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = self._issued(key, name, hosts)
            write_secret(file, _pem(key) + certificate.public_bytes(Encoding.PEM))
        return file

    def _issued(self, key: ec.EllipticCurvePrivateKey, name: str, hosts: tuple[str, ...]) -> x509.Certificate:
        builder = (
            _builder(_named(name), self._certificate.subject, key.public_key(), self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _new_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("Penstock test authority")
    builder = _builder(name, name, key.public_key(), key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(is_authority=True), critical=True)
    return key, builder.sign(key, hashes.SHA256())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    """A certificate with what all have; from Python 3.13 on, clients demand the identifiers of keys."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
