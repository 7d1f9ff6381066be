"""The transaction coordinator on a real node: its log and its markers, also under failures."""

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from broker_wire import batch_of
from in_process import create, run, running_node
from penstock.broker.coordination.groups.runtime import GROUP_METADATA_TOPIC
from penstock.broker.coordination.transactions import marker_sender as transaction_markers
from penstock.broker.coordination.transactions.runtime import TRANSACTION_STATE_TOPIC, TV0, TV2
from penstock.broker.metrics.transaction_metrics import transaction_metrics
from penstock.broker.node import Broker
from penstock.broker.partitions.replica import Replica
from penstock.coordinators.transaction.metadata import TransactionMetadata
from penstock.coordinators.transaction.records import transaction_record
from penstock.coordinators.transaction.states import TransactionState
from penstock.metadata.controller.feature_updates import update_features
from penstock.metadata.snapshot import encode_snapshot
from penstock.patterns import Pattern
from penstock.protocol.batch import iter_headers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    EndTxnRequest,
    EndTxnResponse,
    FeatureLevelRecord,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    UpdateFeaturesRequest,
)
from penstock.protocol.records import decode_batch, decode_batches, decode_end_txn_marker
from penstock.storage.errors import StorageFailed
from penstock.storage.partition.log import Log
from penstock.storage.producers.verification import NOT_REQUIRED
from virtual_time import run_virtually
from waiting import until

OK = ErrorCode.NONE
LAST_EPOCH = 32_766

Producer = tuple[int, int]
"""The id and epoch of a producer."""


async def init(broker: Broker, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer = broker.transactions.init_producer_id(request)
    response = await answer
    assert isinstance(response, InitProducerIdResponse)
    assert response.error_code == OK, ErrorCode(response.error_code).name
    return response.producer_id, response.producer_epoch


def write(
    broker: Broker, transactional_id: str, producer: Producer, topic: str, partition: int = 0
) -> ErrorCode:
    """Add the partition and append a record to it."""
    codes = broker.transactions.add_or_verify_partitions(
        transactional_id,
        *producer,
        [(topic, partition)],
    ).result()
    code = codes[topic, partition]
    if code is OK:
        batch = batch_of(b"x", producer=(*producer, 0), transactional=True)
        broker.replicas.append(topic, partition, batch, verification=NOT_REQUIRED)
    return code


async def end(
    broker: Broker, transactional_id: str, producer: Producer, *, commit: bool = True, version: int = TV2
) -> EndTxnResponse:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commit,
    )
    answer = broker.transactions.end_txn(request, version)
    response = await answer
    assert isinstance(response, EndTxnResponse)
    return response


def commit_offset(broker: Broker, producer: Producer, offset: int) -> None:
    """Commit an offset of topic t1 for the group g in the transaction of t."""
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset
    )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t1", partitions=[partition])],
    )
    response = broker.groups.commit_offsets_in_transaction(request, 5).result()
    assert response.topics[0].partitions[0].error_code == OK


def fetch_offset(broker: Broker, *, require_stable: bool = False) -> tuple[int, ErrorCode]:
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="t1", partition_indexes=[0])]
    request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=topics)
    group = broker.groups.fetch_offsets(request, require_stable=require_stable).result()
    partition = group.topics[0].partitions[0]
    return partition.committed_offset, ErrorCode(partition.error_code)


def state_of(broker: Broker, transactional_id: str) -> str:
    return broker.transactions.describe(transactional_id).transaction_state


async def until_state(broker: Broker, transactional_id: str, state: TransactionState) -> None:
    await until(lambda: state_of(broker, transactional_id) == state.value)


def replica_of(broker: Broker, topic: str, partition: int = 0) -> Replica:
    replica = broker.replicas.get(topic, partition)
    assert replica is not None
    return replica


def state_replica(broker: Broker, transactional_id: str) -> Replica:
    return replica_of(broker, TRANSACTION_STATE_TOPIC, broker.transactions.partition_of(transactional_id))


def bytes_of(replica: Replica) -> bytes:
    chunk = replica.log.read(0, 1 << 20)
    return b"" if chunk is None else bytes(chunk.read())


def markers_in(replica: Replica) -> list[tuple[bool, int, int]]:
    """For each marker: whether it commits, the producer's epoch and the coordinator's."""
    data = bytes_of(replica)
    found = []
    for position, header in iter_headers(data):
        if header.is_control:
            marker = decode_end_txn_marker(next(decode_batch(data, position)))
            found.append((marker.committed, header.producer_epoch, marker.coordinator_epoch))
    return found


