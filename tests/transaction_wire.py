"""A transactional producer that sends each step as a separate request, in either version of the protocol."""

from broker_wire import Wire, batch_of, fetch_request, produce_request
from penstock.protocol.batch import iter_headers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from penstock.protocol.records import decode_batch
from waiting import wait_until

NO_PRODUCER_ID = -1
TWO_PHASE_COMMIT = {
    "unstable.api.versions.enable": "true",
    "transaction.two.phase.commit.enable": "true",
}
"""Settings of a node that serves InitProducerId in version 6 (KIP-939)."""

GROUP, TRANSACTION = 0, 1
READ_COMMITTED = 1

V1 = {"produce": 11, "end": 4, "commit_offsets": 4}
"""The newest version of each API that a client of the first protocol speaks, and of version 2 (KIP-890)."""

V2 = {"produce": 12, "end": 5, "commit_offsets": 5}


class Transactor:
    """A producer that uses the newest producer id and epoch it received; a copy of it is a zombie."""

    def __init__(
        self, wire: Wire, transactional_id: str, *, version_2: bool = True, timeout_ms: int = 60_000
    ) -> None:
        self.wire = wire
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.versions = V2 if version_2 else V1
        self.is_version_2 = version_2
        self.producer_id = NO_PRODUCER_ID
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def copy(self) -> "Transactor":
        twin = Transactor(self.wire, self.transactional_id, version_2=self.is_version_2)
        twin._become(self.producer_id, self.epoch)
        twin.sequences = dict(self.sequences)
        return twin

    def begin(self) -> "Transactor":
        """Take over the transactional id; wait for the open transaction of an earlier producer to end."""
        find_coordinator(self.wire, self.transactional_id, TRANSACTION)
        wait_until(lambda: self.init() is ErrorCode.NONE)
        return self

    def init(self, *, known: bool = False, version: int | None = None) -> ErrorCode:
        """Send InitProducerId; with `known`, as a producer that continues after an error (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        if known:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        response = self.wire.ask(request, InitProducerIdResponse, version)
        if response.error_code == ErrorCode.NONE:
            self._become(response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def add_partitions(self, topic: str, *partitions: int, version: int = 3) -> list[ErrorCode]:
        """Add the partition to the transaction, as clients of the first protocol do."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
            ],
        )
        response = self.wire.ask(request, AddPartitionsToTxnResponse, version)
        return [
            ErrorCode(partition.partition_error_code)
            for topic_result in response.results_by_topic_v3_and_below
            for partition in topic_result.results_by_partition
        ]

    def write(self, topic: str, *values: bytes, partition: int = 0) -> ErrorCode:
        """Produce; add the partition first where the protocol requires it."""
        if not self.is_version_2:
            [error] = self.add_partitions(topic, partition)
            if error is not ErrorCode.NONE:
                return error
        return self.produce(topic, *values, partition=partition)

    def produce(self, topic: str, *values: bytes, partition: int = 0) -> ErrorCode:
        sequence = self.sequences.get((topic, partition), 0)
        producer = (self.producer_id, self.epoch, sequence)
        request = produce_request(topic, batch_of(*values, producer=producer, transactional=True), partition)
        request.transactional_id = self.transactional_id
        response = self.wire.ask(request, ProduceResponse, self.versions["produce"])
        error = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if error is ErrorCode.NONE:
            self.sequences[topic, partition] = sequence + len(values)
        return error

    def add_offsets(self, group_id: str, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        return ErrorCode(self.wire.ask(request, AddOffsetsToTxnResponse, version).error_code)

    def commit_offset(
        self,
        group_id: str,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        member: tuple[str, int] = ("", -1),
        version: int | None = None,
    ) -> ErrorCode:
        """Send TxnOffsetCommit; `member` is its id and generation."""
        commit = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            member_id=member[0],
            generation_id=member[1],
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[commit])],
        )
        used = self.versions["commit_offsets"] if version is None else version
        response = self.wire.ask(request, TxnOffsetCommitResponse, used)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool = True, version: int | None = None) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = self.wire.ask(
            request, EndTxnResponse, self.versions["end"] if version is None else version
        )
        if response.error_code == ErrorCode.NONE and response.producer_id != NO_PRODUCER_ID:
            self._become(response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)


def find_coordinator(wire: Wire, key: str, key_type: int) -> None:
    """Retry until there is a coordinator: the first request creates the topic."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    wait_until(lambda: wire.ask(request, FindCoordinatorResponse).coordinators[0].error_code == 0)


def committed_values(wire: Wire, topic: str, partition: int = 0) -> list[bytes | None]:
    """Read a partition as a `read_committed` client: leave out the aborted transactions of the response."""
    found: list[bytes | None] = []
    aborted_now: set[int] = set()
    offset = 0
    while True:
        request = fetch_request(topic, {partition: offset}, isolation_level=READ_COMMITTED)
        data = wire.ask(request, FetchResponse, 12).responses[0].partitions[0]
        assert data.error_code == 0, ErrorCode(data.error_code).name
        aborted = sorted((entry.first_offset, entry.producer_id) for entry in data.aborted_transactions or ())
        batches = bytes(data.records or b"")
        values, next_offset = _visible(batches, offset, aborted, aborted_now)
        if next_offset == offset:
            return found
        found += values
        offset = next_offset


def _visible(
    batches: bytes, offset: int, aborted: list[tuple[int, int]], aborted_now: set[int]
) -> tuple[list[bytes | None], int]:
    values: list[bytes | None] = []
    for position, header in iter_headers(batches):
        while aborted and aborted[0][0] <= header.last_offset:
            aborted_now.add(aborted.pop(0)[1])
        if header.is_control:
            aborted_now.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted_now):
            values += [r.value for r in decode_batch(batches, position) if r.offset >= offset]
        offset = max(offset, header.next_offset)
    return values, offset


def committed_offset(
    wire: Wire, group_id: str, topic: str, *, require_stable: bool = False
) -> tuple[int, ErrorCode]:
    """The group's offset in partition 0, and its error code."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
            )
        ],
        require_stable=require_stable,
    )
    group = wire.ask(request, OffsetFetchResponse, 8).groups[0]
    assert group.error_code == 0, ErrorCode(group.error_code).name
    partition = group.topics[0].partitions[0]
    return partition.committed_offset, ErrorCode(partition.error_code)
