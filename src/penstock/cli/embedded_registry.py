"""The schema registry of `penstock start --registry`, which runs in a thread of the node's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from penstock.client.errors import ClientError
from penstock.client.settings import ConfigError
from penstock.registry.api.server import RegistryServer
from penstock.registry.store.image import Broken


class EmbeddedRegistry:
    """An ordinary schema registry that connects to the node's listener and starts beside the node.

    ``properties`` are those of Confluent's registry, such as its credentials at the node. ``failed`` gets the
    error that prevents its start; ``is_ready`` is called with its URL once it has started.
    """

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, str],
        host: str | None,
        port: int | None,
        is_ready: Callable[[str], None],
    ) -> None:
        self.failed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._properties = {"kafkastore.bootstrap.servers": bootstrap, **properties}
        self._address = (host, port)
        self._is_ready = is_ready
        self._server: RegistryServer | None = None
        self._started = asyncio.create_task(self._start())

    async def _start(self) -> None:
        host, port = self._address
        try:
            self._server = RegistryServer(self._properties, host=host, port=port)
            await asyncio.to_thread(self._server.start)
        except (ConfigError, ClientError, Broken, OSError) as error:
            self._server = None
            self.failed.set_result(f"--registry: {error}")
        else:
            self._is_ready(self._server.url)
            print(f"schema registry ready at {self._server.url}", flush=True)

    async def close(self) -> None:
        """Close the registry. Call this before the node stops, since leaving its group needs the node."""
        await self._started
        if self._server is not None:
            await asyncio.to_thread(self._server.close)
