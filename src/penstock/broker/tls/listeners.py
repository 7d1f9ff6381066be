"""The TLS of a node's listeners, and of its connections to other nodes, as its configuration says.

A setting of a listener is the one with its prefix, `listener.name.NAME.ssl.…`, else the one without. A node
connects to others with the settings of the listener at which they meet: the key store is its own certificate,
and the trust store decides which nodes it believes.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from penstock.broker.tls.kernel_support import OP_ENABLE_KTLS, kernel_tls_obstacle
from penstock.metadata.configs import BrokerConfig, ConfigValue
from penstock.security.permissions import ANONYMOUS
from penstock.security.tls.contexts import client_context, server_context
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.principals import SslPrincipals
from penstock.security.tls.replacement import check_handshakes, check_replacement
from penstock.security.tls.settings import TlsSettings
from penstock.security.tls.stores import Stores

log = logging.getLogger(__name__)

TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
"""The security protocols that encrypt."""

TlsMode = Literal["kernel", "process"]
"""The place where the connections of a node are encrypted."""


class _Contexts(NamedTuple):
    """The stores of a listener and what they are used for."""

    stores: Stores
    server: ssl.SSLContext | None
    """None if other nodes serve this listener, and this one only connects to it."""
    client: ssl.SSLContext

    def enable_kernel_tls(self) -> None:
        for context in (self.server, self.client):
            if context is not None:
                context.options |= OP_ENABLE_KTLS


class ListenerTls:
    """The TLS of one listener, which this node serves or at which it reaches others. Raises InvalidTls."""

    def __init__(self, name: str, config: BrokerConfig, *, is_served: bool, is_between_nodes: bool) -> None:
        self.name = name
        self._is_served = is_served
        self._is_between_nodes = is_between_nodes
        self._is_in_kernel = False
        self._contexts = self._read(config)
        if is_served and is_between_nodes:
            check_handshakes(self._contexts.stores, self._contexts.stores)
        self._principals = SslPrincipals(str(_get(config, name, "ssl.principal.mapping.rules")))
        self._authenticates_by_sasl = config.security_protocol(name) == "SASL_SSL"

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the next handshake with a client."""
        assert self._contexts.server is not None, "only served listeners have clients"
        return self._contexts.server

    @property
    def client_context(self) -> ssl.SSLContext:
        """The context of the next handshake with another node."""
        return self._contexts.client

    def principal_of(self, certificate: bytes | None) -> str:
        """Return the principal of a client by its certificate in DER; SASL decides that instead if it has to.

        Raises ValueError if no rule matches the name, or if it cannot be read.
        """
        if self._authenticates_by_sasl:
            return ANONYMOUS
        return self._principals.principal_of(certificate)

    @property
    def authenticates(self) -> bool:
        """Whether every client shows a certificate."""
        return self.context.verify_mode is ssl.CERT_REQUIRED

    @property
    def stores(self) -> Stores:
        """The stores of the next handshake."""
        return self._contexts.stores

    def encrypt_in_kernel(self) -> None:
        """Have the kernel encrypt new connections, those of later configurations, too."""
        self._is_in_kernel = True
        self._contexts.enable_kernel_tls()

    def check(self, config: BrokerConfig) -> None:
        """Check that the stores of this configuration can replace those in use. Raises InvalidTls."""
        self._replacement(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use the stores of this configuration for new connections. Raises InvalidTls and keeps the old."""
        self._contexts = self._replacement(config)

    def _replacement(self, config: BrokerConfig) -> _Contexts:
        new, old = self._read(config), self._contexts.stores
        check_replacement(old, new.stores)
        if self._is_served and self._is_between_nodes:
            check_handshakes(old, new.stores)
        return new

    def _read(self, config: BrokerConfig) -> _Contexts:
        settings = TlsSettings.from_configs(lambda name: _get(config, self.name, name))
        stores = Stores.read(settings)
        server = server_context(settings, stores) if self._is_served else None
        contexts = _Contexts(stores, server, client_context(settings, stores))
        if self._is_in_kernel:
            contexts.enable_kernel_tls()
        return contexts


class NodeTls:
    """The TLS of all listeners of a node. Raises InvalidTls.

    The kernel encrypts the connections if it can; a node that serves no listener with TLS does not ask it.
    """

    def __init__(self, config: BrokerConfig) -> None:
        served = {listener.name for listener in config.listeners}
        met = {config.inter_broker_listener_name, *config.controller_listener_names[:1]}
        self._listeners = {
            name: ListenerTls(name, config, is_served=name in served, is_between_nodes=name in met)
            for name in sorted(served | met)
            if config.security_protocol(name) in TLS_PROTOCOLS
        }
        self.mode = self._choose_mode([tls for name, tls in self._listeners.items() if name in served])
        """The place where connections are encrypted; None if this node serves no listener with TLS."""

    def _choose_mode(self, served: list[ListenerTls]) -> TlsMode | None:
        if not served:
            return None
        obstacle = kernel_tls_obstacle(served[0].stores)
        if obstacle is not None:
            log.info("this process encrypts connections with TLS mode=process no_kernel_tls=%r", obstacle)
            return "process"
        for listener in self._listeners.values():
            listener.encrypt_in_kernel()
        log.info("the kernel encrypts connections with TLS mode=kernel")
        return "kernel"

    def of(self, listener_name: str) -> ListenerTls | None:
        """Return the TLS of a listener; None if it does not encrypt."""
        return self._listeners.get(listener_name)

    def check(self, config: BrokerConfig, listener_names: Iterable[str]) -> None:
        """Check that the stores of these listeners can be replaced by the configuration's.

        Raises InvalidTls.
        """
        for name in listener_names:
            listener = self._listeners.get(name)
            if listener is not None:
                listener.check(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use the stores of this configuration for new connections. Blocks."""
        for listener in self._listeners.values():
            try:
                listener.reconfigure(config)
            except InvalidTls as error:
                log.error("certificates are not replaced listener=%s error=%s", listener.name, error)


def _get(config: BrokerConfig, listener_name: str, name: str) -> ConfigValue:
    own = f"listener.name.{listener_name.lower()}.{name}"
    if name == "ssl.client.auth" and config.security_protocol(listener_name) == "SASL_SSL":
        return config.text(own) or "none"  # as in Kafka, SASL authenticates unless the listener says more
    return config[own]
