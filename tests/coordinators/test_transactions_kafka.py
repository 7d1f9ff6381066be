"""Random requests to the coordinator and to Apache Kafka's, compared by answers, states and records.

Producers send their current, former and invalid ids and epochs; some are about to use up their epochs. The
test waits for Kafka's markers, so that both coordinators are idle before the next request.
"""

import os
import random
import time
from pathlib import Path

import pytest

from kafka_node import KafkaNode
from long_run import repetitions
from penstock.client.config import ClientConfig, parse_servers
from penstock.client.connections.connection import Connection
from penstock.coordinators.records import Records
from penstock.coordinators.transaction.config import TransactionCoordinatorConfig
from penstock.coordinators.transaction.coordinator import TransactionCoordinator
from penstock.coordinators.transaction.metadata import TransactionMetadata, is_epoch_exhausted
from penstock.coordinators.transaction.records import transaction_record
from penstock.coordinators.transaction.results import NeedsProducerId
from penstock.coordinators.transaction.states import TransactionState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TransactionLogKey,
    TransactionLogValue,
)
from penstock.protocol.record_serde import (
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_versioned,
)
from penstock.protocol.records import Record, decode_batches, encode_batch

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

STEPS = repetitions("PENSTOCK_TRANSACTION_STEPS", gate=600, long=5_000)
NOW_MS = 1_700_000_000_000
IDS = ["fresh", "worn-1", "worn-2", "worn-3"]
LAST_EPOCHS = 32_761
INTERNAL_CLIENT_ID = "__admin_client"  # may write to internal topics

Identity = tuple[int, int]
Seen = tuple[str, int, int, int, list[tuple[str, list[int]]]]


class Ours:
    """Our coordinator, with markers that are written at once."""

    def __init__(self, left: Records) -> None:
        self.coordinator = TransactionCoordinator(
            TransactionCoordinatorConfig(), coordinator_epoch=0, transaction_version=2
        )
        self.log: Records = []
        for record in left:
            self.coordinator.replay(record, NOW_MS)
        self.coordinator.on_loaded(NOW_MS)

    def settle(self, records: Records) -> None:
        for record in records:
            self.log.append(record)
            self.coordinator.replay(record, NOW_MS)
        for markers in self.coordinator.take_markers():
            self.settle(
                self.coordinator.on_markers_written(
                    markers.transactional_id, markers.producer_id, markers.producer_epoch, NOW_MS
                )
            )

    def init(self, request: InitProducerIdRequest, new_producer_id: int) -> tuple[ErrorCode, int, int]:
        records, response = self.coordinator.handle_init_producer_id(request, NOW_MS)
        if isinstance(response, NeedsProducerId):
            records, response = self.coordinator.handle_init_producer_id(request, NOW_MS, new_producer_id)
        assert not isinstance(response, NeedsProducerId)
        self.settle(records)
        return ErrorCode(response.error_code), response.producer_id, response.producer_epoch

    def end(self, request: EndTxnRequest, version: int, new_producer_id: int) -> tuple[ErrorCode, int, int]:
        records, response = self.coordinator.handle_end_txn(request, version, NOW_MS)
        if isinstance(response, NeedsProducerId):
            records, response = self.coordinator.handle_end_txn(request, version, NOW_MS, new_producer_id)
        assert not isinstance(response, NeedsProducerId)
        self.settle(records)
        return ErrorCode(response.error_code), response.producer_id, response.producer_epoch

    def add(self, who: tuple[str, int, int], partitions: list[int], version: int) -> ErrorCode:
        where = [("a", partition) for partition in partitions]
        records, error = self.coordinator.handle_add_partitions(*who, where, version, NOW_MS)
        self.settle(records)
        return error

    def verify(self, who: tuple[str, int, int], partitions: list[int]) -> list[ErrorCode]:
        errors = self.coordinator.handle_verify_partitions(*who, [("a", number) for number in partitions])
        return list(errors.values())

    def last_value(self, transactional_id: str) -> TransactionLogValue | None:
        for record in reversed(self.log):
            assert isinstance(record.key, TransactionLogKey)
            if record.key.transactional_id == transactional_id:
                assert isinstance(record.value, TransactionLogValue)
                return record.value
        return None

    def seen(self, transactional_id: str) -> Seen | None:
        return seen(self.coordinator.handle_describe_transaction(transactional_id))


def seen(state: DescribeTransactionsResponse.TransactionState) -> Seen | None:
    """The state of a transactional id in a comparable form; None if it is unknown."""
    if state.error_code:
        assert state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return None
    return (
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        sorted((topic.topic, sorted(topic.partitions)) for topic in state.topics),
    )


