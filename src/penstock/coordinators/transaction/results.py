"""What a handler hands back besides records and responses."""

from enum import Enum
from typing import Final, NamedTuple

from penstock.coordinators.transaction.metadata import TopicPartition

__all__ = ["NEEDS_PRODUCER_ID", "NeedsProducerId", "TimedOut", "TransactionMarkers"]


class NeedsProducerId(Enum):
    """The decision takes a producer id that nobody has had; the call is to be made again with one."""

    NEEDS_PRODUCER_ID = "needs producer id"


NEEDS_PRODUCER_ID: Final = NeedsProducerId.NEEDS_PRODUCER_ID


class TimedOut(NamedTuple):
    """A transaction that has taken too long, but cannot be aborted without a producer id for what follows."""

    transactional_id: str
    start_timestamp_ms: int


class TransactionMarkers(NamedTuple):
    """How a transaction ended, for every partition that took part. There may be none: then all have heard."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    partitions: list[TopicPartition]
