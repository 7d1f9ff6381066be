"""The Connect worker of `penstock start --connect`, which runs in a process of its own beside the node."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final, NamedTuple

from penstock.processes.connect import ConnectProcess
from penstock.processes.node import ClusterError
from penstock.processes.server import STOP_TIMEOUT_S

READY_TIMEOUT_S: Final = 120.0


class ConnectOptions(NamedTuple):
    """The address on which a worker listens, and the file with its properties."""

    listen: str | None
    config: Path | None

    def process(self, log_file: Path | None = None) -> ConnectProcess:
        return ConnectProcess(self.listen, self.config, log_file)


class EmbeddedConnect:
    """An ordinary worker that starts once the node is ready. Its log goes where the node's log goes.

    ``failed`` gets the error that prevents its start. A worker that ends later is reported, and the node runs
    on without it.
    """

    def __init__(self, bootstrap: str, options: ConnectOptions) -> None:
        self.failed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._process = options.process()
        self._is_closing = False
        self._process.launch([bootstrap])
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            address = await asyncio.to_thread(self._process.await_ready, READY_TIMEOUT_S)
        except ClusterError as error:
            if not self._is_closing:
                self.failed.set_result(f"--connect: {error}")
            return
        print(f"Connect worker ready at {address}", flush=True)
        code = await asyncio.to_thread(self._process.wait)
        if not self._is_closing:
            print(f"penstock: {self._process} ended with exit code {code}", file=sys.stderr, flush=True)

    async def close(self) -> None:
        """Stop the worker. Call this before the node stops, since leaving its group needs the node."""
        self._is_closing = True
        self._process.terminate()
        # Its pipe is closed only after the thread that reads from it has ended with the worker.
        ended, _ = await asyncio.wait({self._running}, timeout=STOP_TIMEOUT_S)
        if not ended:
            print(f"penstock: {self._process} did not stop and is killed", file=sys.stderr, flush=True)
        await asyncio.to_thread(self._process.kill)
        await self._running
