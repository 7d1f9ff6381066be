"""Loading `__transaction_state` with records of older, current and future brokers."""

from pathlib import Path

from penstock.broker.coordination.transactions.loader import load
from penstock.coordinators.transaction.config import TransactionCoordinatorConfig
from penstock.coordinators.transaction.coordinator import TransactionCoordinator
from penstock.protocol.messages import TransactionLogKey, TransactionLogValue
from penstock.protocol.record_serde import encode_coordinator_key, encode_versioned
from penstock.protocol.records import Record, encode_batch
from penstock.storage.config import LogConfig
from penstock.storage.partition.log import Log

EMPTY, ONGOING, COMPLETE_COMMIT = 0, 1, 4


def transaction(transactional_id: str, status: int | None, version: int = 1, epoch: int = 0) -> Record:
    """A record of a transactional id; without a status it's a tombstone."""
    key = encode_coordinator_key(TransactionLogKey(transactional_id=transactional_id))
    if status is None:
        return Record(0, 0, key, None)
    partitions = [TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 2])]
    value = TransactionLogValue(
        producer_id=7,
        producer_epoch=epoch,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=partitions if status == ONGOING else None,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=4,
    )
    return Record(0, 0, key, encode_versioned(value, version))


def loaded(directory: Path, *batches: list[Record]) -> TransactionCoordinator:
    directory = directory / "__transaction_state-0"
    directory.mkdir()
    written, end_offset = b"", 0
    for batch in batches:
        written += encode_batch(batch, end_offset)
        end_offset += len(batch)
    (directory / f"{0:020}.log").write_bytes(written)
    log = Log.open(
        directory, "__transaction_state", 0, LogConfig(), clean=False, recovery_point=0, clock=lambda: 0
    )
    coordinator = TransactionCoordinator(
        TransactionCoordinatorConfig(), coordinator_epoch=1, transaction_version=2
    )
    load(log, log.log_end_offset, coordinator, now_ms=10)
    log.close()
    return coordinator


def state_of(coordinator: TransactionCoordinator, transactional_id: str) -> str:
    return coordinator.handle_describe_transaction(transactional_id).transaction_state


def test_the_newest_record_of_each_id_counts(tmp_path: Path) -> None:
    coordinator = loaded(
        tmp_path,
        [transaction("a", EMPTY), transaction("b", EMPTY), transaction("gone", EMPTY)],
        [transaction("a", ONGOING), transaction("gone", None)],
        [transaction("a", COMPLETE_COMMIT, epoch=3)],
    )
    assert state_of(coordinator, "a") == "CompleteCommit"
    assert coordinator.handle_describe_transaction("a").producer_epoch == 3
    assert state_of(coordinator, "b") == "Empty"
    assert state_of(coordinator, "gone") == ""


def test_both_versions_of_values_are_read(tmp_path: Path) -> None:
    coordinator = loaded(
        tmp_path, [transaction("old", ONGOING, version=0), transaction("new", ONGOING, version=1)]
    )
    for transactional_id in ("old", "new"):
        described = coordinator.handle_describe_transaction(transactional_id)
        assert [(entry.topic, entry.partitions) for entry in described.topics] == [("t", [0, 2])]


def test_what_a_newer_release_has_written_is_left_alone(tmp_path: Path) -> None:
    new_key = Record(0, 0, b"\x00\x63new", b"\x00\x00value")
    new_value = transaction("newer", EMPTY)._replace(value=b"\x00\x63value")
    coordinator = loaded(tmp_path, [new_key, new_value, transaction("a", EMPTY)])
    assert state_of(coordinator, "newer") == ""
    assert state_of(coordinator, "a") == "Empty"
