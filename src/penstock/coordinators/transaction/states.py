"""The life of a transactional id, as a table.

A transactional id (KIP-98) names a producer across restarts. It has one transaction after another, all
under the producer id and epoch that the log remembers for it. A transaction is two-phase commit with the
coordinator's log as the only judge: once `PrepareCommit` is in it the transaction *is* committed, though no
partition knows yet; the markers that tell them are only its echo, and are repeated until all have heard.

``Empty``
    Known, with nothing begun: `InitProducerId` leads here, and again from every ended transaction.
``Ongoing``
    The partitions that take part are known *before* the first batch is written to them: were it the other
    way round, a transaction whose coordinator died could never be ended there. From the first partition on
    the clock runs, and when ``transaction.timeout.ms`` is over the coordinator aborts.
``PrepareCommit``, ``PrepareAbort``
    Decided. Markers are on their way; until they are written the next transaction has to wait
    (CONCURRENT_TRANSACTIONS), because a partition tells transactions of one producer apart only by the
    markers between them. Nothing leads out but their completion, whoever coordinates then.
``CompleteCommit``, ``CompleteAbort``
    Every partition has its marker. The next partition that is added begins the next transaction.
``Dead``
    Expired: a tombstone in the log, never a state in it.
``PrepareEpochFence``
    The moment in which a coordinator takes a transaction away from its producer. Here it has no extent: the
    epoch is bumped by the same record that says `PrepareAbort`. The name is known because clients may ask
    for it.

Zombies are kept out by epochs. `InitProducerId` bumps the epoch, so that of two processes with one
transactional id the older is refused with PRODUCER_FENCED. That does not help against a *request* that
arrives late: an EndTxn of the last transaction could end the next one. In version 2 of the protocol
(KIP-890) therefore every end of a transaction bumps the epoch as well, and the marker carries the bumped
one, so that batches which are still under way are refused by the partitions. There the client may also
abort what never began (`Empty`, `Complete…` to `PrepareAbort`): partitions are added by the brokers on the
way, so it cannot know whether anything has begun.

An epoch has 15 bits. The last one a producer gets is 32766; 32767 is left for the coordinator, to fence it.
A transaction that ends with the epoch used up (version 2), or an `InitProducerId` that finds it used up,
moves the transactional id to a new producer id and epoch 0.
"""

from enum import Enum, unique

__all__ = ["VALID_PREVIOUS_STATES", "TransactionState"]


@unique
class TransactionState(Enum):
    """The value is the name that DescribeTransactions and ListTransactions show."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def status(self) -> int:
        """The number that stands for the state in the log."""
        return _STATUS[self]

    @classmethod
    def of_status(cls, status: int) -> "TransactionState":
        """Raises KeyError for a number that no state has."""
        return _OF_STATUS[status]

    @property
    def is_prepared(self) -> bool:
        """The outcome is decided, but not yet in every partition."""
        return self in _PREPARED

    @property
    def has_no_transaction(self) -> bool:
        """Nothing is open; these are also the states a transactional id may expire in."""
        return self in _IDLE


_S = TransactionState
_OF_STATUS = dict(enumerate(TransactionState))  # they stand in the order of their numbers
_STATUS = {state: status for status, state in _OF_STATUS.items()}
_PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
_IDLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})

#: target state → the states it may be entered from
VALID_PREVIOUS_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: _IDLE,
    _S.ONGOING: _IDLE | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: _IDLE | {_S.ONGOING},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: _IDLE,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}
