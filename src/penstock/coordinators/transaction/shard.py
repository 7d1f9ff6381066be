"""The state that the handlers of one partition of `__transaction_state` share, with timers and markers."""

from dataclasses import dataclass
from enum import Enum, auto

from penstock.coordinators.records import Records
from penstock.coordinators.timers import Timers
from penstock.coordinators.transaction.config import TransactionCoordinatorConfig
from penstock.coordinators.transaction.metadata import TransactionMetadata
from penstock.coordinators.transaction.records import transaction_record
from penstock.coordinators.transaction.results import TimedOut, TransactionMarkers
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.errors import ErrorCode, KafkaError

__all__ = ["Counters", "Shard", "TimerKind"]


class TimerKind(Enum):
    """The first part of a timer's key; the transactional id follows, empty for the expiration."""

    TRANSACTION = auto()  # an open transaction has timed out
    COMPLETION = auto()  # the record that ends a transaction could not be written yet
    EXPIRATION = auto()


@dataclass(slots=True)
class Counters:
    """Counts of events since the start, for metrics."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    expired: int = 0


class Shard:
    """The state with small operations on it; the modules named after the requests take the decisions."""

    __slots__ = (
        "config",
        "coordinator_epoch",
        "counters",
        "decided",
        "expiration_queue",
        "is_active",
        "markers",
        "producer_id_requests",
        "timers",
        "transaction_version",
        "transactions",
    )

    def __init__(
        self, config: TransactionCoordinatorConfig, coordinator_epoch: int, transaction_version: int
    ) -> None:
        self.config = config
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.transactions: dict[str, TransactionMetadata] = {}
        self.decided: dict[str, TransactionMetadata] = {}
        """Steps whose records have been returned, but neither replayed nor refused yet."""
        self.timers = Timers()
        self.markers: list[TransactionMarkers] = []
        self.producer_id_requests: list[TimedOut] = []
        self.expiration_queue: list[str] = []  # ids that the running expiration has yet to check
        self.counters = Counters()
        self.is_active = False  # True once loaded: replayed records are new from then on

    def known(self, transactional_id: str) -> TransactionMetadata:
        """The metadata of an id. Raises INVALID_REQUEST or INVALID_PRODUCER_ID_MAPPING."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return metadata

    def decide(self, metadata: TransactionMetadata) -> Records:
        """Return the record of a step, which takes effect when the record is replayed."""
        self.decided[metadata.transactional_id] = metadata
        return [transaction_record(metadata, self.transaction_version)]

    def arm(self, metadata: TransactionMetadata) -> None:
        """Schedule the timeout of an open transaction, or cancel it in any other state."""
        key = (TimerKind.TRANSACTION, metadata.transactional_id)
        deadline_ms = metadata.deadline_ms
        if deadline_ms is None:
            self.timers.cancel(key)
        else:
            self.timers.schedule(key, deadline_ms)

    def send_markers(self, metadata: TransactionMetadata) -> None:
        """Queue the markers of a prepared transaction."""
        self.markers.append(
            TransactionMarkers(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                producer_epoch=metadata.producer_epoch,
                coordinator_epoch=self.coordinator_epoch,
                commit=metadata.state is TransactionState.PREPARE_COMMIT,
                transaction_version=metadata.client_transaction_version,
                partitions=sorted(metadata.partitions),
            )
        )
