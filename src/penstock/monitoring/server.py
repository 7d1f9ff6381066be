"""The HTTP server of metrics and probes, for processes that have no other HTTP server."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

log = logging.getLogger(__name__)

Probe = Callable[[], str | None]
"""Returns None if all is well, else one line that says what is missing. It is called in a thread."""

METRICS_PATH: Final = "/metrics"
_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")


class MonitoringServer:
    """The server of ``/metrics`` and of probes by their paths, in threads of its own.

    A probe answers 200 if all is well, and else 503. With port 0 the server takes a free one, available as
    `port`. Raises OSError.
    """

    def __init__(
        self, registry: CollectorRegistry, host: str, port: int, probes: Mapping[str, Probe] | None = None
    ) -> None:
        self._metrics = make_wsgi_app(registry)
        self._probes = dict(probes or {})
        self._server = _server_of(host)((host, port), _QuietHandler)
        self._server.set_app(self._answer)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self.port = int(self._server.server_port)
        log.info("metrics served address=%s:%d", host, self.port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
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


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    """A handler that doesn't log each request to stderr."""

    def log_message(self, format: str, *args: object) -> None:
        pass


def _server_of(host: str) -> type[_Server]:
    return _Ipv6Server if ":" in host else _Server
