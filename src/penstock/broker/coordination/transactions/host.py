"""The interface through which the transaction coordinators use their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.coordination.host import CoordinationHost
from penstock.broker.coordination.transactions.marker_writes import MarkerHost

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.producer_ids import ProducerIds


class TransactionHost(CoordinationHost, MarkerHost, Protocol):
    """A broker that also coordinates groups, whose offsets a transaction may commit."""

    producer_ids: ProducerIds
