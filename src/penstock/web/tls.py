"""TLS of a web server: its certificate, and the protocols that clients may choose by ALPN (RFC 7301)."""

from __future__ import annotations

import ssl
from pathlib import Path


def server_context(certificate: Path, key: Path | None = None, *, http2: bool = False) -> ssl.SSLContext:
    """The TLS context of a server. Raises ValueError.

    ``certificate`` is a PEM file with the chain, and with the key unless ``key`` has it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        files = certificate if key is None else f"{certificate} and {key}"
        raise ValueError(f"cannot read a certificate and its key from {files}: {error}") from None
    offer(context, http2=http2)
    return context


def offer(context: ssl.SSLContext, *, http2: bool = False) -> None:
    """Offer HTTP/1.1 to clients by ALPN, and HTTP/2 if the server speaks it."""
    context.set_alpn_protocols([*(["h2"] if http2 else []), "http/1.1"])


def _no_password() -> str:
    raise ValueError("the key is encrypted: expected a key without a password")
