"""The states of a transactional id, and the table of their transitions.

A transactional id (KIP-98) names a producer across restarts. It has one transaction after another, under the
producer id and epoch that the log holds for it. A transaction is a two-phase commit in which only the
coordinator's log decides: once the log contains `PrepareCommit`, the transaction *is* committed, although no
partition knows it yet. The markers only report the decision to the partitions, and are retried until all of
them have theirs.

``Empty``
    The id is known, but has no transaction. `InitProducerId` leads here, also from every ended transaction.
``Ongoing``
    The coordinator learns about each partition *before* the first batch is written to it. Otherwise, after a
    crash of the coordinator, the transaction could never be ended in that partition. The timeout starts with
    the first partition; when ``transaction.timeout.ms`` has passed, the coordinator aborts the transaction.
``PrepareCommit``, ``PrepareAbort``
    The transaction is decided and its markers are being written. Until they are, the next transaction has to
    wait (CONCURRENT_TRANSACTIONS), because only the markers separate two transactions of one producer in a
    partition. The only way out is completion, also after another broker becomes the coordinator.
``CompleteCommit``, ``CompleteAbort``
    Every partition has its marker. The next partition that is added begins the next transaction.
``Dead``
    The id has expired. The log contains a tombstone, never this state.
``PrepareEpochFence``
    The moment in which a coordinator takes a transaction away from its producer. It has no duration here: the
    record with `PrepareAbort` also bumps the epoch. The name exists because clients may filter by it.

Epochs fence zombies. `InitProducerId` bumps the epoch, so that of two processes with one transactional id the
older is refused with PRODUCER_FENCED. This does not help against a late *request*: an EndTxn of the last
transaction could end the next one. In version 2 of the protocol (KIP-890) therefore every end of a
transaction bumps the epoch as well. The marker carries the bumped epoch, so that the partitions refuse
batches still in flight. In this version the client may also abort a transaction that never began (`Empty`,
`Complete…` to `PrepareAbort`): brokers add the partitions while they handle the batches, so the client cannot
know whether anything has begun.

An epoch has 15 bits. The last epoch a producer gets is 32766; the coordinator keeps 32767 to fence that one.
A transaction that ends with an exhausted epoch (version 2), or an `InitProducerId` that finds it exhausted,
moves the transactional id to a new producer id and epoch 0.
"""

from enum import Enum, unique

__all__ = ["VALID_PREVIOUS_STATES", "TransactionState"]


@unique
class TransactionState(Enum):
    """One state of a transactional id; the value is its name in DescribeTransactions and ListTransactions."""

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
        """The number that represents the state in the log."""
        return _STATUS[self]

    @classmethod
    def of_status(cls, status: int) -> "TransactionState":
        """The state with this number. Raises KeyError if there is none."""
        return _OF_STATUS[status]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, but not all partitions may have their marker yet."""
        return self in _PREPARED

    @property
    def has_no_transaction(self) -> bool:
        """Whether no transaction is open; in these states a transactional id may also expire."""
        return self in _IDLE


_S = TransactionState
_OF_STATUS = dict(enumerate(TransactionState))  # the states are declared in the order of their numbers
_STATUS = {state: status for status, state in _OF_STATUS.items()}
_PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
_IDLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})

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
"""The states from which each state may be entered."""
