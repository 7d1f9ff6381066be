"""Blocks that carry to the sink how many records the nodes of a task have dropped in a batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.spark.streams.blocks.packing import Binary, Block, Kind


def dropped_block(dropped: Mapping[str, int], partition: int, clock_ms: int) -> Block:
    """Return a block of counts by node, of the tasks of this partition."""
    none = np.zeros(len(dropped), np.int64)
    return Block(
        Kind.DROPPED,
        clock_ms,
        "",
        partition,
        (),
        none,
        none,
        Binary.of([node.encode() for node in dropped]),
        Binary.of([b"%d" % count for count in dropped.values()]),
    )


def dropped_in(block: Block) -> dict[str, int]:
    """The counts by node in a block."""
    counts = zip(block.keys.values(), block.values.values(), strict=True)
    return {(node or b"").decode(): int(count or 0) for node, count in counts}
