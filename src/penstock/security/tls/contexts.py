"""Contexts of Python's `ssl` for listeners and clients."""

from __future__ import annotations

import ssl
from typing import Final

from penstock.security.tls.ciphers import choose
from penstock.security.tls.errors import InvalidStore
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings, stores: Stores | None = None) -> ssl.SSLContext:
    """The context of a listener. ``stores`` are those of the settings if they were read before.

    A listener whose key or trust store changes needs a new context. TLS 1.3 clients get no session tickets,
    and the tickets of TLS 1.2 are void with the context that has issued them, so that no session begun under
    the old stores resumes under the new ones. Raises InvalidTls.
    """
    stores = stores or Stores.read(settings)
    if stores.identity is None:
        raise InvalidStore(
            "a listener with TLS has no key: expected 'ssl.keystore.location' or 'ssl.keystore.key'"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # connections last, and a ticket would outlive the client's certificate
    choose(context, settings.protocols, settings.cipher_suites)
    stores.identity.load(context)
    ask_for_certificates(context, settings, stores)
    return context


def ask_for_certificates(
    context: ssl.SSLContext, settings: TlsSettings, stores: Stores | None = None
) -> None:
    """Let a listener ask its clients for certificates as the settings say. Raises InvalidTls."""
    stores = stores or Stores.read(settings)
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_auth != "none":
        if stores.trusted is None:
            raise InvalidStore(
                f"'ssl.client.auth' is {settings.client_auth}: expected 'ssl.truststore.location' or "
                "'ssl.truststore.certificates' as well, since public authorities vouch for no clients"
            )
        stores.trusted.load(context)


def client_context(settings: TlsSettings, stores: Stores | None = None) -> ssl.SSLContext:
    """The context of a client. Without a trust store, it trusts the system's certificate authorities.

    Raises InvalidTls.
    """
    stores = stores or Stores.read(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.endpoint_identification_algorithm == "https"
    choose(context, settings.protocols, settings.cipher_suites)
    if stores.trusted is None:
        context.load_default_certs()
    else:
        stores.trusted.load(context)
    if stores.identity is not None:
        stores.identity.load(context)
    return context
