"""Waits for a herder, and forwards requests that another worker has to answer.

Any worker accepts any request. If its herder says that another worker has to perform it, that worker is asked
over HTTP with the parameter ``forward=true``, so that it may forward the request once more, because the first
one may have missed a rebalance. The last one gets ``forward=false`` and answers 409 if it cannot perform it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar
from urllib.parse import urlencode, urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.responses import Response

from penstock.connect.group.session_keys import ALGORITHM_HEADER, SIGNATURE_HEADER
from penstock.connect.herding.entities import Stage
from penstock.connect.herding.errors import RebalanceNeeded, WrongWorker
from penstock.connect.herding.worker_client import WorkerAnswer, WorkerClient
from penstock.connect.rest.answers import JSON, RequestRefused
from penstock.connect.rest.asked import Asked

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 90.0
HEALTH_TIMEOUT_S: Final = 10.0
_THREADS: Final = 64
"""Limits the calls of a herder and the forwarded requests that block at the same time; others wait."""
_FORWARDED: Final = ("authorization", "content-type", SIGNATURE_HEADER, ALGORITHM_HEADER)
_STALE: Final = (
    "Cannot complete request momentarily due to stale configuration "
    "(typically caused by a concurrent config change)"
)
_NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
_TOO_FAR: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class Waiting:
    """Performs the operations of requests.

    Args:
        client: asks other workers.
        stage: returns the operation that occupies the herder.
        timeout_s: the limit of the operations of one request.
        health_timeout_s: the limit of the answer to ``/health``.
    """

    def __init__(
        self,
        client: WorkerClient,
        stage: Callable[[], Stage | None],
        timeout_s: float = REQUEST_TIMEOUT_S,
        health_timeout_s: float = HEALTH_TIMEOUT_S,
    ) -> None:
        self._client = client
        self._stage = stage
        self._timeout_s = timeout_s
        self.health_timeout_s = health_timeout_s
        self._threads = CapacityLimiter(_THREADS)

    async def call(self, operation: Callable[[], T]) -> T:
        """Run an operation that may block for a short time."""
        return await to_thread.run_sync(operation, limiter=self._threads)

    async def complete(self, operation: Callable[[], Future[T]]) -> T:
        """Start an operation and return its result. Raises RequestRefused after the timeout."""
        try:
            return await self.result(await self.call(operation), self._timeout_s)
        except TimeoutError:
            stage = self._stage()
            message = "Request timed out" if stage is None else f"Request timed out. {stage}"
            raise RequestRefused(500, message) from None

    async def result(self, future: Future[T], timeout_s: float) -> T:
        """Wait for a herder, which goes on after a timeout. Raises TimeoutError."""
        waited = asyncio.wrap_future(future)
        done, _ = await asyncio.wait([waited], timeout=timeout_s)
        if not done:
            waited.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise TimeoutError
        return waited.result()

    async def complete_or_forward(
        self, asked: Asked, operation: Callable[[], Future[T]], response: Callable[[T], Response]
    ) -> Response:
        """Answer with the result of an operation, or with the answer of the worker that can perform it."""
        try:
            return response(await self.complete(operation))
        except RebalanceNeeded:
            raise RequestRefused(409, _STALE) from None
        except WrongWorker as error:
            if asked.forward is False:
                raise RequestRefused(409, _TOO_FAR) from None
            if error.forward_url is None:
                raise RequestRefused(409, _NO_LEADER) from None
            url = error.forward_url
        return _passed_on(asked, await self.call(lambda: self._forward(asked, url)))

    def _forward(self, asked: Asked, worker: str) -> WorkerAnswer:
        may_forward = "true" if asked.forward is None else "false"
        query = [(name, value) for name, value in asked.query if name != "forward"]
        target = f"{asked.path}?{urlencode([*query, ('forward', may_forward)])}"
        headers = {name: asked.headers[name] for name in _FORWARDED if name in asked.headers}
        return self._client.ask(asked.method, worker.rstrip("/") + target, asked.body, headers)


def _passed_on(asked: Asked, found: WorkerAnswer) -> Response:
    if not 200 <= found.status < 300 and found.status < 400:
        message = f"Unexpected status code when handling forwarded request: {found.status}"
        raise RequestRefused(500, message)
    kind = found.headers.get("content-type", JSON) if found.body else None
    response = Response(found.body, found.status, media_type=kind)
    if "location" in found.headers:
        response.headers["location"] = asked.base_url + urlsplit(found.headers["location"]).path
    return response
