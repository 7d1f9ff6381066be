"""AddPartitionsToTxn and AddOffsetsToTxn: add the partitions that a transaction will write to.

Both add partitions, because the offsets of a group belong to a partition of `__consumer_offsets`. Clients of
the first protocol send the requests themselves, one transaction at a time. Brokers send them on behalf of
their producers, either to add the partitions (version 2) or only to verify that the client has added them
(KIP-890).
"""

from collections.abc import Collection

from penstock.coordinators.records import Records
from penstock.coordinators.transaction.metadata import TopicPartition, TransactionMetadata
from penstock.coordinators.transaction.shard import Shard
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.errors import ErrorCode, KafkaError

__all__ = ["handle_add_partitions", "handle_verify_partitions"]


def handle_add_partitions(
    shard: Shard,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    transaction_version: int,
    now_ms: int,
) -> tuple[Records, ErrorCode]:
    try:
        metadata = shard.known(transactional_id)
        # Checked before the producer: the ids it sends may become valid when the transaction completes.
        _check_not_ending(metadata)
        _check_producer(metadata, producer_id, producer_epoch)
    except KafkaError as error:
        return [], error.code
    if metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(partitions):
        return [], ErrorCode.NONE
    return shard.decide(metadata.add_partitions(partitions, transaction_version, now_ms)), ErrorCode.NONE


def handle_verify_partitions(
    shard: Shard,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    try:
        metadata = shard.known(transactional_id)
        _check_producer(metadata, producer_id, producer_epoch)
        _check_not_ending(metadata)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return {
        partition: ErrorCode.NONE if partition in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> None:
    """Check the producer's id and epoch. Raises INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED."""
    if metadata.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _check_not_ending(metadata: TransactionMetadata) -> None:
    """Check that no transaction is being completed. Raises CONCURRENT_TRANSACTIONS."""
    if metadata.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
