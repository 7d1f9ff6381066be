"""Producer ids, assigned from blocks that the controller allocates (KIP-730)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Final

from penstock.broker.peers import ControllerChannel, PeerError
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse

__all__ = ["ProducerIds", "allocate_block"]

log = logging.getLogger(__name__)

PREFETCH_AT: Final = 0.9
"""The used share of a block at which the next block is requested, so that no producer has to wait for it."""

ALLOCATION_TIMEOUT_MS: Final = 5_000
"""The time limit of an allocation; when it expires, the client gets a retriable error."""


class ProducerIds:
    """The current block of this node; `allocate` returns the first id and the length of the next one."""

    def __init__(self, allocate: Callable[[], Coroutine[object, object, tuple[int, int]]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._prefetch_at = 0
        self._prefetched: asyncio.Task[tuple[int, int]] | None = None

    async def next(self) -> int:
        """Return an id that was never used in the cluster. Raises KafkaError if no block can be allocated."""
        while self._next == self._end:
            block = self._prefetch()
            first, length = await asyncio.shield(block)
            if self._prefetched is block:  # else another waiting call has already taken the block
                self._prefetched = None
                self._next, self._end = first, first + length
                self._prefetch_at = first + int(length * PREFETCH_AT)
        producer_id = self._next
        self._next += 1
        if producer_id == self._prefetch_at:
            self._prefetch()
        return producer_id

    def close(self) -> None:
        """Cancel the pending allocation."""
        if self._prefetched is not None:
            self._prefetched.cancel()

    def _prefetch(self) -> asyncio.Task[tuple[int, int]]:
        """Return the task that allocates the next block; a new task only if there is none or it failed."""
        if self._prefetched is None:
            self._prefetched = asyncio.get_running_loop().create_task(self._allocate())
            self._prefetched.add_done_callback(self._forget_failure)
        return self._prefetched

    def _forget_failure(self, allocation: asyncio.Task[tuple[int, int]]) -> None:
        if allocation.cancelled():
            return
        error = allocation.exception()
        if error is not None:
            log.warning("no producer ids allocated error=%s", error)
            if self._prefetched is allocation:
                self._prefetched = None


async def allocate_block(
    broker_id: int, broker_epoch: Callable[[], int], channel: ControllerChannel
) -> tuple[int, int]:
    """Allocate a block at the active controller and return its first id and length.

    Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS if that fails, so that clients retry.
    """
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch())
    try:
        response = await channel.call(request, AllocateProducerIdsResponse, ALLOCATION_TIMEOUT_MS)
    except PeerError as error:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from None
    if response.error_code:
        name = ErrorCode.of(response.error_code).name
        raise KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the controller allocated no producer ids: {name}"
        )
    return response.producer_id_start, response.producer_id_len
