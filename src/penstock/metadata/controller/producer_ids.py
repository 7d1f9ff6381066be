"""Blocks of producer ids: a broker takes a thousand at a time and hands them out itself (KIP-730)."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.metadata.controller.state import ControllerState, Decision
from penstock.protocol.messages import ProducerIdsRecord

BLOCK_SIZE: Final = 1000


class ProducerIdsBlock(NamedTuple):
    """Producer ids ``first`` to ``first + size - 1``, given to one broker for ever."""

    first: int
    size: int


def allocate_producer_ids(state: ControllerState, broker_id: int) -> Decision[ProducerIdsBlock]:
    """The next block for a registered broker."""
    first = state.image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=broker_id,
        broker_epoch=state.image.brokers[broker_id].epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    return Decision([record], ProducerIdsBlock(first, BLOCK_SIZE))
