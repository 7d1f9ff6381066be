"""The HTTP server of metrics and probes, for processes that have no other HTTP server."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from penstock.security.access.exposure import warn_unless_guarded
from penstock.security.access.roles import Role
from penstock.security.access.settings import AccessSettings

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

Probe = Callable[[], str | None]
"""Returns None if all is well, else one line that says what is missing. It is called in a thread."""

METRICS_PATH: Final = "/metrics"
_CERTIFICATE: Final = "penstock.certificate"
"""The key of the client's certificate (DER) in the environ of a request."""
_CLIENT_TIMEOUT_S: Final = 30.0
"""The time that a client may be silent, during the handshake too, because it occupies a thread."""
_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")


class MonitoringServer:
    """The server of ``/metrics`` and of probes by their paths, in threads of its own.

    A probe answers 200 if all is well, and else 503. With port 0 the server takes a free one, available as
    `port`. ``settings`` decide who may read the metrics, and whether the server speaks HTTPS: it does if they
    name a key. Probes are open to everybody. Raises OSError, InvalidAccess.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        host: str,
        port: int,
        probes: Mapping[str, Probe] | None = None,
        settings: AccessSettings | None = None,
    ) -> None:
        settings = settings or AccessSettings()
        tls = settings.tls_context() if settings.tls.has_key_store else None
        self._access = settings.access(is_tls=tls is not None)
        self._access.start()
        self._metrics = make_wsgi_app(registry)
        self._probes = dict(probes or {})
        self._server = _server_of(host)((host, port), tls)
        self._server.set_app(self._answer)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self.port = int(self._server.server_port)
        self.scheme = "http" if tls is None else "https"
        log.info("metrics served address=%s:%d", host, self.port)
        is_guarded = settings.is_guarded(is_tls=tls is not None)
        warn_unless_guarded(self.scheme, host, self.port, is_guarded=is_guarded)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._access.close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path not in self._probes and (refusal := self._refusal(environ)) is not None:
            status, headers = refusal
            start_response(status, [_TEXT, *headers])
            return [f"{status.partition(' ')[2].lower()}\n".encode()]
        if path == METRICS_PATH:
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        if path not in self._probes:
            paths = ", ".join([METRICS_PATH, *self._probes])
            start_response("404 Not Found", [_TEXT])
            return [f"nothing is served at {path}: expected one of {paths}\n".encode()]
        missing = self._probes[path]()
        start_response("200 OK" if missing is None else "503 Service Unavailable", [_TEXT])
        return [f"{'ok' if missing is None else missing}\n".encode()]

    def _refusal(self, environ: WSGIEnvironment) -> tuple[str, list[tuple[str, str]]] | None:
        """Return the status and the headers for a client that may not read, else None."""
        authorization = environ.get("HTTP_AUTHORIZATION")
        identity = self._access.identify(
            [] if authorization is None else [authorization], environ.get(_CERTIFICATE)
        )
        if identity is None:
            challenges = self._access.challenges
            return "401 Unauthorized", [("WWW-Authenticate", challenge) for challenge in challenges]
        return None if identity.may(Role.READER) else ("403 Forbidden", [])


class _Server(ThreadingMixIn, WSGIServer):
    """A server whose threads also do the handshakes of TLS, so that no client delays others."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        super().__init__(address, _QuietHandler)
        self._tls = tls

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(_CLIENT_TIMEOUT_S)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request for metrics failed client=%s", client_address, exc_info=True)


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    """A handler that notes the client's certificate, and doesn't log each request to stderr."""

    def get_environ(self) -> WSGIEnvironment:
        environ = super().get_environ()
        if isinstance(self.connection, ssl.SSLSocket):
            environ[_CERTIFICATE] = self.connection.getpeercert(binary_form=True)
        return environ

    def log_message(self, format: str, *args: object) -> None:
        pass


def _server_of(host: str) -> type[_Server]:
    return _Ipv6Server if ":" in host else _Server
