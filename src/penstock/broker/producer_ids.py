"""Producer ids, handed out from blocks that the controller allocates (KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """The current block of this node; `allocate_block` gives the next as its first id and its length."""

    def __init__(self, allocate_block: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        self._allocate_block = allocate_block
        self._next = 0
        self._end = 0
        self._allocation = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer of the cluster has had. Raises KafkaError if no block can be had."""
        if self._next == self._end:
            async with self._allocation:
                if self._next == self._end:
                    first, length = await self._allocate_block()
                    self._next, self._end = first, first + length
        self._next += 1
        return self._next - 1
