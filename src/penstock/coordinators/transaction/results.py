"""The results of handlers other than records and responses."""

from enum import Enum
from typing import Final, NamedTuple

from penstock.coordinators.transaction.metadata import TopicPartition

__all__ = ["NEEDS_PRODUCER_ID", "NeedsProducerId", "TimedOut", "TransactionMarkers"]


class NeedsProducerId(Enum):
    """The decision needs an unused producer id; the caller must repeat the call with one."""

    NEEDS_PRODUCER_ID = "needs producer id"


NEEDS_PRODUCER_ID: Final = NeedsProducerId.NEEDS_PRODUCER_ID


class TimedOut(NamedTuple):
    """A transaction that timed out, but cannot be aborted until it has a producer id to continue with."""

    transactional_id: str
    start_timestamp_ms: int


class TransactionMarkers(NamedTuple):
    """The outcome of a transaction for the partitions that took part, of which there may be none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    partitions: list[TopicPartition]