class Theirs:
    """A real node's coordinator."""

    def __init__(self, node: KafkaNode, client_id: str = "test") -> None:
        [address] = parse_servers(node.bootstrap_servers)
        self.connection = Connection.connect(address, ClientConfig(servers=(address,), client_id=client_id))

    def await_coordinator(self) -> None:
        """Wait until every id can be described, once the topic exists and is loaded."""
        deadline = time.monotonic() + 60
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=IDS)
        while time.monotonic() < deadline:
            found = self.connection.call(request, FindCoordinatorResponse)
            if not any(coordinator.error_code for coordinator in found.coordinators):
                break
            time.sleep(0.1)
        while time.monotonic() < deadline:
            states = self.describe(IDS)
            if {s.error_code for s in states} <= {ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}:
                return
            time.sleep(0.1)
        raise AssertionError("no coordinator")

    def await_producer_ids(self) -> None:
        """Wait until the node has producer ids: without one it would not change a fenced transaction."""
        deadline = time.monotonic() + 60
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while self.init(request)[0] is not ErrorCode.NONE:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def describe(self, ids: list[str]) -> list[DescribeTransactionsResponse.TransactionState]:
        request = DescribeTransactionsRequest(transactional_ids=ids)
        return self.connection.call(request, DescribeTransactionsResponse).transaction_states

    def at_rest(self, transactional_id: str) -> Seen | None:
        """The state of a transactional id once no markers are pending."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = seen(self.describe([transactional_id])[0])
            if found is None or not found[0].startswith("Prepare"):
                return found
            time.sleep(0.001)
        raise AssertionError(f"{transactional_id} does not come to rest")

    def create_topic(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic(name="a", num_partitions=3, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
        assert self.connection.call(request, CreateTopicsResponse).topics[0].error_code == ErrorCode.NONE

    def leave(self, records: Records) -> None:
        """Write to the coordinator's log without its knowledge."""
        batch = encode_batch(
            [
                Record(0, NOW_MS, encode_coordinator_key(r.key), encode_versioned(r.value, r.value_version))
                for r in records
                if r.value is not None
            ]
        )
        partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
        topic = ProduceRequest.TopicProduceData(name="__transaction_state", partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[topic])
        self.connection.send(request, version=12)
        answer = self.connection.receive(ProduceResponse).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE

    def add(
        self, who: tuple[str, int, int], partitions: list[int], version: int, *, verify: bool = False
    ) -> list[ErrorCode]:
        transactional_id, producer_id, producer_epoch = who
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="a", partitions=partitions)]
        if version == 0:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=producer_epoch,
                v3_and_below_topics=topics,
            )
        else:
            request = AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                        transactional_id=transactional_id,
                        producer_id=producer_id,
                        producer_epoch=producer_epoch,
                        verify_only=verify,
                        topics=topics,
                    )
                ]
            )
        self.connection.send(request, version=3 if version == 0 else 5)
        response = self.connection.receive(AddPartitionsToTxnResponse)
        results = (
            response.results_by_topic_v3_and_below
            if version == 0
            else response.results_by_transaction[0].topic_results
        )
        by_partition = {p.partition_index: p.partition_error_code for p in results[0].results_by_partition}
        return [ErrorCode(by_partition[partition]) for partition in partitions]

    def end(self, request: EndTxnRequest, version: int) -> tuple[ErrorCode, int, int]:
        self.connection.send(request, version=4 if version == 0 else 5)
        response = self.connection.receive(EndTxnResponse)
        return ErrorCode(response.error_code), response.producer_id, response.producer_epoch

    def init(self, request: InitProducerIdRequest) -> tuple[ErrorCode, int, int]:
        response = self.connection.call(request, InitProducerIdResponse)
        return ErrorCode(response.error_code), response.producer_id, response.producer_epoch


def left_behind() -> Records:
    """The transactional ids whose producers are near their last epoch."""
    return [
        transaction_record(
            TransactionMetadata(
                transactional_id,
                producer_id=1_000_000 + number,
                timeout_ms=60_000,
                last_update_timestamp_ms=NOW_MS,
                producer_epoch=LAST_EPOCHS + number,
            ),
            transaction_version=2,
        )
        for number, transactional_id in enumerate(IDS[1:])
    ]


def trips_a_guard(state: Seen | None, expected: Identity) -> bool:
    """Whether Apache Kafka would answer UNKNOWN_SERVER_ERROR where ours treats a request as retry or fenced.

    It rejects the bump of a used-up epoch before it compares the epoch that the producer expects.
    """
    if state is None or expected == (-1, -1):
        return False
    epoch = state[2]
    return is_epoch_exhausted(epoch) and expected[1] != epoch


