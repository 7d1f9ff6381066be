"""DescribeTransactions and ListTransactions: read-only requests of administrators."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.coordinators.transaction.metadata import TransactionMetadata
from penstock.coordinators.transaction.shard import Shard
from penstock.coordinators.transaction.states import TransactionState
from penstock.patterns import Pattern, PatternError
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

__all__ = ["TransactionFilter", "handle_describe_transaction", "handle_list_transactions"]

_STATES = {state.value: state for state in TransactionState}


class TransactionFilter(NamedTuple):
    """The filters of a ListTransactions request; a transaction must match all that are set."""

    states: frozenset[TransactionState] | None
    unknown_states: list[str]
    producer_ids: frozenset[int] | None
    duration_ms: int
    """Selects transactions that began longer ago than this; a negative value selects all."""
    pattern: Pattern | None

    @classmethod
    def of(cls, request: ListTransactionsRequest) -> "TransactionFilter":
        """Read the filters of the request. Raises INVALID_REGULAR_EXPRESSION."""
        names = request.state_filters
        return cls(
            states=frozenset(_STATES[name] for name in names if name in _STATES) if names else None,
            unknown_states=[name for name in names if name not in _STATES],
            producer_ids=frozenset(request.producer_id_filters) if request.producer_id_filters else None,
            duration_ms=request.duration_filter,
            pattern=_compile(request.transactional_id_pattern),
        )

    def includes(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        if self.producer_ids is not None and metadata.producer_id not in self.producer_ids:
            return False
        if self.states is not None and metadata.state not in self.states:
            return False
        if self.duration_ms >= 0 and now_ms - metadata.start_timestamp_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.fullmatch(metadata.transactional_id)


def _compile(pattern: str | None) -> Pattern | None:
    if not pattern:
        return None
    try:
        return Pattern(pattern)
    except PatternError as error:
        message = f"Transaction ID pattern `{pattern}` is not a valid regular expression: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error


def handle_list_transactions(
    shard: Shard, transaction_filter: TransactionFilter, now_ms: int
) -> list[ListTransactionsResponse.TransactionState]:
    """List the matching transactions, from any thread: metadata objects are replaced, never changed."""
    return [
        ListTransactionsResponse.TransactionState(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            transaction_state=metadata.state.value,
        )
        for metadata in list(shard.transactions.values())
        if transaction_filter.includes(metadata, now_ms)
    ]


def handle_describe_transaction(
    shard: Shard, transactional_id: str
) -> DescribeTransactionsResponse.TransactionState:
    metadata = shard.transactions.get(transactional_id)
    if metadata is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribeTransactionsResponse.TransactionState(
            error_code=error, transactional_id=transactional_id
        )
    return DescribeTransactionsResponse.TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=metadata.state.value,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_timestamp_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=list(_by_topic(metadata.partitions)),
    )


def _by_topic(
    partitions: Iterable[tuple[str, int]],
) -> Iterator[DescribeTransactionsResponse.TopicData]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    for topic, numbers in by_topic.items():
        yield DescribeTransactionsResponse.TopicData(topic=topic, partitions=numbers)
