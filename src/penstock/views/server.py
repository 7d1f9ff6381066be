"""A process that serves views: it follows the logs, joins the group, and listens for queries.

    server = ViewServer(app.topology(), bootstrap_servers="localhost:9092", port=8080)
    server.run()

`ViewServer.run` serves until SIGINT or SIGTERM. A process with other work calls `ViewServer.start` and
`ViewServer.close` instead.
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
from penstock.security.access.exposure import warn_unless_guarded
from penstock.topology.graph import Topology
from penstock.views.access import ServerAccess
from penstock.views.errors import ViewError, ViewsClosed
from penstock.views.http import application
from penstock.views.membership import Membership
from penstock.views.node import Node
from penstock.views.views import Views
from penstock.web.listeners import url
from penstock.web.server import WebServer, listen

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = 8066
DEFAULT_STANDBYS: Final = 1
SESSION_TIMEOUT_MS: Final = 10_000
_STARTED_S: Final = 30.0
_LOOK_S: Final = 0.2
_SWITCH_INTERVAL_S: Final = 0.001
"""The interpreter's switch interval. It is short so that answers do not wait for the follower's thread."""
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


class ViewServer:
    """One node. All nodes of an application find each other through its group ``<application>-views``.

    Args:
        topology: the application's topology: ``app.topology()``.
        bootstrap_servers: ``host:port``, several separated by commas.
        host: the address to listen at. Without authentication, every client that can connect can read.
        port: the port; 0 chooses a free one.
        advertised: the URL at which other nodes reach this one, ``http://host:port`` or https. Default: host
            and port; required if the host is ``0.0.0.0``.
        standbys: how many nodes keep each partition in addition to the first. With 1, clients do not notice
            the death of a node.
        session_timeout_ms: a node without a heartbeat for this long leaves the group. Brokers accept at least
            6,000 by default.
        stores: names of stores; None: all that can be queried.
        properties: Kafka's client properties.
        server_properties: TLS and authentication of the server, under the names of Confluent's servers
            (docs/security.md).

    Raises ConfigError, UnknownStore, StoreNotQueryable, and OSError if it can't listen.
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
        server_properties: Mapping[str, str] | None = None,
    ) -> None:
        if standbys < 0:
            raise ConfigError(f"'standbys': expected 0 or more, found {standbys}")
        security = ServerAccess.from_properties(server_properties or {})
        if advertised is not None and not advertised.startswith(f"{security.scheme}://"):
            raise ConfigError(f"'advertised' is {advertised}: expected {security.scheme}://host:port")
        self._access = security.access
        listening = listen(host, port)
        try:
            bound: int = listening.getsockname()[1]
            self.endpoint = advertised or _endpoint(security.scheme, host, bound)
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
        self.node = Node(self.views, self.endpoint, standbys, security.forwarder)
        self._membership = Membership(
            self.views.config,
            f"{topology.application}-views",
            self.endpoint,
            session_timeout_ms,
            self._joined,
        )
        self._has_joined = threading.Event()
        self._is_closing = False
        served = application(
            self.node, self._lifespan, access=security.access, open_paths=security.open_paths
        )
        self._server = WebServer(served, listening, name="views server", tls=security.tls)
        warn_unless_guarded(security.scheme, host, bound, is_guarded=security.is_guarded)
        self._started = threading.Event()
        self._is_process = False

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or `close`."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._is_process = True
        self._server.serve_here()

    def start(self) -> None:
        """Serve in a thread, and return once the server answers."""
        self._server.serve_in_thread()
        if not self._started.wait(_STARTED_S):
            raise RuntimeError(f"the server at {self.endpoint} did not start within {_STARTED_S:g} s")

    def wait_until_ready(self) -> None:
        """Wait until this node has joined the group and has read its partitions. Raises ViewsClosed."""
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
            self._access.close()

    def _settle(self) -> None:
        """Exempt the keys from garbage collection once all logs are read, because most of them will stay."""
        with contextlib.suppress(ViewError):
            self.wait_until_ready()
            if self._is_process:
                gc.collect()
                gc.freeze()


def _endpoint(scheme: str, host: str, port: int) -> str:
    if host in _EVERYWHERE:
        raise ConfigError(
            f"listening on {host}: expected 'advertised', the URL at which other nodes reach this one"
        )
    return url(scheme, host, port)
