"""The uvicorn server of all Penstock's web applications.

It takes a socket that listens before the rest starts, handles a signal only once, and serves HTTP/2 if
requested.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette

from penstock.processes.stop_signals import stop_signals
from penstock.web.http1 import BoundedHttp1Protocol

_BACKLOG: Final = 2048
_KEEP_ALIVE_S: Final = 75
_LAST_ANSWERS_S: Final = 2
_STOPPED_S: Final = 30.0


class WebServer(uvicorn.Server):
    """A web server. Unlike uvicorn's own, it does not send itself the signal again that ended it.

    Args:
        listening: a socket made by `listen`.
        name: the name of the server's thread, if it has its own.
        http2: whether connections may begin with HTTP/2.
        on_end: called in a thread before answers in progress get their last seconds.
        tls: the TLS context, if connections begin with TLS.
    """

    def __init__(
        self,
        application: Starlette,
        listening: socket.socket,
        *,
        name: str,
        http2: bool = False,
        on_end: Callable[[], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=_either_protocol() if http2 else BoundedHttp1Protocol,
                log_level="warning",
                access_log=False,
                server_header=False,
                # The client's address is not used.
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LAST_ANSWERS_S,
            )
        )
        self._on_end = on_end
        self._listening = listening
        self._thread = threading.Thread(target=self.serve_here, name=name, daemon=True)
        # uvicorn's own options take only files, and its older versions have no other way.
        if tls is not None:
            self.config.load()
            self.config.ssl = tls

    def serve_here(self) -> None:
        """Serve until one of `stop_signals` arrives, or until `stop`."""
        self.run([self._listening])

    def serve_in_thread(self) -> None:
        """Serve in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop without a signal, and wait for the thread, if there is one."""
        self.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOPPED_S)

    def give_up(self) -> None:
        """Close the listening socket of a server that never served."""
        self._listening.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._on_end is not None:
            await asyncio.to_thread(self._on_end)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.signal(kind, self.handle_exit) for kind in stop_signals()}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def _either_protocol() -> type[asyncio.Protocol]:
    from penstock.web.http2 import EitherProtocol  # h2 is only installed where HTTP/2 is used

    return EitherProtocol


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; connections wait until the server runs.

    Port 0 picks a free port. Raises OSError.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only if the protocol is named. Otherwise a body would wait for the
    # ACK of its head.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return made