def value_versions(replica: Replica) -> set[int]:
    return {
        int.from_bytes(record.value[:2], "big")
        for record in decode_batches(bytes_of(replica))
        if record.value
    }


async def prepare(broker: Broker, *topics: str) -> None:
    await broker.transactions.ensure_topic()
    await broker.groups.ensure_topic()
    await create(broker, *topics)


# -- recovery --------------------------------------------------------------------------------------------


def test_a_decision_survives_the_coordinator(tmp_path: Path) -> None:
    """The node stops between the decision and the last of its markers; the next start writes them."""

    async def first() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1", "t2")
            producer = await init(broker, "t")
            assert [write(broker, "t", producer, topic) for topic in ("t1", "t2")] == [OK, OK]
            commit_offset(broker, producer, 5)
            replica_of(broker, "t1").log.failure = "no space left"
            replica_of(broker, GROUP_METADATA_TOPIC, broker.groups.partition_of("g")).log.failure = "no space"
            response = await end(broker, "t", producer)
            assert response.error_code == OK, "the decision is what counts"
            assert state_of(broker, "t") == "PrepareCommit"
            assert broker.transactions.markers.pending == 1
            assert len(markers_in(replica_of(broker, "t2"))) == 1
            assert write(broker, "t", producer, "t1") is not OK, "the next one has to wait"

    async def second() -> None:
        async with running_node(tmp_path) as broker:
            await until_state(broker, "t", TransactionState.COMPLETE_COMMIT)
            for topic, count in (("t1", 1), ("t2", 2)):
                markers = markers_in(replica_of(broker, topic))
                assert len(markers) == count, "those that have it get it again"
                assert {commit for commit, _, _ in markers} == {True}
                replica = replica_of(broker, topic)
                assert replica.last_stable_offset == replica.log.log_end_offset
            assert fetch_offset(broker, require_stable=True) == (5, OK)

    run_virtually(first())
    run_virtually(second())


def test_pending_offsets_survive(tmp_path: Path) -> None:
    async def first() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producers.append(await init(broker, "t"))
            commit_offset(broker, producers[0], 7)

    async def second() -> None:
        async with running_node(tmp_path) as broker:
            assert fetch_offset(broker) == (-1, OK)
            assert fetch_offset(broker, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            assert state_of(broker, "t") == "Ongoing"
            assert (await end(broker, "t", producers[0])).error_code == OK
            assert fetch_offset(broker, require_stable=True) == (7, OK)

    async def third() -> None:
        async with running_node(tmp_path) as broker:
            assert fetch_offset(broker, require_stable=True) == (7, OK)
            assert state_of(broker, "t") == "CompleteCommit"

    producers: list[Producer] = []
    run_virtually(first())
    run_virtually(second())
    run_virtually(third())


def test_a_transaction_times_out_after_a_restart_too(tmp_path: Path) -> None:
    async def first() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t", timeout_ms=300)
            assert write(broker, "t", producer, "t1") is OK

    async def second() -> None:
        async with running_node(tmp_path) as broker:
            await until_state(broker, "t", TransactionState.COMPLETE_ABORT)
            assert [commit for commit, _, _ in markers_in(replica_of(broker, "t1"))] == [False]

    run_virtually(first())
    run_virtually(second())


def test_requests_wait_while_transactions_are_loaded(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            for index in range(20):
                await init(broker, f"t{index}")
            transactions = broker.transactions
            transactions.close()
            for partition in broker.image.topics.by_name[TRANSACTION_STATE_TOPIC].partitions:
                transactions._follow_leadership(partition)
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert transactions.describe("t7").error_code == loading
            codes = transactions.add_or_verify_partitions("t7", 1, 0, [("t1", 0)], verify_only=True)
            assert codes.result() == {("t1", 0): loading}
            with pytest.raises(KafkaError) as caught:
                await transactions.list(ListTransactionsRequest())
            assert caught.value.code is loading
            await transactions.wait_until_loaded()
            assert state_of(broker, "t7") == "Empty"
            listed = await transactions.list(ListTransactionsRequest())
            assert len(listed.transaction_states) == 20

    run_virtually(story())


def test_others_have_their_turn_while_a_pattern_is_matched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others_had_their_turn = threading.Event()
    monkeypatch.setattr(Pattern, "fullmatch", lambda pattern, text: others_had_their_turn.wait(20))

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker)
            await init(broker, "t")
            asyncio.get_running_loop().call_later(0.01, others_had_their_turn.set)
            request = ListTransactionsRequest(transactional_id_pattern="t")
            listed = await broker.transactions.list(request)
            assert [each.transactional_id for each in listed.transaction_states] == ["t"]

    run(story())


# -- failures --------------------------------------------------------------------------------------------


def test_a_decision_that_cannot_be_written_was_not_made(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            assert write(broker, "t", producer, "t1") is OK
            log = state_replica(broker, "t").log
            log.failure = "no space left"
            with pytest.raises(KafkaError) as caught:
                await end(broker, "t", producer)
            assert caught.value.code is ErrorCode.NOT_COORDINATOR
            assert write(broker, "t", producer, "t2") is ErrorCode.NOT_COORDINATOR
            assert state_of(broker, "t") == "Ongoing"
            assert markers_in(replica_of(broker, "t1")) == []
            log.failure = None
            assert (await end(broker, "t", producer)).error_code == OK
            assert state_of(broker, "t") == "CompleteCommit"

    run_virtually(story())


def test_markers_are_tried_until_they_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "RETRY_S", 0.01)

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            assert write(broker, "t", producer, "t1") is OK
            log = replica_of(broker, "t1").log
            log.failure = "no space left"
            assert (await end(broker, "t", producer, commit=False)).error_code == OK
            await until(lambda: broker.transactions.markers.retries > 1)
            assert state_of(broker, "t") == "PrepareAbort"
            log.failure = None
            await until_state(broker, "t", TransactionState.COMPLETE_ABORT)
            assert len(markers_in(replica_of(broker, "t1"))) == 1
            assert broker.transactions.markers.pending == 0

    run_virtually(story())


def test_a_completion_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    interval = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}

    async def story() -> None:
        async with running_node(tmp_path, **interval) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            assert write(broker, "t", producer, "t1") is OK
            data, state = replica_of(broker, "t1").log, state_replica(broker, "t").log
            data.failure = "no space left"
            assert (await end(broker, "t", producer)).error_code == OK
            data.failure, state.failure = None, "no space left"
            await until(lambda: broker.transactions.markers.pending == 0)
            assert state_of(broker, "t") == "PrepareCommit"
            state.failure = None
            await until_state(broker, "t", TransactionState.COMPLETE_COMMIT)

    run_virtually(story())


