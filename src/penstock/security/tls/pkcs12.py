"""Reading PKCS12 files (RFC 7292) with `cryptography`.

The package is imported only when such a file is read, because the import takes 60 ms. It does not limit the
iterations with which a file derives keys from the password: with 2**31, the most, it blocks the whole process
for five minutes. Only a parser of PKCS12 could find all these counts before, and a node depends on its files
of keys and authorities anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


class Pkcs12Error(ValueError):
    """A file that is damaged or not supported, or that the password does not open; these look the same."""


@dataclass(frozen=True, slots=True)
class Pkcs12:
    """The contents of a file: its key, in PEM form and not encrypted, and its certificates, as DER.

    ``chain`` begins with the key's own certificate; without a key, it is empty. ``others`` are the rest.
    """

    key: str | None = field(repr=False)
    chain: tuple[bytes, ...]
    others: tuple[bytes, ...]


def read_pkcs12(data: bytes, password: str | None) -> Pkcs12:
    """Read a file. Of several keys, it returns the first, which must have the file's password.

    Files without a password, which Java writes since version 18, are read without one. Raises Pkcs12Error.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        held = load_pkcs12(data, None if password is None else password.encode())
        others = [each.certificate for each in held.additional_certs]
        chain = [] if held.cert is None else _chain(held.cert.certificate, others)
        key = held.key and held.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    except Exception as error:  # several exceptions of the package have no other common class
        raise Pkcs12Error(str(error)) from None
    return Pkcs12(
        key.decode() if key else None,
        tuple(each.public_bytes(Encoding.DER) for each in chain),
        tuple(each.public_bytes(Encoding.DER) for each in others if each not in chain),
    )


def _chain(certificate: Certificate, others: list[Certificate]) -> list[Certificate]:
    """The certificate, its issuer's, and so on: with several keys, ``others`` are certificates of all."""
    chain = [certificate]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [each for each in others if each.subject == chain[-1].issuer and each not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain
