"""The model's client: one request per call, retried as clients retry, with faults injected on request.

The client retries only when the outcome is still open: the coordinator is loading, a transaction is being
completed, or the connection ended. The model judges every other response.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from broker_wire import Wire, fetch_request
from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode

M = TypeVar("M", bound=Message)
Partition = tuple[str, int]

RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,  # what older producers get while the coordinator can't be asked yet
}
PATIENCE_S = 30.0
LATEST, EARLIEST = -1, -2
# The versions of Produce, TxnOffsetCommit and EndTxn that go with each version of transactions.
PRODUCE_VERSION = {1: 11, 2: 12}
TXN_OFFSET_COMMIT_VERSION = {1: 4, 2: 5}
END_TXN_VERSION = {1: 4, 2: 5}


class ProducerIdentity(NamedTuple):
    """The producer id and epoch in a response to InitProducerId or EndTxn (version 5)."""

    error: ErrorCode
    producer_id: int
    epoch: int


class NodeClient:
    """A client that reconnects. `fault` strikes once, between the next request and its response."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.fault: Callable[[], None] | None = None
        self.faults_met = 0
        self._wire: Wire | None = None

    def close(self) -> None:
        if self._wire is not None:
            self._wire.__exit__()
            self._wire = None

    def connect(self) -> Wire:
        """The connection, opened again if there is none."""
        if self._wire is None:
            self._wire = Wire(self.bootstrap_servers)
        return self._wire

    def ask(self, request: Message, kind: type[M], version: int) -> M:
        """Send the request and return the response; resend the request if the connection breaks."""
        return self.ask_all([request], kind, version)[0]

    def ask_all(self, requests: Sequence[Message], kind: type[M], version: int) -> list[M]:
        """Send requests without waiting in between; after a broken connection, all of them again."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                wire = self.connect()
                for request in requests:
                    wire.send(request, version)
                if self.fault is not None:
                    fault, self.fault = self.fault, None
                    self.faults_met += 1
                    fault()
                    self.close()
                    continue
                return [wire.receive(kind) for _ in requests]
            except ConnectionError:
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            except BaseException:
                self.close()  # responses that arrive on this connection from now on are ignored
                raise

    def settled(self, attempt: Callable[[], M], errors: Callable[[M], list[int]]) -> M:
        """Retry until a response is about the request itself, and return that response."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            response = attempt()
            if not RETRIED.intersection(errors(response)):
                return response
            assert time.monotonic() < deadline, f"still {[ErrorCode(e).name for e in errors(response)]}"
            time.sleep(0.002)

    def find_coordinators(self) -> None:
        """Have the internal topics created, and wait until they serve."""
        for key_type in (0, 1):
            request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
            self.settled(
                lambda request=request: self.ask(request, m.FindCoordinatorResponse, 4),
                lambda r: [r.coordinators[0].error_code],
            )

    # -- topics --------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        entry = m.CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                m.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in configs.items()
            ],
        )
        request = m.CreateTopicsRequest(topics=[entry], timeout_ms=10_000)
        (topic,) = self.ask(request, m.CreateTopicsResponse, 7).topics
        assert topic.error_code == ErrorCode.NONE, topic.error_message
        for partition in range(partitions):
            self._await(lambda p=partition: self.offset((name, p), LATEST) == 0)

    def delete_topic(self, name: str) -> None:
        request = m.DeleteTopicsRequest(
            topics=[m.DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=10_000
        )
        (topic,) = self.ask(request, m.DeleteTopicsResponse, 6).responses
        assert topic.error_code == ErrorCode.NONE, topic.error_message
        self._await(lambda: self.offset((name, 0), LATEST) is None)

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come true in time"
            time.sleep(0.002)

    def offset(self, partition: Partition, timestamp: int, *, committed: bool = False) -> int | None:
        """Look up an offset by ListOffsets; return None if there is no such partition."""
        wanted = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=partition[1], timestamp=timestamp)
        topic = m.ListOffsetsRequest.ListOffsetsTopic(name=partition[0], partitions=[wanted])
        request = m.ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=[topic])
        response = self.settled(
            lambda: self.ask(request, m.ListOffsetsResponse, 7),
            lambda r: [r.topics[0].partitions[0].error_code],
        )
        (found,) = response.topics[0].partitions
        if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code).name
        return found.offset

    def delete_records(self, partition: Partition, offset: int) -> tuple[ErrorCode, int]:
        """Delete records before the offset; return the error and the low watermark."""
        wanted = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition[1], offset=offset)
        topic = m.DeleteRecordsRequest.DeleteRecordsTopic(name=partition[0], partitions=[wanted])
        request = m.DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
        (done,) = self.ask(request, m.DeleteRecordsResponse, 2).topics[0].partitions
        return ErrorCode(done.error_code), done.low_watermark

    # -- records -------------------------------------------------------------------------------------

    def produce(
        self, batches: dict[Partition, bytes], transactional_id: str | None, version: int
    ) -> dict[Partition, tuple[ErrorCode, int]]:
        """Produce; return each partition's error and base offset. Resend only what could not be tried yet."""
        answers: dict[Partition, tuple[ErrorCode, int]] = {}
        deadline = time.monotonic() + PATIENCE_S
        while left := {p: batch for p, batch in batches.items() if p not in answers}:
            assert time.monotonic() < deadline, "the node never took the batches"
            request = produce_request(left, transactional_id)
            for topic in self.ask(request, m.ProduceResponse, version).responses:
                for answer in topic.partition_responses:
                    error = ErrorCode(answer.error_code)
                    if error not in RETRIED:
                        answers[topic.name, answer.index] = (error, answer.base_offset)
        return answers

    def produce_in_flight(
        self, partition: Partition, batches: list[bytes], transactional_id: str | None, version: int
    ) -> list[tuple[ErrorCode, int]]:
        """Produce batches of one partition, all sent before the first response; return errors and offsets."""
        requests = [produce_request({partition: batch}, transactional_id) for batch in batches]
        responses = self.ask_all(requests, m.ProduceResponse, version)
        answers = [response.responses[0].partition_responses[0] for response in responses]
        return [(ErrorCode(answer.error_code), answer.base_offset) for answer in answers]

    def fetch(
        self, partition: Partition, offset: int, *, committed: bool, max_bytes: int = 1 << 20
    ) -> m.FetchResponse.PartitionData:
        request = fetch_request(
            partition[0],
            {partition[1]: offset},
            partition_max_bytes=max_bytes,
            isolation_level=int(committed),
        )
        response = self.settled(
            lambda: self.ask(request, m.FetchResponse, 12),
            lambda r: [r.responses[0].partitions[0].error_code],
        )
        return response.responses[0].partitions[0]

    # -- transactions --------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str | None, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 600_000
    ) -> ProducerIdentity:
        request = m.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        response = self.settled(
            lambda: self.ask(request, m.InitProducerIdResponse, 4), lambda r: [r.error_code]
        )
        return ProducerIdentity(ErrorCode(response.error_code), response.producer_id, response.producer_epoch)

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: list[Partition]
    ) -> dict[Partition, ErrorCode]:
        topics = [
            m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
                name=name, partitions=[index for topic, index in partitions if topic == name]
            )
            for name in dict.fromkeys(topic for topic, _ in partitions)
        ]
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        response = self.settled(
            lambda: self.ask(request, m.AddPartitionsToTxnResponse, 3),
            lambda r: [
                p.partition_error_code
                for t in r.results_by_topic_v3_and_below
                for p in t.results_by_partition
            ],
        )
        return {
            (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }

    def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> ErrorCode:
        request = m.AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=group,
        )
        response = self.settled(
            lambda: self.ask(request, m.AddOffsetsToTxnResponse, 3), lambda r: [r.error_code]
        )
        return ErrorCode(response.error_code)

    def end_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, version: int
    ) -> ProducerIdentity:
        request = m.EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
        )
        response = self.settled(
            lambda: self.ask(request, m.EndTxnResponse, version), lambda r: [r.error_code]
        )
        return ProducerIdentity(ErrorCode(response.error_code), response.producer_id, response.producer_epoch)

    def transaction_state(self, transactional_id: str) -> m.DescribeTransactionsResponse.TransactionState:
        request = m.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        response = self.settled(
            lambda: self.ask(request, m.DescribeTransactionsResponse, 0),
            lambda r: [r.transaction_states[0].error_code],
        )
        return response.transaction_states[0]

    def await_completion(self, transactional_id: str) -> None:
        """Wait until the markers of the transaction that was ended are in the logs."""
        self._await(lambda: "Prepare" not in self.transaction_state(transactional_id).transaction_state)

    def await_abort(self, transactional_id: str) -> None:
        """Wait until the coordinator has aborted the transaction after its timeout."""
        self._await(lambda: self.transaction_state(transactional_id).transaction_state == "CompleteAbort")

    # -- offsets of groups ---------------------------------------------------------------------------

    def join_group(self, group: str, member_id: str) -> tuple[str, int]:
        """Join as the only member, or join again, and sync; return member id and generation."""
        while True:
            request = m.JoinGroupRequest(
                group_id=group,
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name="any", metadata=b"")],
            )
            joined = self.settled(
                lambda request=request: self.ask(request, m.JoinGroupResponse, 9), lambda r: [r.error_code]
            )
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
            member_id = joined.member_id
        assert joined.error_code == ErrorCode.NONE, ErrorCode(joined.error_code).name
        synced = self.ask(
            m.SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="any",
                assignments=[
                    m.SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
                ],
            ),
            m.SyncGroupResponse,
            5,
        )
        assert synced.error_code == ErrorCode.NONE, ErrorCode(synced.error_code).name
        return joined.member_id, joined.generation_id

    def leave_group(self, group: str, member_id: str) -> ErrorCode:
        request = m.LeaveGroupRequest(
            group_id=group, members=[m.LeaveGroupRequest.MemberIdentity(member_id=member_id)]
        )
        response = self.settled(lambda: self.ask(request, m.LeaveGroupResponse, 5), lambda r: [r.error_code])
        return ErrorCode(response.members[0].error_code)

    def commit_offset(
        self, group: str, partition: Partition, offset: int, member: tuple[str, int] = ("", -1)
    ) -> ErrorCode:
        wanted = m.OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition[1], committed_offset=offset
        )
        topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=partition[0], partitions=[wanted])
        request = m.OffsetCommitRequest(
            group_id=group, member_id=member[0], generation_id_or_member_epoch=member[1], topics=[topic]
        )
        response = self.settled(
            lambda: self.ask(request, m.OffsetCommitResponse, 8),
            lambda r: [r.topics[0].partitions[0].error_code],
        )
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def commit_offset_in_transaction(
        self,
        group: str,
        partition: Partition,
        offset: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        version: int,
        member: tuple[str, int] = ("", -1),
    ) -> ErrorCode:
        wanted = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=partition[1], committed_offset=offset
        )
        topic = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=partition[0], partitions=[wanted])
        request = m.TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            member_id=member[0],
            generation_id=member[1],
            topics=[topic],
        )
        response = self.settled(
            lambda: self.ask(request, m.TxnOffsetCommitResponse, version),
            lambda r: [r.topics[0].partitions[0].error_code],
        )
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def committed_offset(
        self, group: str, partition: Partition, *, require_stable: bool
    ) -> tuple[ErrorCode, int]:
        topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(
            name=partition[0], partition_indexes=[partition[1]]
        )
        request = m.OffsetFetchRequest(
            groups=[m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topic])],
            require_stable=require_stable,
        )
        response = self.settled(
            lambda: self.ask(request, m.OffsetFetchResponse, 8), lambda r: [r.groups[0].error_code]
        )
        found = response.groups[0].topics[0].partitions[0]
        return ErrorCode(found.error_code), found.committed_offset


def produce_request(batches: dict[Partition, bytes], transactional_id: str | None) -> m.ProduceRequest:
    return m.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            m.ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[m.ProduceRequest.PartitionProduceData(index=index, records=batch)],
            )
            for (topic, index), batch in batches.items()
        ],
    )