def test_too_few_replicas_in_sync_for_a_decision(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            state_replica(broker, "t").isr_size = 0
            assert write(broker, "t", producer, "t1") is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_virtually(story())


def test_a_partition_led_on_in_a_new_epoch_is_taken_over_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            replica = state_replica(broker, "t")
            assert write(broker, "t", producer, "t1") is OK
            replica.leader_epoch += 1
            broker.transactions._follow_leadership(replica.partition)
            await broker.transactions.wait_until_loaded()
            assert (await end(broker, "t", producer)).error_code == OK
            [(_, _, coordinator_epoch)] = markers_in(replica_of(broker, "t1"))
            assert coordinator_epoch == replica.leader_epoch

    run_virtually(story())


# -- power cuts ------------------------------------------------------------------------------------------


def test_nobody_hears_of_a_decision_that_is_not_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_flush = threading.Event(), threading.Event()
    flush = Log.flush

    def flush_when_allowed(log: Log) -> None:
        has_begun.set()
        assert may_flush.wait(60)
        flush(log)

    async def story() -> None:
        async with running_node(tmp_path, **{"penstock.acks.fsync": "true"}) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            adding = broker.transactions.add_partitions("t", *producer, [("t1", 0)], verify_only=False)
            assert not adding.is_done, "no batch before the transaction is known for good"
            assert await adding == {("t1", 0): OK}
            assert write(broker, "t", producer, "t1") is OK
            await broker.group_commit.flush(replica_of(broker, "t1").log)
            monkeypatch.setattr(Log, "flush", flush_when_allowed)
            assert (await end(broker, "t", producer)).error_code == OK
            await until(has_begun.is_set)
            await asyncio.sleep(0.05)
            assert markers_in(replica_of(broker, "t1")) == []
            assert state_of(broker, "t") == "PrepareCommit"
            may_flush.set()
            await until_state(broker, "t", TransactionState.COMPLETE_COMMIT)
            assert len(markers_in(replica_of(broker, "t1"))) == 1

    run(story())  # in real time: its flush blocks a thread


def test_markers_wait_out_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "AFTER_DISK_FAILURE_S", 0.05)
    flush = Log.flush
    failures = iter([StorageFailed("no space left")] * 2)

    def flush_or_fail(log: Log) -> None:
        for failure in failures:
            raise failure
        flush(log)

    async def story() -> None:
        async with running_node(tmp_path, **{"penstock.acks.fsync": "true"}) as broker:
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            assert write(broker, "t", producer, "t1") is OK
            await broker.group_commit.flush(replica_of(broker, "t1").log)
            monkeypatch.setattr(Log, "flush", flush_or_fail)
            assert (await end(broker, "t", producer)).error_code == OK
            await until_state(broker, "t", TransactionState.COMPLETE_COMMIT)
            assert {commit for commit, _, _ in markers_in(replica_of(broker, "t1"))} == {True}

    run_virtually(story())


