"""Whether a running listener may change to other stores, by the rules of Apache Kafka's SslFactory.

A certificate with another name would make clients distrust the broker, and a certificate that the other
brokers do not trust would cut it off. So names must not change unless configs allow it, and a listener
between brokers first shakes hands with itself.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from penstock.security.tls.contexts import client_context, server_context
from penstock.security.tls.errors import InvalidStore
from penstock.security.tls.identities import Identity
from penstock.security.tls.names import distinguished_name, is_same_name, subject_of
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_ROUNDS_MAX: Final = 20
"""More rounds than any handshake takes, so that an error in it cannot become an endless loop."""


def check_replacement(old: Stores, new: Stores) -> None:
    """Check that a listener with the stores ``old`` may continue with ``new``. Raises InvalidStore."""
    if (old.identity is None) != (new.identity is None):
        action = "add a key store to" if old.identity is None else "remove the key store of"
        raise InvalidStore(f"cannot {action} a listener that is running")
    if old.trusted is None and new.trusted is not None:
        raise InvalidStore("cannot add a trust store to a listener that is running")
    if old.identity is not None and new.identity is not None:
        _check_names(old.identity, new.identity, new.settings)


def check_handshakes(one: Stores, other: Stores) -> None:
    """Check that clients with each of the stores trust servers with the other. Raises InvalidStore.

    A listener between brokers needs this of its stores and themselves at the start, and of old and new stores
    before a change, because the brokers of a cluster do not change at the same moment.
    """
    for server, client in ((one, other), (other, one)):
        try:
            _shake_hands(server, client)
        except ssl.SSLError as error:
            raise InvalidStore(
                "brokers with these stores can't connect to each other: expected certificates that the trust "
                f"stores trust, found: {getattr(error, 'verify_message', None) or error.reason or error}"
            ) from None


def _check_names(old: Identity, new: Identity, allowed: TlsSettings) -> None:
    if not allowed.allow_dn_changes:
        before, after = subject_of(old.chain[0]), subject_of(new.chain[0])
        texts = distinguished_name(before), distinguished_name(after)
        if not is_same_name(before, after) and texts[0].lower() != texts[1].lower():
            raise InvalidStore(
                f"the certificate's distinguished name is {texts[0]}, and the new one's {texts[1]}: expected "
                "the same, unless 'ssl.allow.dn.changes' is true"
            )
    if not allowed.allow_san_changes:
        missing = _alternative_names(old.chain[0]) - _alternative_names(new.chain[0])
        if missing:
            names = ", ".join(sorted(str(each.value) for each in missing))
            raise InvalidStore(
                f"the new certificate lacks the alternative names {names}: expected all of the old one's, "
                "unless 'ssl.allow.san.changes' is true"
            )


def _alternative_names(certificate: bytes) -> set[GeneralName]:
    """The alternative names of a certificate's subject. `cryptography` is imported only for changes."""
    from cryptography import x509

    try:
        extensions = x509.load_der_x509_certificate(certificate).extensions
        return set(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise InvalidStore(
            f"a certificate has extensions that can't be read: {error}. Expected alternative names, unless "
            "'ssl.allow.san.changes' is true"
        ) from None


def _shake_hands(server: Stores, client: Stores) -> None:
    """A TLS handshake in memory; the server's host name is not verified. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client_context(client.settings, client)
    client_side.check_hostname = False
    waiting = [
        client_side.wrap_bio(to_client, to_server),
        server_context(server.settings, server).wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_ROUNDS_MAX):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    if waiting:
        raise ssl.SSLError("the handshake does not end")
