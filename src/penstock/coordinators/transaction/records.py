"""The records of `__transaction_state`, in the versions that Apache Kafka 4.3 writes.

If the feature transaction.version is 0, the value has version 0, which cannot hold the previous and the next
producer id or the version of the client's protocol. From 1 on, the value has version 1.
"""

from collections.abc import Iterable

from penstock.coordinators.records import CoordinatorRecord
from penstock.coordinators.transaction.metadata import TopicPartition, TransactionMetadata
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.messages import TransactionLogKey, TransactionLogValue

__all__ = ["metadata_of", "transaction_record", "transaction_tombstone"]


def transaction_record(metadata: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """The record of the metadata; `transaction_version` is the level of the cluster's feature."""
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.status,
        transaction_partitions=(
            None if metadata.state is TransactionState.EMPTY else _by_topic(metadata.partitions)
        ),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
    )
    value_version = 1 if transaction_version >= 1 else 0
    if value_version >= 1:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_transaction_version
    key = TransactionLogKey(transactional_id=metadata.transactional_id)
    return CoordinatorRecord(key, value, value_version)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TransactionLogValue.PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [
        TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=ids)
        for topic, ids in by_topic.items()
    ]


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


def metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Read a record, as the inverse of `transaction_record`. Raises KeyError for an unknown state."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState.of_status(value.transaction_status),
        partitions=frozenset(
            (schema.topic, partition)
            for schema in value.transaction_partitions or ()
            for partition in schema.partition_ids
        ),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )
