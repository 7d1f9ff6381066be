"""GSSAPI of a listener, and of a node's own logins, as its configuration says.

The keys are those of one principal, `kafka/host@REALM`, for both. A node that cannot read them does not
start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.broker.sasl.mechanism_settings import MechanismSettings
from penstock.extras import MissingExtra
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.security.kerberos.names import KerberosName
from penstock.security.kerberos.settings import (
    EXPECTED,
    JAAS,
    RULES,
    SERVICE_NAME,
    InvalidKerberos,
    KerberosSettings,
    read_settings,
)
from penstock.security.kerberos.short_names import NoShortName, ShortNames
from penstock.security.sasl import gssapi
from penstock.security.sasl.clients import GSSAPI, Credentials
from penstock.security.sasl.server import InvalidCredentials, Mechanism


class KerberosOfListener(MechanismSettings):
    """The settings of GSSAPI on one listener."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        super().__init__(config, listener_name, GSSAPI)

    def mechanism(self) -> Mechanism:
        """Create what starts conversations with clients. Raises InvalidConfig."""
        try:
            from penstock.security.kerberos.contexts import Acceptor, default_realm

            acceptor = Acceptor(self._settings())
            names = self._short_names(default_realm())
        except (InvalidKerberos, MissingExtra) as error:
            raise self._invalid(error) from None
        return partial(gssapi.converse, acceptor.new_context, partial(short_name, names))

    def login(self) -> Callable[[str], Credentials]:
        """Create the node's own login at other nodes. Raises InvalidConfig."""
        try:
            from penstock.security.kerberos.contexts import KerberosLogin

            return KerberosLogin(self._settings())
        except (InvalidKerberos, MissingExtra) as error:
            raise self._invalid(error) from None

    def _settings(self) -> KerberosSettings:
        if self.jaas is None:
            raise InvalidKerberos(JAAS, f"it is not set: expected {EXPECTED}")
        service_name = self.get(SERVICE_NAME)
        return read_settings(self.jaas, None if service_name is None else str(service_name))

    def _short_names(self, default_realm: str) -> ShortNames:
        rules = self.get(RULES)
        assert isinstance(rules, list | tuple)
        try:
            return ShortNames(default_realm, rules)
        except ValueError as error:
            raise InvalidKerberos(RULES, str(error)) from None

    def _invalid(self, error: InvalidKerberos | MissingExtra) -> InvalidConfig:
        name = error.name if isinstance(error, InvalidKerberos) else JAAS
        full_name = self.jaas_name if name == JAAS else self.set_name(name)
        return InvalidConfig(full_name, f"GSSAPI on listener {self.listener_name}: {error}")


def short_name(names: ShortNames, principal: str) -> str:
    """The name of a client's user. Raises InvalidCredentials.

    A principal with an escape has a separator inside of a component. It is refused, since the rules would
    take it for another one. Apache Kafka lets a client without a short name log in, and then closes its
    connection.
    """
    if "\\" in principal:
        raise InvalidCredentials(f"Malformed Kerberos name: {principal}")
    try:
        return names.of(KerberosName.parse(principal))
    except NoShortName as error:
        raise InvalidCredentials(
            f"Failed to set name for '{principal}' based on Kerberos authentication rules: {error}"
        ) from None
    except ValueError as error:
        raise InvalidCredentials(str(error)) from None