# -- used-up epochs ----------------------------------------------------------------------------------------


def use_up_epochs(broker: Broker, transactional_id: str, producer: Producer, timeout_ms: int) -> Producer:
    """Set the state as if the producer had used up all its epochs in transactions."""
    owner = broker.transactions._owner(transactional_id)
    worn = TransactionMetadata(
        transactional_id, producer[0], timeout_ms, owner.now_ms(), producer_epoch=LAST_EPOCH
    )
    owner.coordinator.replay(transaction_record(worn, TV2), owner.now_ms())
    return producer[0], LAST_EPOCH


def test_a_producer_whose_epochs_are_used_up_goes_on_with_a_new_id(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producer = use_up_epochs(broker, "t", await init(broker, "t"), 60_000)
            assert write(broker, "t", producer, "t1") is OK
            response = await end(broker, "t", producer)
            assert response.error_code == OK
            assert response.producer_id != producer[0]
            assert response.producer_epoch == 0
            assert [epoch for _, epoch, _ in markers_in(replica_of(broker, "t1"))] == [LAST_EPOCH + 1]
            again = (response.producer_id, response.producer_epoch)
            assert write(broker, "t", again, "t1") is OK
            assert (await end(broker, "t", again)).error_code == OK

    run_virtually(story())


def test_a_used_up_transaction_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            producer = use_up_epochs(broker, "t", await init(broker, "t", 50), 50)
            assert write(broker, "t", producer, "t1") is OK
            await until_state(broker, "t", TransactionState.COMPLETE_ABORT)
            described = broker.transactions.describe("t")
            assert described.producer_id != producer[0]
            assert [commit for commit, _, _ in markers_in(replica_of(broker, "t1"))] == [False]

    run_virtually(story())


# -- a cluster that has not been upgraded ------------------------------------------------------------------


def test_a_cluster_keeps_the_old_format_until_the_feature_is_finalized(tmp_path: Path) -> None:
    records = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    snapshot = encode_snapshot(records, epoch=0, metadata_version=30, last_timestamp_ms=0, now_ms=0)
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"".join(snapshot))

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            assert broker.image.features == {"metadata.version": 30}
            await prepare(broker, "t1")
            producer = await init(broker, "t")
            codes = broker.transactions.add_or_verify_partitions(
                "t", *producer, [("t1", 0)], client_version=TV0
            ).result()
            assert codes == {("t1", 0): OK}
            assert (await end(broker, "t", producer, version=TV0)).error_code == OK
            assert value_versions(state_replica(broker, "t")) == {0}
            update = UpdateFeaturesRequest.FeatureUpdateKey(
                feature="transaction.version", max_version_level=2
            )
            request = UpdateFeaturesRequest(feature_updates=[update])
            await broker.controller.submit(partial(update_features, request=request, api_version=2))
            await init(broker, "t")
            assert value_versions(state_replica(broker, "t")) == {0, 1}

    run_virtually(story())


def test_figures(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await prepare(broker, "t1")
            for transactional_id, commit in (("a", True), ("b", False)):
                producer = await init(broker, transactional_id)
                assert write(broker, transactional_id, producer, "t1") is OK
                await end(broker, transactional_id, producer, commit=commit)
            open_one = await init(broker, "c")
            assert write(broker, "c", open_one, "t1") is OK
            samples = {
                (sample.name, *sample.labels.values()): sample.value
                for metric in transaction_metrics(broker.transactions)
                for sample in metric.samples
            }
            for state in ("CompleteCommit", "CompleteAbort", "Ongoing"):
                assert samples["penstock_transactional_ids", state] == 1
            assert samples["penstock_transactions_committed_total",] == 1
            assert samples["penstock_transactions_aborted_total",] == 1
            assert samples["penstock_transaction_markers_written_total",] == 2
            assert samples["penstock_transactions_pending",] == 0

    run_virtually(story())
