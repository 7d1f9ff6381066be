"""uvicorn as every server of Penstock runs it: on a socket that listens before the rest starts, with signals
that end it once, and with HTTP/2 where it is asked for."""

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

_BACKLOG: Final = 2048
_KEEP_ALIVE_S: Final = 75
_LAST_ANSWERS_S: Final = 2
_STOPPED_S: Final = 30.0


class WebServer(uvicorn.Server):
    """It ends on a signal as on anything else: uvicorn's own would send itself the signal once more.

    Args:
        listening: a socket of `listen`.
        name: of the thread, where it has one of its own.
        http2: connections may begin with HTTP/2.
        on_end: is called, in a thread, before answers that are under way are given their last seconds.
        tls: connections begin with it.
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
                http=_either_protocol() if http2 else "auto",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # who asks is nobody's business here
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LAST_ANSWERS_S,
            )
        )
        self._on_end = on_end
        self._listening = listening
        self._thread = threading.Thread(target=self.serve_here, name=name, daemon=True)
        if tls is not None:  # uvicorn's own options know files alone, and older ones no other way
            self.config.load()
            self.config.ssl = tls

    def serve_here(self) -> None:
        """Until SIGINT, SIGTERM or `stop`."""
        self.run([self._listening])

    def serve_in_thread(self) -> None:
        """Who connects from now on is answered."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the thread, if there is one. No signal is needed to end it any more."""
        self.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOPPED_S)

    def give_up(self) -> None:
        """Listen no more, before anything was served."""
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
        before = {kind: signal.signal(kind, self.handle_exit) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def _either_protocol() -> type[asyncio.Protocol]:
    from penstock.web.http2 import EitherProtocol  # h2 is there for who asks for it

    return EitherProtocol


def listen(host: str, port: int) -> socket.socket:
    """Who connects before the server runs waits. Port 0 is any that is free. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named asyncio turns Nagle's algorithm off: else a body waits for its head's ACK.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return made