def would_share_an_epoch(last: TransactionLogValue | None, request: EndTxnRequest, version: int) -> bool:
    """Whether Apache Kafka takes a replaced producer for its successor, a client of the first protocol."""
    return (
        version == 2
        and last is not None
        and last.client_transaction_version < 2
        and TransactionState.of_status(last.transaction_status).has_no_transaction
        and (request.producer_id, request.producer_epoch + 1) == (last.producer_id, last.producer_epoch)
    )


def one_step(chance: random.Random, ours: Ours, theirs: Theirs, known: dict[str, list[Identity]]) -> str:
    """Send a random request to both and return its description."""
    transactional_id = chance.choice(IDS)
    producer_id, epoch = chance.choice([*known[transactional_id][-1:] * 4, *known[transactional_id][-4:]])
    epoch += chance.choice([0] * 12 + [-1, 1])
    who = (transactional_id, producer_id, max(epoch, 0))
    partitions = sorted(chance.sample(range(3), chance.randint(1, 2)))
    version = chance.choice([0, 2, 2, 2])
    kind = chance.choice(["init", "add", "add", "add", "end", "end", "end", "verify"])
    if kind == "verify":
        assert theirs.add(who, partitions, 2, verify=True) == ours.verify(who, partitions)
    elif kind == "add":
        [error] = set(theirs.add(who, partitions, version))
        assert error == ours.add(who, partitions, version)
    elif kind == "end":
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=who[1],
            producer_epoch=who[2],
            committed=chance.random() < 0.5,
        )
        if would_share_an_epoch(ours.last_value(transactional_id), request, version):
            return f"left out: {request}"
        answer = theirs.end(request, version)
        if version == 0:
            answer = (answer[0], -1, -1)  # not in the response
        assert answer == ours.end(request, version, answer[1])
        kind = f"{kind} commit={request.committed}"
    else:
        expected = who[1:] if chance.random() < 0.6 else (-1, -1)
        if trips_a_guard(ours.seen(transactional_id), expected):
            return f"left out: init {expected}"
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = theirs.init(request)
        found = theirs.at_rest(transactional_id)
        assert answer == ours.init(request, answer[1] if found is None else found[1])
        kind = f"{kind} {expected}"
    state = theirs.at_rest(transactional_id)
    assert state == ours.seen(transactional_id)
    if state is not None and (identity := (state[1], state[2])) not in known[transactional_id]:
        known[transactional_id].append(identity)
    return f"{kind} {who} {partitions} v{version}: {state}"


def essence(transactional_id: str, value: TransactionLogValue, version: int) -> object:
    """A record without its times."""
    return (
        transactional_id,
        version,
        value.producer_id,
        value.previous_producer_id,
        value.next_producer_id,
        value.producer_epoch,
        value.transaction_status,
        value.transaction_timeout_ms,
        None
        if value.transaction_partitions is None
        else sorted((p.topic, sorted(p.partition_ids)) for p in value.transaction_partitions),
        value.transaction_start_timestamp_ms >= 0,
        value.client_transaction_version,
    )


def written_by_kafka(data_dir: Path) -> list[object]:
    found = []
    for segment in sorted((data_dir / "__transaction_state-0").glob("*.log")):
        for record in decode_batches(segment.read_bytes()):
            assert record.key is not None
            assert record.value is not None
            key = decode_coordinator_key(Coordinator.TRANSACTION, record.key)
            value, version = decode_coordinator_value(key, record.value)
            assert isinstance(key, TransactionLogKey)
            assert isinstance(value, TransactionLogValue)
            found.append(essence(key.transactional_id, value, version))
    return found


def test_both_say_write_and_know_the_same(kafka_libs: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", str(random.randrange(2**32))))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    left = left_behind()
    ours = Ours(left)
    config = {"transaction.state.log.num.partitions": "1"}
    with KafkaNode(kafka_libs, tmp_path, config=config) as node:
        theirs = Theirs(node, INTERNAL_CLIENT_ID)
        theirs.create_topic()
        theirs.await_coordinator()
        theirs.leave(left)
        node.stop()
        node.start()
        theirs = Theirs(node)
        theirs.await_coordinator()
        theirs.await_producer_ids()
        known: dict[str, list[Identity]] = {
            name: [(found[1], found[2])] if (found := theirs.at_rest(name)) else [(5, 5)] for name in IDS
        }
        assert {name: theirs.at_rest(name) for name in IDS} == {name: ours.seen(name) for name in IDS}
        for number in range(STEPS):
            print(number, one_step(chance, ours, theirs, known))
    records = []
    for record in [*left, *ours.log]:
        assert isinstance(record.key, TransactionLogKey)
        assert isinstance(record.value, TransactionLogValue)
        records.append(essence(record.key.transactional_id, record.value, record.value_version))
    assert written_by_kafka(node.data_dir) == records
