"""Logins by GSSAPI, under the property names of Kafka's Java clients.

Keys and tickets are in files that ``sasl.jaas.config`` names. Spark executors need them under the same paths.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from penstock.client.settings import ConfigError
from penstock.security.kerberos.settings import EXPECTED, InvalidKerberos, KerberosSettings, read_settings
from penstock.security.sasl.clients import Credentials


@lru_cache(maxsize=16)
def kerberos_login(jaas: str | None, service_name: str | None) -> Callable[[str], Credentials]:
    """The login of these settings, made once for each configuration: all connections share its tickets.

    It takes the host of the server. Raises ConfigError, MissingExtra.
    """
    from penstock.security.kerberos.contexts import KerberosLogin  # imported only where it is needed

    return KerberosLogin(kerberos_settings(jaas, service_name))


def kerberos_settings(jaas: str | None, service_name: str | None) -> KerberosSettings:
    """Read the login settings. Raises ConfigError."""
    if jaas is None:
        raise ConfigError(f"'sasl.mechanism' GSSAPI needs 'sasl.jaas.config': expected {EXPECTED}")
    try:
        settings = read_settings(jaas, service_name)
        settings.check_initiator()
    except InvalidKerberos as error:
        raise ConfigError(f"invalid login by GSSAPI: {error}") from None
    return settings
