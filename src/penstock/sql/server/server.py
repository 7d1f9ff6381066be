"""A server of an engine: a process, or a thread beside other work.

server = SqlServer(engine, port=8088)
server.run()                       # until SIGINT or SIGTERM; or start() and close(), beside other work
"""

from __future__ import annotations

import gc
import ssl
import sys
from pathlib import Path
from typing import Final

from penstock.client.settings import ConfigError
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.exposure import warn_unless_guarded
from penstock.security.access.settings import AccessSettings
from penstock.sql.engine import Engine
from penstock.sql.engine.ground.properties import IDLE_TIMEOUT_S, LISTENERS
from penstock.sql.server.application import application
from penstock.sql.server.streaming import Streams
from penstock.web.listeners import Listener, url
from penstock.web.server import WebServer, listen
from penstock.web.tls import offer, server_context

DEFAULT_PORT: Final = 8088
_DEFAULT_LISTENER: Final = "http://127.0.0.1"
_SWITCH_INTERVAL_S: Final = 0.0005
"""How soon a busy thread releases the interpreter, so that answers don't wait for threads that make rows."""
_COLLECTED_AFTER: Final = (700, 10, 500)
"""The thresholds of Python's garbage collector.

A collection that traverses all rows of large tables delays answers by a tenth of a second and frees nothing.
So full collections are fifty times rarer than by default.
"""


class SqlServer:
    """A server of one engine. Without authentication, any client that can reach it has full control.

    Args:
        engine: one that is not started. The server closes it.
        host, port: the address to listen at, instead of that of the property `listeners`; port 0 for any
            free port.
        certificate: a PEM file, for HTTPS, instead of the properties `ssl.keystore.…`. ``key`` is the file of
            its key, if that is a separate one.

    Raises OSError if it can't listen, or ConfigError.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        host: str | None = None,
        port: int | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self.engine = engine
        values = engine.config.values
        at = Listener.parse(values.get(LISTENERS) or _DEFAULT_LISTENER)
        try:
            settings = AccessSettings.from_configs(values.get)
            tls = _tls_context(settings, at.scheme, certificate, key)
            self._access = settings.access(is_tls=tls is not None)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self._streams = Streams(values.number(IDLE_TIMEOUT_S))
        made = application(engine, self._streams, self._access)
        host = at.host if host is None else host
        listening = listen(host, (at.port or DEFAULT_PORT) if port is None else port)
        self.port = listening.getsockname()[1]
        scheme, is_guarded = ("http", "https")[tls is not None], settings.is_guarded(is_tls=tls is not None)
        self.url = url(scheme, host, self.port)
        warn_unless_guarded(scheme, host, self.port, is_guarded=is_guarded)
        self._server = WebServer(
            made, listening, name="SQL server", http2=True, tls=tls, on_end=self._streams.close
        )

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM. Call `prepare` before."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        gc.freeze()  # what exists by now is permanent, so collections may skip it
        gc.set_threshold(*_COLLECTED_AFTER)
        try:
            self._server.serve_here()
        finally:
            self.engine.close()
            self._access.close()

    def prepare(self) -> None:
        """Return once all queries are restored and run; requests wait until then.

        Raises what `Engine.start` raises, and ConfigError if there are no keys for tokens.
        """
        try:
            self._access.start()
            self.engine.start()
        except BaseException as error:
            self._server.give_up()
            self.engine.close()
            self._access.close()
            if isinstance(error, InvalidAccess):
                raise ConfigError(str(error)) from None
            raise

    def start(self) -> None:
        """Serve in a thread, and accept connections from now on. Raises what `Engine.start` raises."""
        self.prepare()
        self._server.serve_in_thread()

    def close(self) -> None:
        """End all readings and stop. Queries that write to topics resume with the next start."""
        self._server.stop()
        self.engine.close()
        self._access.close()


def _tls_context(
    settings: AccessSettings, scheme: str, certificate: Path | None, key: Path | None
) -> ssl.SSLContext | None:
    """The TLS of the server: of its certificate, or of the listener's properties. Raises ValueError."""
    if certificate is not None:
        context = server_context(certificate, key, http2=True)
        settings.ask_for_certificates(context)
        return context
    if scheme == "http":
        return None
    context = settings.tls_context()
    offer(context, http2=True)
    return context
