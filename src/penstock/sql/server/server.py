"""A process, or a thread beside others, that serves an engine.

server = SqlServer(engine, port=8088)
server.run()                       # until SIGINT or SIGTERM; or start() and close(), beside other work
"""

from __future__ import annotations

import gc
import sys
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
#: Threads that work hand the interpreter on this soon, or answers would wait for those who make rows.
_SWITCH_INTERVAL_S: Final = 0.0005
#: As Python counts: a collection that looks through all rows of large tables holds up answers for a tenth of
#: a second, and finds nothing. So it is fifty times rarer than it would be.
_COLLECTED_AFTER: Final = (700, 10, 500)


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
        listening = listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.port = listening.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://{shown}:{self.port}"
        self._server = WebServer(
            made, listening, name="SQL server", http2=True, tls=tls, on_end=self._streams.close
        )

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; `prepare` comes first."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        gc.freeze()  # what is there now stays
        gc.set_threshold(*_COLLECTED_AFTER)
        try:
            self._server.serve_here()
        finally:
            self.engine.close()

    def prepare(self) -> None:
        """Return once all queries are known and run; who asks before waits. Raises as `Engine.start`."""
        try:
            self.engine.start()
        except BaseException:
            self._server.give_up()
            self.engine.close()
            raise

    def start(self) -> None:
        """Serve in a thread: who connects from now on is answered. Raises as `Engine.start`."""
        self.prepare()
        self._server.serve_in_thread()

    def close(self) -> None:
        """End what is being read, and stop; queries that write to topics go on with the next start."""
        self._server.stop()
        self.engine.close()
