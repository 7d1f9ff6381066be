"""Blocks of producer ids: a broker reserves a thousand at a time and assigns them itself (KIP-730)."""

from __future__ import annotations

from typing import Final

from penstock.metadata.controller.registration import check_broker_epoch
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    ProducerIdsRecord,
)

BLOCK_SIZE: Final = 1000
"""The producer ids in one block, as in Kafka: one request to the controller covers that many producers."""

_LAST_PRODUCER_ID: Final = (1 << 63) - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Allocate the next block to a registered broker, for good.

    Raises Refusal STALE_BROKER_EPOCH for an earlier incarnation of the broker.
    """
    check_broker_epoch(state, request.broker_id, request.broker_epoch)
    first = state.image.next_producer_id
    if first > _LAST_PRODUCER_ID - BLOCK_SIZE:
        raise Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    return Decision(
        [record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    )
