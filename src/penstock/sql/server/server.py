"""A process, or a thread beside others, that serves an engine.

server = SqlServer(engine, port=8088)
server.run()                       # until SIGINT or SIGTERM; or start() and close(), beside other work
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Final

from penstock.client.settings import ConfigError
from penstock.sql.engine import Engine
from penstock.sql.engine.properties import IDLE_TIMEOUT_S
from penstock.sql.server.application import application
from penstock.sql.server.streaming import Streams
from penstock.web.server import WebServer, listen
from penstock.web.tls import server_context

DEFAULT_PORT: Final = 8088
_STARTED_S: Final = 30.0
#: Threads that work hand the interpreter on this soon, or answers would wait for those who make rows.
_SWITCH_INTERVAL_S: Final = 0.001


class SqlServer:
    """One server. Without TLS and authentication what can reach it can change everything.

    Args:
        engine: not started; it is closed with the server.
        host: the address to listen at.
        port: 0 for any that is free.
        certificate: a PEM file, for HTTPS; ``key``: where that file has none.

    Raises OSError where it can't listen, ConfigError.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self.engine = engine
        try:
            tls = None if certificate is None else server_context(certificate, key, http2=True)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        self._streams = Streams(engine.config.values.number(IDLE_TIMEOUT_S))
        made = application(engine, self._streams)
        self._socket = listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.port = self._socket.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://{shown}:{self.port}"
        self._server = WebServer(made, http2=True, tls=tls, on_end=self._streams.close)
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; `prepare` comes first."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        try:
            self._server.run([self._socket])
        finally:
            self.engine.close()

    def prepare(self) -> None:
        """Return once all queries are known and run; who asks before waits. Raises as `Engine.start`."""
        try:
            self.engine.start()
        except BaseException:
            self._socket.close()
            self.engine.close()
            raise

    def start(self) -> None:
        """Serve in a thread: who connects from now on is answered. Raises as `Engine.start`."""
        self.prepare()
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="SQL server", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End what is being read, and stop; queries that write to topics go on with the next start."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STARTED_S)
        self.engine.close()
