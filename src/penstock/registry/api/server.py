"""Serve a registry in a process of its own, or in a thread beside other work.

server = RegistryServer({"kafkastore.bootstrap.servers": "localhost:9092"}, port=8081)
server.run()                       # until SIGINT or SIGTERM; or start() and close(), beside other work
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from penstock.client.security.security_config import tls_context
from penstock.client.settings import ConfigError, resolved
from penstock.registry.api.application import application
from penstock.registry.api.listener import ListenerConfig
from penstock.registry.store.config import StoreConfig, settings_from
from penstock.registry.store.election import Identity
from penstock.registry.store.store import Store
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.exposure import warn_unless_guarded
from penstock.web.server import WebServer, listen

_EVERYWHERE: Final = ("", "0.0.0.0", "::")


class RegistryServer:
    """One instance of the registry. The instances with one group id on one cluster elect a leader.

    Args:
        properties: Confluent's configurations: ``kafkastore.bootstrap.servers``, ``kafkastore.…`` for the
            client, ``schema.compatibility.level`` and others (docs/registry.md).
        host, port: the address to listen on, instead of ``listeners``; port 0 picks any free port. Without
            authentication (`listener`), everybody who can reach the port may do everything.
        advertised: the host name or address at which the other instances reach this one. The default is the
            host; it is required if the host is ``0.0.0.0``.

    Raises ConfigError, and OSError if it can't listen.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        host: str | None = None,
        port: int | None = None,
        advertised: str | None = None,
    ) -> None:
        properties = resolved(properties)
        config = StoreConfig.from_properties(properties)
        settings = settings_from(properties)
        listener = ListenerConfig.from_properties(properties)
        tls, self._access = listener.tls_context(), listener.access()
        host = listener.host if host is None else host
        advertised = advertised or listener.advertised
        if advertised is None and host in _EVERYWHERE:
            raise ConfigError(f"listening on {host}: expected 'host.name', at which other instances reach it")
        listening = listen(host, listener.port if port is None else port)
        bound = listening.getsockname()[1]
        warn_unless_guarded(listener.scheme, host, bound, is_guarded=listener.is_guarded)
        identity = Identity(advertised or host, bound, config.is_eligible, listener.scheme)
        self.url = identity.url
        self.store = Store(config, settings, identity)
        to_leader = None if tls is None else tls_context(listener.tls)
        served = application(
            self.store,
            version("penstock"),
            access=self._access,
            open_paths=listener.access_settings.open_paths,
            tls=to_leader,
        )
        self._server = WebServer(served, listening, name="schema registry", tls=tls)

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM. Call `prepare` first."""
        try:
            self._server.serve_here()
        finally:
            self.store.close()
            self._access.close()

    def prepare(self) -> None:
        """Load all schemas; requests that arrive earlier wait.

        Raises the same errors as `Store.start`, and ConfigError if there are no keys for tokens.
        """
        try:
            self._access.start()
            self.store.start()
        except BaseException as error:
            self._server.give_up()
            self.store.close()
            self._access.close()
            if isinstance(error, InvalidAccess):
                raise ConfigError(str(error)) from None
            raise

    def start(self) -> None:
        """Serve in a thread and return once it accepts requests. Raises the same errors as `Store.start`."""
        self.prepare()
        self._server.serve_in_thread()

    def close(self) -> None:
        """Leave the group and stop."""
        self._server.stop()
        self.store.close()
        self._access.close()
