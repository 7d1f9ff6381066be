"""A certificate authority for TLS tests and its certificates."""

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

KEY_PASSWORD = "of-the-key"
ORGANIZATION = {"organization_name": "Penstock", "organization_unit_name": "Tests"}


@dataclass(frozen=True)
class Identity:
    """PEM files: ``store`` has key and chain; in ``locked`` the key is encrypted with KEY_PASSWORD."""

    chain: Path
    key: Path
    store: Path
    locked: Path


class Authority:
    """An authority and its files. ``server`` is for 127.0.0.1 and localhost, ``elsewhere`` for another."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._authority = trustme.CA(**ORGANIZATION)
        self.certificate = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.certificate))
        self.server = self.issue("server", "127.0.0.1", "localhost")
        self.elsewhere = self.issue("elsewhere", "elsewhere.example")
        self.client = self.issue("client", "client")

    def issue(self, name: str, *hosts: str) -> Identity:
        """Create a certificate for these hosts, whose name is CN=name,OU=Tests,O=Penstock."""
        issued = self._authority.issue_cert(*hosts, common_name=name, **ORGANIZATION)
        chain, key, store, locked = (
            self._directory / f"{name}{ending}" for ending in (".pem", ".key", "-store.pem", "-locked.pem")
        )
        private = load_pem_private_key(issued.private_key_pem.bytes(), None)
        encryption = BestAvailableEncryption(KEY_PASSWORD.encode())
        plain = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        encrypted = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        certificates = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        chain.write_bytes(certificates)
        key.write_bytes(plain)
        store.write_bytes(plain + certificates)
        locked.write_bytes(encrypted + certificates)
        return Identity(chain, key, store, locked)
