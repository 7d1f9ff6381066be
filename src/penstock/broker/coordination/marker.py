"""The marker that ends a transaction in one partition."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Marker"]


class Marker(NamedTuple):
    """The outcome of a producer's transaction, as written to a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
