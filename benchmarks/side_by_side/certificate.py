"""The certificate of rows over TLS, which both brokers show."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

CIPHER_SUITE = "TLS_AES_256_GCM_SHA384"
"""The suite of TLS 1.3 that both brokers choose for OpenSSL's clients, by default."""


def key_store(directory: Path) -> Path:
    """Return the PEM file with key and certificate, which the first call writes.

    The key is RSA with 2048 bits, as that of most certificates in use. Its signature, which every handshake
    makes, takes about ten times as long as one with a key on the curve P-256.
    """
    path = directory / "rsa-2048.pem"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        issued = trustme.CA().issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)
        private = load_pem_private_key(issued.private_key_pem.bytes(), None)
        key = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # Kafka reads no other
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(key + b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        unfinished.rename(path)
    return path
