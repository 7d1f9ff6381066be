"""Login settings of GSSAPI: the options of Java's Krb5LoginModule, which only describe the login.

A server has a key table. A client has a key table or a ticket cache that `kinit` fills. Options that only
Java acts on are accepted without effect: ``debug``, ``doNotPrompt``, ``isInitiator``, ``refreshKrb5Config``
and ``renewTGT``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.security.sasl.jaas import parse_jaas

MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
JAAS: Final = "sasl.jaas.config"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
RULES: Final = "sasl.kerberos.principal.to.local.rules"
EXPECTED: Final = f'\'{MODULE} required useKeyTab=true storeKey=true keyTab="…" principal="…";\''
"""The syntax, for error messages."""

_FLAGS: Final = frozenset(
    {
        *("useKeyTab", "storeKey", "useTicketCache"),
        *("debug", "doNotPrompt", "isInitiator", "refreshKrb5Config", "renewTGT"),
    }
)
_TEXTS: Final = frozenset({"keyTab", "principal", "serviceName", "ticketCache"})


class InvalidKerberos(ValueError):
    """A setting is missing or wrong. ``name`` is Kafka's name of it, and the message names it, too."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """Whose keys or tickets to use. Raises InvalidKerberos for options that contradict each other."""

    service_name: str
    """The first component of the brokers' principals."""
    principal: str | None
    """The own principal; None for that of the ticket cache, or the first of the key table."""
    uses_keytab: bool
    keytab: str | None
    """The file of keys; None for libkrb5's default."""
    uses_ticket_cache: bool
    ticket_cache: str | None
    """The cache of tickets; None for libkrb5's default."""
    stores_key: bool

    def check_acceptor(self) -> None:
        """Check that a server can use these settings. Raises InvalidKerberos."""
        if self.uses_ticket_cache:
            raise InvalidKerberos(JAAS, f"a server has no ticket cache: expected {EXPECTED}")
        if not self.uses_keytab or not self.stores_key:
            missing = "storeKey=true" if self.uses_keytab else "useKeyTab=true"
            raise InvalidKerberos(JAAS, f"a server needs {missing}: expected {EXPECTED}")
        if self.principal is None or self.principal == "*":
            raise InvalidKerberos(JAAS, f"a server needs its own principal: expected {EXPECTED}")

    def check_initiator(self) -> None:
        """Check that a client can use these settings. Raises InvalidKerberos."""
        if not self.uses_keytab and not self.uses_ticket_cache:
            raise InvalidKerberos(JAAS, "expected useKeyTab=true or useTicketCache=true; nobody can be asked")


def read_settings(jaas: str, service_name: str | None) -> KerberosSettings:
    """Read the login settings. ``service_name`` is `sasl.kerberos.service.name`. Raises InvalidKerberos."""
    options = _options(jaas)
    flags = {name: options.get(name, "").lower() == "true" for name in _FLAGS}
    keytab, ticket_cache = options.get("keyTab"), options.get("ticketCache")
    needed = ((keytab, "keyTab", "useKeyTab"), (ticket_cache, "ticketCache", "useTicketCache"))
    for file, name, flag in needed:
        if file is not None and not flags[flag]:
            raise InvalidKerberos(JAAS, f"{name} needs {flag}=true")
    return KerberosSettings(
        service_name=_service_name(options.get("serviceName"), service_name),
        principal=options.get("principal"),
        uses_keytab=flags["useKeyTab"],
        keytab=_path(keytab),
        uses_ticket_cache=flags["useTicketCache"],
        ticket_cache=ticket_cache,
        stores_key=flags["storeKey"],
    )


def _options(jaas: str) -> Mapping[str, str]:
    try:
        module = parse_jaas(jaas)
    except ValueError:
        raise InvalidKerberos(JAAS, f"expected {EXPECTED}") from None
    if module.name != MODULE:
        raise InvalidKerberos(JAAS, f"found the login module {module.name}, expected {MODULE}")
    known = _FLAGS | _TEXTS
    for option, value in module.options.items():
        if option not in known:
            raise InvalidKerberos(
                JAAS, f"the option {option} is not known: expected some of {', '.join(sorted(known))}"
            )
        if option in _FLAGS and value.lower() not in ("true", "false"):
            raise InvalidKerberos(JAAS, f"expected true or false for {option}")
        if option in _TEXTS and not value:
            raise InvalidKerberos(JAAS, f"expected a text for {option}")
    return module.options


def _service_name(of_jaas: str | None, of_config: str | None) -> str:
    if of_jaas is not None and of_config is not None and of_jaas != of_config:
        raise InvalidKerberos(
            SERVICE_NAME,
            f"Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {of_jaas}, "
            f"value in Kafka config {of_config}",
        )
    name = of_jaas or of_config
    if not name:
        raise InvalidKerberos(SERVICE_NAME, "No serviceName defined in either JAAS or Kafka config")
    return name


def _path(keytab: str | None) -> str | None:
    """The name of a file of keys, which Java also takes as a URL."""
    return None if keytab is None else keytab.removeprefix("FILE:").removeprefix("file:")
