"""Contexts of GSS-API: one exchange each, by the system's libkrb5 through the package ``gssapi``.

The mechanism is always Kerberos 5: others, such as SPNEGO, are refused. libkrb5 gets its realms and KDCs from
``KRB5_CONFIG`` or /etc/krb5.conf, and remembers the requests of clients in its replay cache.

Raises MissingExtra when it is imported without the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from penstock.extras import needs_extra
from penstock.security.kerberos.settings import JAAS, InvalidKerberos, KerberosSettings
from penstock.security.sasl.clients import KerberosTicket, LoginUnavailable, SaslRejected
from penstock.security.sasl.server import InvalidCredentials

with needs_extra("kerberos", "SASL/GSSAPI"):
    import gssapi
    from gssapi.exceptions import GSSError

_KERBEROS: Final = gssapi.MechType.kerberos
_numbers: Final = itertools.count()


class Context:
    """One side of one exchange. ``refusal`` makes the exception to raise of an error."""

    def __init__(self, context: gssapi.SecurityContext, refusal: Callable[[GSSError], Exception]) -> None:
        self._context = context
        self._refusal = refusal
        # Errors are raised where they occur, not by the next step: the token of an error is not sent.
        context.__DEFER_STEP_ERRORS__ = False

    @property
    def is_complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        """The client's principal, with libkrb5's escapes."""
        return str(self._context.initiator_name)

    def step(self, token: bytes | None) -> bytes:
        """Take the other side's token and return the next one, which may be empty."""
        try:
            return self._context.step(token) or b""
        except GSSError as error:
            raise self._refusal(error) from None

    def wrap(self, message: bytes) -> bytes:
        """Sign a message."""
        try:
            return bytes(self._context.wrap(message, False).message)
        except GSSError as error:
            raise self._refusal(error) from None

    def unwrap(self, message: bytes) -> bytes:
        """Verify a message and return what it says."""
        try:
            return bytes(self._context.unwrap(message).message)
        except GSSError as error:
            raise self._refusal(error) from None


class Acceptor:
    """The keys of a server. Raises InvalidKerberos if the key table has none for the principal."""

    def __init__(self, settings: KerberosSettings) -> None:
        settings.check_acceptor()
        store = {} if settings.keytab is None else {"keytab": settings.keytab}
        try:
            self._credentials = gssapi.Credentials(
                name=gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal),
                usage="accept",
                mechs=[_KERBEROS],
                store=store,
            )
        except GSSError as error:
            keytab = settings.keytab or "libkrb5's default key table"
            raise InvalidKerberos(
                JAAS, f"no keys for {settings.principal} in {keytab}: {_reason(error)}"
            ) from None

    def new_context(self) -> Context:
        """Begin an exchange with a client. Its methods raise InvalidCredentials."""
        return Context(gssapi.SecurityContext(creds=self._credentials, usage="accept"), _client_refused)


class KerberosLogin:
    """The login of a client, whose tickets it keeps. Raises InvalidKerberos. Thread-safe.

    libkrb5 gets a new ticket from the key table before the last one expires.
    """

    def __init__(self, settings: KerberosSettings) -> None:
        settings.check_initiator()
        self._settings = settings
        self._store: dict[str, str] = {}
        if settings.uses_keytab and settings.keytab is not None:
            self._store["client_keytab"] = settings.keytab
        if not settings.uses_ticket_cache:
            self._store["ccache"] = f"MEMORY:penstock-{next(_numbers)}"
        elif settings.ticket_cache is not None:
            self._store["ccache"] = settings.ticket_cache

    def __call__(self, host: str) -> KerberosTicket:
        """Get a ticket for the service on a host; this waits for a KDC. Raises LoginUnavailable."""
        settings = self._settings
        service = f"{settings.service_name}@{host}"
        own = settings.principal
        try:
            credentials = gssapi.Credentials(
                name=own and gssapi.Name(own, gssapi.NameType.kerberos_principal),
                usage="initiate",
                mechs=[_KERBEROS],
                store=self._store,
            )
            initiating = gssapi.SecurityContext(
                name=gssapi.Name(service, gssapi.NameType.hostbased_service),
                creds=credentials,
                usage="initiate",
                mech=_KERBEROS,
                flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
            )
            context = Context(initiating, _server_refused)
            token = context.step(None)
            return KerberosTicket(own or str(credentials.name), token, context)
        except GSSError as error:
            raise LoginUnavailable(f"no ticket for {service}: {_reason(error)}") from None
        except SaslRejected as error:
            raise LoginUnavailable(f"no ticket for {service}: {error}") from None


def default_realm() -> str:
    """The realm of names that have none; empty if libkrb5 knows none."""
    try:
        name = gssapi.Name("nobody", gssapi.NameType.kerberos_principal).canonicalize(_KERBEROS)
    except GSSError:
        return ""
    return str(name).partition("@")[2]


def _client_refused(error: GSSError) -> InvalidCredentials:
    return InvalidCredentials(_reason(error))


def _server_refused(error: GSSError) -> SaslRejected:
    return SaslRejected(_reason(error))


def _reason(error: GSSError) -> str:
    """The reason that libkrb5 gives, or else that of GSS-API."""
    of_kerberos = [status for status in error.get_all_statuses(error.min_code, False) if status != "Success"]
    return "; ".join(of_kerberos or error.get_all_statuses(error.maj_code, True))
