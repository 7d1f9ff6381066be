"""Serves a worker's REST API on its listeners.

server = RestServer(settings)
herder = …                  # needs server.advertised_url, where the other workers reach this one
server.start(herder)        # answers requests; those that came earlier have waited
server.close()
"""

from __future__ import annotations

import socket
import ssl
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from penstock.connect.errors import ConfigInvalid
from penstock.connect.herding.herder import Herder
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.rest.application import application
from penstock.connect.rest.connectors import Connectors
from penstock.connect.rest.internal import Internal
from penstock.connect.rest.loggers import Loggers
from penstock.connect.rest.metrics import Metrics
from penstock.connect.rest.plugins import Plugins
from penstock.connect.rest.routing import Endpoint
from penstock.connect.rest.settings import Listener, RestSettings
from penstock.connect.rest.waiting import HEALTH_TIMEOUT_S, REQUEST_TIMEOUT_S, Waiting
from penstock.connect.rest.worker import Worker
from penstock.security.access.access import Access
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.exposure import warn_unless_guarded
from penstock.security.access.settings import AccessSettings
from penstock.web.listeners import url
from penstock.web.server import WebServer, listen


class RestServer:
    """The REST API of one worker. It listens at once, and answers once it has a herder.

    Args:
        client: forwards requests to other workers; by default without certificates of its own.
        timeout_s: the limit of the operations of one request.
        health_timeout_s: the limit of the answer to ``/health``.

    Raises ConfigInvalid, and OSError if it cannot listen.
    """

    def __init__(
        self,
        settings: RestSettings,
        client: WorkerClient | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        health_timeout_s: float = HEALTH_TIMEOUT_S,
    ) -> None:
        self._settings = settings
        self._client = client or WorkerClient()
        self._timeouts_s = timeout_s, health_timeout_s
        self._servers: list[WebServer] = []
        self._accesses: list[Access] = []
        self._opened: list[_Opened] = []
        self._admin: list[_Opened] = []
        try:
            for listener in settings.listeners:
                self._opened.append(_Opened.open(listener, settings.access))
            for listener in settings.admin_listeners or ():
                self._admin.append(_Opened.open(listener, settings.admin_access))
        except BaseException:
            self.close()
            raise

    @property
    def advertised_url(self) -> str:
        """The URL at which the other workers reach this one."""
        settings = self._settings
        listener = settings.advertised_listener
        opened = next(each for each in self._opened if each.listener == listener)
        host = settings.advertised_host or listener.host or _local_address()
        port = settings.advertised_port or opened.port
        return f"{url(settings.advertised_scheme or listener.scheme, host, port)}/"

    @property
    def worker_id(self) -> str:
        """The worker's name in statuses: the advertised host and port."""
        return self.advertised_url.partition("://")[2].rstrip("/")

    @property
    def urls(self) -> list[str]:
        """The URLs of the listeners, with the ports that they got."""
        return [each.url for each in self._opened]

    @property
    def admin_urls(self) -> list[str]:
        """The URLs of ``admin.listeners``."""
        return [each.url for each in self._admin]

    def start(self, herder: Herder, metrics: CollectorRegistry | None = None) -> None:
        """Answer requests in threads, and those for `/metrics` with these metrics.

        Raises ConfigInvalid if the users or keys for tokens cannot be read.
        """
        shown = [] if metrics is None else Metrics(metrics).endpoints()
        for opened in self._opened:
            self._serve(opened, [*self._endpoints(herder), *shown], herder)
        for opened in self._admin:
            self._serve(opened, Loggers(herder, self._waiting(herder)).endpoints(), herder)

    def close(self) -> None:
        """Stop answering, and close the listeners."""
        for server in self._servers:
            server.stop()
        for access in self._accesses:
            access.close()
        for opened in (*self._opened, *self._admin):
            opened.socket.close()

    def _endpoints(self, herder: Herder) -> list[Endpoint]:
        waiting, settings = self._waiting(herder), self._settings
        connectors = Connectors(
            herder,
            waiting,
            tracks_topics=settings.tracks_topics,
            may_reset_topics=settings.may_reset_topics,
        )
        return [
            *Worker(herder, waiting).endpoints(),
            *connectors.endpoints(),
            *Internal(herder, waiting).endpoints(),
            *Plugins(herder, waiting).endpoints(),
            *(Loggers(herder, waiting).endpoints() if settings.admin_listeners is None else ()),
        ]

    def _waiting(self, herder: Herder) -> Waiting:
        """Make what waits for the herder, for one listener: it belongs to the listener's event loop."""
        timeout_s, health_timeout_s = self._timeouts_s
        return Waiting(self._client, lambda: herder.stage, timeout_s, health_timeout_s)

    def _serve(self, opened: _Opened, endpoints: list[Endpoint], herder: Herder) -> None:
        settings, is_tls = opened.access, opened.tls is not None
        try:
            access = settings.access(is_tls=is_tls)
            access.start()
        except InvalidAccess as error:
            raise ConfigInvalid(str(error)) from None
        self._accesses.append(access)
        scheme, host, _ = opened.listener
        warn_unless_guarded(scheme, host, opened.port, is_guarded=settings.is_guarded(is_tls=is_tls))

        def signs() -> bool:
            return herder.signs_requests

        served = application(endpoints, self._settings, signs, access, settings.open_paths)
        server = WebServer(served, opened.socket, name="connect rest", tls=opened.tls)
        self._servers.append(server)
        server.serve_in_thread()


class _Opened(NamedTuple):
    """A listener with its socket, the port that it got, and its TLS."""

    listener: Listener
    access: AccessSettings
    socket: socket.socket
    port: int
    tls: ssl.SSLContext | None

    @classmethod
    def open(cls, listener: Listener, access: AccessSettings) -> _Opened:
        """Listen. Raises ConfigInvalid without a key for TLS, and OSError if the address is not free."""
        try:
            tls = access.tls_context() if listener.scheme == "https" else None
        except InvalidAccess as error:
            raise ConfigInvalid(f"'listeners' has https: {error}") from None
        opened = listen(listener.host, listener.port)
        return cls(listener, access, opened, opened.getsockname()[1], tls)

    @property
    def url(self) -> str:
        return url(self.listener.scheme, self.listener.host or "localhost", self.port)


def _local_address() -> str:
    """The address of this machine that its own name stands for."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "localhost"
