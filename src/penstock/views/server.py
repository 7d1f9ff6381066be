"""A process that serves views: it follows the logs, is in the group, and listens.

server = ViewServer(app.topology(), bootstrap_servers="localhost:9092", port=8080)
server.run()                       # until SIGINT or SIGTERM; or start() and close(), beside other work
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from starlette.applications import Starlette

from penstock.client.settings import ConfigError
from penstock.topology.graph import Topology
from penstock.views.errors import ViewError, ViewsClosed
from penstock.views.http import application
from penstock.views.membership import Membership
from penstock.views.node import Node
from penstock.views.views import Views
from penstock.web.server import WebServer, listen

logger = logging.getLogger(__name__)

DEFAULT_PORT: Final = 8066
DEFAULT_STANDBYS: Final = 1
SESSION_TIMEOUT_MS: Final = 10_000
_STARTED_S: Final = 30.0
_LOOK_S: Final = 0.2
#: A thread that works hands the interpreter on this soon, or answers would wait for the follower.
_SWITCH_INTERVAL_S: Final = 0.001
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


class ViewServer:
    """One node. All that serve one application find each other by its group ``<application>-views``.

    Args:
        topology: the application's: ``app.topology()``.
        bootstrap_servers: ``host:port``, several separated by commas.
        host: the address to listen at. There is no TLS and no authentication: what can reach it can read.
        port: 0 for any that is free.
        advertised: how the other nodes reach this one, ``http://host:port``. Default: the host and port;
            needed where the host is ``0.0.0.0``.
        standbys: how many nodes keep each partition besides the first: with 1, the death of a node is not
            noticed by those who ask.
        session_timeout_ms: a node that was not heard of for so long is out of the group; 6,000 is the least
            that brokers take by default.
        stores: names of stores; None: all that can be queried.
        properties: Kafka's client properties.

    Raises ConfigError, UnknownStore, StoreNotQueryable, OSError where it can't listen.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        bootstrap_servers: str,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        advertised: str | None = None,
        standbys: int = DEFAULT_STANDBYS,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        stores: Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if standbys < 0:
            raise ConfigError(f"'standbys': expected 0 or more, found {standbys}")
        listening = listen(host, port)
        try:
            self.endpoint = advertised or _endpoint(host, listening.getsockname()[1])
            self.views = Views(
                topology,
                bootstrap_servers=bootstrap_servers,
                stores=stores,
                properties=properties,
                choice=lambda topic, count: self.node.choice(topic, count),
            )
        except BaseException:
            listening.close()
            raise
        self.node = Node(self.views, self.endpoint, standbys)
        self._membership = Membership(
            self.views.config,
            f"{topology.application}-views",
            self.endpoint,
            session_timeout_ms,
            self._joined,
        )
        self._has_joined = threading.Event()
        self._is_closing = False
        self._server = WebServer(application(self.node, self._lifespan), listening, name="views server")
        self._started = threading.Event()
        self._is_process = False

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or `close`."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._is_process = True
        self._server.serve_here()

    def start(self) -> None:
        """Serve in a thread; returns when it answers."""
        self._server.serve_in_thread()
        if not self._started.wait(_STARTED_S):
            raise RuntimeError(f"the server at {self.endpoint} did not start within {_STARTED_S:g} s")

    def wait_until_ready(self) -> None:
        """Until this node is in the group and has read what it keeps. Raises ViewsClosed."""
        while not self._has_joined.wait(_LOOK_S):
            if self._is_closing:
                raise ViewsClosed(f"the server at {self.endpoint} is closed")
        self.views.wait_until_ready()

    def _joined(self, members: frozenset[str]) -> None:
        self.node.joined(members)
        self._has_joined.set()

    def close(self) -> None:
        """Leave the group and stop."""
        self._server.stop()

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.views.start()
        self._membership.start()
        tasks = [
            asyncio.create_task(self.node.hand_over()),
            asyncio.create_task(asyncio.to_thread(self._settle)),
        ]
        self._started.set()
        try:
            yield
        finally:
            self._is_closing = True
            tasks[0].cancel()
            await asyncio.to_thread(self._membership.close)
            await asyncio.to_thread(self.views.close)
            self.node.close()

    def _settle(self) -> None:
        """Once all is read: those many keys will stay, so the garbage collector need not look at them."""
        with contextlib.suppress(ViewError):
            self.wait_until_ready()
            if self._is_process:
                gc.collect()
                gc.freeze()


def _endpoint(host: str, port: int) -> str:
    if host in _EVERYWHERE:
        raise ConfigError(
            f"listening on {host}: expected 'advertised', the address at which other nodes reach this one"
        )
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
