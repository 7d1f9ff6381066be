"""Produce (0): append record batches to partitions that this node leads.

Versions 3 to 13; 0 to 2 are advertised and refused, since librdkafka stops compressing without them
(KAFKA-18659). Needs WRITE on the topic, and WRITE on the transactional id for transactional records.
Differences from Kafka:
- a transactional batch in a request without a transactional id is refused alone, not with all others;
- a batch that cannot be decompressed is refused with INVALID_RECORD, not UNKNOWN_SERVER_ERROR, and gaps
  between the offsets of records are refused in uncompressed batches, too (see `produce_checks`);
- an invalid header is refused where Kafka accepts it or fails internally (see `batch.validate`), and null
  records, which Kafka never answers, are refused;
- a refusal has its reason in `error_message`, which Kafka fills for few errors, but rarely has the log start
  offset;
- a partition that a request names twice is appended to twice (Kafka keeps the last);
- while acks=all waits for replicas, a connection's next requests proceed; responses keep their order.

Versions:
- 3: record batches of format 2 and `transactional_id` (KIP-98)
- 4: the error KAFKA_STORAGE_ERROR (KIP-112)
- 5: `log_start_offset` (KAFKA-5793)
- 6: a throttled client pauses by itself (KIP-219)
- 7: batches compressed with zstd (KIP-110)
- 8: `record_errors` and `error_message` (KIP-467)
- 9: flexible encoding (KIP-482)
- 10: `current_leader` and `node_endpoints` of new leaders (KIP-951)
- 11: the error TRANSACTION_ABORTABLE (KIP-890)
- 12: the broker adds partitions to the transaction, without AddPartitionsToTxn (KIP-890)
- 13: topic ids replace names (KIP-516)
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.coordination.verification import (
    ClientSupport,
    TransactionalProducer,
    Verified,
    VerifyingHost,
    verify,
)
from penstock.broker.network.answers import Answer, CloseConnection
from penstock.broker.network.turns import Steps, in_turns
from penstock.broker.partitions import produce_conversion
from penstock.broker.partitions.delayed_produce import DelayedAppend, DelayedProduce, Uncommitted, fill_in
from penstock.broker.partitions.leader_hints import LeaderHints
from penstock.broker.partitions.produce_conversion import RecordsRefused
from penstock.metadata.controller.topic_names import INTERNAL_TOPICS
from penstock.protocol import batch
from penstock.protocol.batch import CorruptBatch, InvalidBatch, MalformedRecords
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import ProduceRequest, ProduceResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.group_commit import GroupCommit
    from penstock.broker.partitions.purgatory import Purgatory
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.broker.partitions.schema_validation import SchemaIds
    from penstock.broker.setup.host import RunInWorker
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.batch import BatchHeader
    from penstock.security.permissions import Permissions
    from penstock.storage.partition.log import AppendInfo

ZSTD_SINCE_VERSION = 7
TOPIC_IDS_SINCE_VERSION = 13
LOG_START_OFFSET_SINCE_VERSION = 5
LEADER_HINTS_SINCE_VERSION = 10
ABORTABLE_ERROR_SINCE_VERSION = 11
ADDS_PARTITIONS_SINCE_VERSION = 12
CLIENT_OF_ADMINS = "__admin_client"
ALL = -1
"""acks: all in-sync replicas must have the records."""

BYTES_PER_STEP = 128 * 1024
"""Check after this many bytes whether to yield to other tasks."""
BYTES_AS_A_PARTITION = 8 * 1024
"""The fixed cost of a batch, expressed in bytes: a small batch takes as long as this many bytes."""

Produced = ProduceResponse | bytes | None
"""The response, its encoded body, or None if the producer wants none (acks=0)."""
NO_ANSWER: Answer[Produced] = Answer.of(None)

PartitionResponse = ProduceResponse.PartitionProduceResponse
TopicResponse = ProduceResponse.TopicProduceResponse

_offsets = struct.Struct(">qqq").pack

Refusal = (KafkaError, InvalidBatch, CorruptBatch, MalformedRecords)


class Parts(VerifyingHost, Protocol):
    """The parts of the node that this API uses."""

    group_commit: GroupCommit
    image: MetadataImage
    purgatory: Purgatory
    replicas: ReplicaManager
    schemas: SchemaIds

    @property
    def decode_in_worker(self) -> RunInWorker: ...


def handle(parts: Parts, request: ProduceRequest, context: RequestContext) -> Answer[Produced]:
    if not context.permissions.is_unrestricted:
        refused = _take_unauthorized(parts, request, context)
        if refused:
            return _produce(parts, request, context).then(
                lambda response: _with_refused(parts, response, refused, request.acks, context)
            )
    return _produce(parts, request, context)


def _take_unauthorized(parts: Parts, request: ProduceRequest, context: RequestContext) -> list[TopicResponse]:
    """Take the topics that the client may not write to out of the request, and return their refusals.

    They are all topics if the client may not use the transactional id. Unknown topic ids are left in.
    """
    permitted: list[ProduceRequest.TopicProduceData] = []
    if not _may_use_transactional_id(request, context.permissions):
        error = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        refused = request.topic_data
    else:
        error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        refused = []
        named = [(_name_of(parts, topic, context), topic) for topic in request.topic_data]
        names = (name for name, topic in named for _ in topic.partition_data if name is not None)
        writable = context.permissions.allowed(Operation.WRITE, ResourceType.TOPIC, names)
        for name, topic in named:
            (permitted if name is None or name in writable else refused).append(topic)
    request.topic_data = permitted
    return [_refused_topic(topic, error) for topic in refused if topic.partition_data]


def _may_use_transactional_id(request: ProduceRequest, permissions: Permissions) -> bool:
    """Whether the client may write transactional batches, if the request has any.

    Without a transactional id these are refused one by one at the append.
    """
    transactional_id = request.transactional_id
    if transactional_id is None or not _has_transactional_batch(request):
        return True
    return permissions.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _has_transactional_batch(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            try:
                if batch.parse_header(wanted.records or b"").is_transactional:
                    return True
            except CorruptBatch:
                continue
    return False


def _name_of(parts: Parts, topic: ProduceRequest.TopicProduceData, context: RequestContext) -> str | None:
    if context.api_version < TOPIC_IDS_SINCE_VERSION:
        return topic.name
    image = parts.image.topics.by_id.get(topic.topic_id)
    return None if image is None else image.name


def _refused_topic(topic: ProduceRequest.TopicProduceData, error: KafkaError) -> TopicResponse:
    partitions = [PartitionResponse(index=wanted.index, base_offset=-1) for wanted in topic.partition_data]
    for answer in partitions:
        _refuse(answer, error)
    return TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)


def _with_refused(
    parts: Parts, response: Produced, refused: list[TopicResponse], acks: int, context: RequestContext
) -> Produced:
    """Add the refusals to the response for the other topics; with acks=0 they close the connection."""
    refusals = _with_errors(parts, ProduceResponse(responses=refused), acks, context)
    if isinstance(response, bytes):
        response, _ = ProduceResponse.decode(context.api_version, response)
    if response is not None and refusals is not None:
        response.responses += refusals.responses
    return response


def _produce(parts: Parts, request: ProduceRequest, context: RequestContext) -> Answer[Produced]:
    """Append all batches of the request."""
    acks = request.acks
    by_id = context.api_version >= TOPIC_IDS_SINCE_VERSION
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        answered = _append_single(parts, request, by_id, context)
        if answered is not None:
            return answered if acks else NO_ANSWER
    if request.transactional_id is None:
        return _append_in_turns(parts, request, context, Verified())
    return _verify(parts, request, request.transactional_id, context).and_then(
        lambda verified: _append_in_turns(parts, request, context, verified)
    )


def _verify(
    parts: Parts, request: ProduceRequest, transactional_id: str, context: RequestContext
) -> Answer[Verified]:
    """Ask the coordinator about partitions in which the transaction begins with this request."""
    batches = _transactional_batches(parts, request, context)
    producers = {(header.producer_id, header.producer_epoch) for header in batches.values()}
    if len(producers) > 1:
        verified = Verified()
        for replica in batches:
            error = KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "Transactional records contained more than one producer ID",
            )
            verified.refuse(replica, error)
        return Answer.of(verified)
    version = context.api_version
    for producer_id, epoch in producers:
        support = (
            ClientSupport.ADD_PARTITION
            if version >= ADDS_PARTITIONS_SINCE_VERSION
            else ClientSupport.ABORTABLE_ERROR
            if version >= ABORTABLE_ERROR_SINCE_VERSION
            else ClientSupport.OLDEST_ERRORS
        )
        producer = TransactionalProducer(transactional_id, producer_id, epoch, support)
        return verify(parts, producer, {replica: h.base_sequence for replica, h in batches.items()})
    return Answer.of(Verified())


def _transactional_batches(
    parts: Parts, request: ProduceRequest, context: RequestContext
) -> dict[Replica, BatchHeader]:
    """Return the transactional batches' headers, unvalidated; invalid ones are refused at the append."""
    found: dict[Replica, BatchHeader] = {}
    for topic in request.topic_data:
        name = topic.topic_id if context.api_version >= TOPIC_IDS_SINCE_VERSION else topic.name
        for wanted in topic.partition_data:
            try:
                replica = parts.replicas.leader(name, wanted.index)
                header = batch.parse_header(wanted.records or b"")
            except Refusal:
                continue
            if _needs_a_word(replica, header):
                found[replica] = header
    return found


def _needs_a_word(replica: Replica, header: BatchHeader) -> bool:
    """Whether the transaction's coordinator must verify a batch like this before it is appended."""
    return header.is_transactional and header.has_producer_id and replica.topic not in INTERNAL_TOPICS


class Appended(NamedTuple):
    """The results of a request's batches so far."""

    response: ProduceResponse
    later: list[Awaitable[object]]
    """Work that must finish before the request is answered."""
    failed: bool
    uncommitted: list[Uncommitted]
    """The appends that acks=all waits for, in partitions with several replicas; more may be added until
    `later` has finished."""


def _append_in_turns(
    parts: Parts, request: ProduceRequest, context: RequestContext, verified: Verified
) -> Answer[Produced]:
    return in_turns(_append_all(parts, request, context, verified)).and_then(
        lambda appended: _conclude(parts, appended, request.acks, context, request.timeout_ms)
    )


def _conclude(
    parts: Parts, appended: Appended, acks: int, context: RequestContext, timeout_ms: int
) -> Answer[Produced]:
    response, later, failed, uncommitted = appended
    if later:
        return Answer.working(_finish(parts, appended, acks, context, timeout_ms))
    if uncommitted:
        return _await_commit(parts, appended, acks, context, timeout_ms)
    if failed:
        return Answer.of(_with_errors(parts, response, acks, context))
    return Answer.of(response if acks else None)


def _append_all(
    parts: Parts, request: ProduceRequest, context: RequestContext, verified: Verified
) -> Steps[Appended]:
    """Append the request's batches one after the other; each may be refused."""
    by_id = context.api_version >= TOPIC_IDS_SINCE_VERSION
    topics: list[TopicResponse] = []
    later: list[Awaitable[object]] = []
    uncommitted: list[Uncommitted] = []
    waits_for_commit = request.acks == ALL
    failed = False
    done_bytes = 0
    for topic in request.topic_data:
        partitions: list[PartitionResponse] = []
        for wanted in topic.partition_data:
            done_bytes += BYTES_AS_A_PARTITION + len(wanted.records or b"")
            if done_bytes > BYTES_PER_STEP:
                done_bytes = 0
                yield
            answer = PartitionResponse(index=wanted.index, base_offset=-1)
            partitions.append(answer)
            try:
                replica = parts.replicas.leader(topic.topic_id if by_id else topic.name, wanted.index)
                info = _append(replica, wanted.records, request, context, verified)
            except Refusal as error:
                failed = True
                _refuse(answer, error)
                continue
            if info is None:
                # A copy, because the frame's memory may be reused if another partition's conversion fails.
                records = bytearray(wanted.records or b"")
                waiting = uncommitted if waits_for_commit else None
                later.append(_convert_and_append(parts, replica, records, answer, verified, waiting))
                continue
            _accept(answer, replica, info)
            if waits_for_commit and replica.replicated is not None:
                uncommitted.append(Uncommitted(replica, replica.leader_epoch, info.last_offset + 1, answer))
            if replica.flushes_by_count and (flush := replica.flush_if_due(parts.group_commit.flush)):
                later.append(flush)
        if partitions:  # Kafka answers by partition, too
            topics.append(
                TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
            )
    return Appended(ProduceResponse(responses=topics), later, failed, uncommitted)


def _append_single(
    parts: Parts, request: ProduceRequest, by_id: bool, context: RequestContext
) -> Answer[Produced] | None:
    """Append a single batch on the fast path and answer with the encoded response.

    For a small request most of the time is not spent on the batch itself, and a tenth of that is to build and
    encode the response, of which only three integers change. Returns None if the batch needs the slow path;
    nothing has been changed then.
    """
    topic = request.topic_data[0]
    wanted = topic.partition_data[0]
    try:
        replica = parts.replicas.leader(topic.topic_id if by_id else topic.name, wanted.index)
        if context.api_version < LOG_START_OFFSET_SINCE_VERSION or replica.flushes_by_count:
            return None
        info = _append(replica, wanted.records, request, context, None)
    except Refusal as error:
        answer = PartitionResponse(index=wanted.index, base_offset=-1)
        _refuse(answer, error)
        refused = TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])
        return Answer.of(_with_errors(parts, ProduceResponse(responses=[refused]), request.acks, context))
    if info is None:
        return None
    around = replica.produce_responses.get(context.api_version)
    if around is None:
        around = _encode_around_offsets(topic, wanted.index, context.api_version)
        replica.produce_responses[context.api_version] = around
    offsets = _offsets(info.first_offset, info.log_append_time_ms, replica.log.log_start_offset)
    response = around[0] + offsets + around[1]
    if request.acks == ALL and replica.replicated is not None:
        return _await_single(parts, request, context, replica, info, response)
    return Answer.of(response)


def _await_single(
    parts: Parts,
    request: ProduceRequest,
    context: RequestContext,
    replica: Replica,
    info: AppendInfo,
    response: bytes,
) -> Answer[Produced]:
    """Do `_await_commit` for a single batch, whose success response is already encoded.

    The waiting append must not hold on to the request, because its records are in the frame's memory.
    """
    later: Answer[Produced] = Answer.later(blocks=False)
    name, topic_id = request.topic_data[0].name, request.topic_data[0].topic_id

    def complete(error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            later.complete(response)
            return
        answer = PartitionResponse(index=replica.partition, log_start_offset=replica.log.log_start_offset)
        fill_in(answer, error)
        late = TopicResponse(name=name, topic_id=topic_id, partition_responses=[answer])
        later.complete(_with_errors(parts, ProduceResponse(responses=[late]), ALL, context))

    end_offset = info.last_offset + 1
    delayed = DelayedAppend(parts.purgatory, replica, end_offset, request.timeout_ms, complete)
    later.on_abandon = delayed.cancel
    return later


def _encode_around_offsets(
    topic: ProduceRequest.TopicProduceData, partition: int, version: int
) -> tuple[bytes, bytes]:
    """Encode the bytes before and after the three integers of a success response for this partition."""
    marks = (0x5AFE_0FF5_E701_0203, 0x5AFE_0FF5_E704_0506, 0x5AFE_0FF5_E707_0809)
    answer = PartitionResponse(
        index=partition, base_offset=marks[0], log_append_time_ms=marks[1], log_start_offset=marks[2]
    )
    response = ProduceResponse(
        responses=[TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])]
    )
    before, found, after = response.encode(version).partition(_offsets(*marks))
    assert found, "the three integers are adjacent since version 5"
    return before, after


def _append(
    replica: Replica,
    records: memoryview | None,
    request: ProduceRequest,
    context: RequestContext,
    verified: Verified | None,
) -> AppendInfo | None:
    """Append one batch. Raises one of the errors in `Refusal`.

    Returns None if a worker must check the records first, or if the batch begins a transaction and the
    coordinator has not been asked yet (`verified` is None).
    """
    acks = request.acks
    if not -1 <= acks <= 1:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if replica.topic in INTERNAL_TOPICS and context.client_id != CLIENT_OF_ADMINS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {replica.topic}"
        )
    if acks == ALL:
        replica.check_enough_replicas()
    if not records:
        raise InvalidBatch("a produce request must have one record batch per partition")
    checks = replica.batch_checks
    checked = header = checks.check_plain(records)
    if header is None:
        header = batch.validate(records)[0]
        if context.api_version < ZSTD_SINCE_VERSION and header.compression == Codec.ZSTD:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 (KIP-110)")
    verification = None
    if header.attributes & batch.TRANSACTIONAL_MASK:
        if request.transactional_id is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if verified is not None:
            verification = verified.of(replica) if _needs_a_word(replica, header) else None
        elif not replica.log.producer_state.is_open(header.producer_id, header.producer_epoch):
            return None
    if checked is None:
        checked = checks.check(header, records)
        if checked is None:
            return None
    return replica.append(records, [checked], verification=verification)


async def _convert_and_append(
    parts: Parts,
    replica: Replica,
    records: bytearray,
    answer: PartitionResponse,
    verified: Verified,
    uncommitted: list[Uncommitted] | None,
) -> None:
    """Convert a batch in a worker and append it; ``uncommitted`` collects what acks=all waits for."""
    try:
        converted = await parts.decode_in_worker(
            produce_conversion.convert, records, replica, parts.clock_ms(), parts.schemas
        )
        replica.check_leader()  # the topic may be deleted by now
        headers = batch.check_batches(converted)
        verification = verified.of(replica) if _needs_a_word(replica, headers[0]) else None
        info = replica.append(converted, headers, verification=verification)
        _accept(answer, replica, info)
        if uncommitted is not None and replica.replicated is not None:
            uncommitted.append(Uncommitted(replica, replica.leader_epoch, info.last_offset + 1, answer))
    except RecordsRefused as error:
        _refuse(answer, error)
        answer.log_start_offset = replica.log.log_start_offset
        answer.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.records
        ]
    except Refusal as error:
        _refuse(answer, error)
    else:
        if replica.flushes_by_count and (flush := replica.flush_if_due(parts.group_commit.flush)):
            await flush


def _accept(answer: PartitionResponse, replica: Replica, info: AppendInfo) -> None:
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time_ms
    answer.log_start_offset = replica.log.log_start_offset


def _refuse(
    answer: PartitionResponse, error: KafkaError | InvalidBatch | CorruptBatch | MalformedRecords
) -> None:
    answer.error_code = error.code
    answer.error_message = str(error)


async def _finish(
    parts: Parts, appended: Appended, acks: int, context: RequestContext, timeout_ms: int
) -> Produced:
    await asyncio.gather(*appended.later)
    if appended.uncommitted:
        return await _await_commit(parts, appended, acks, context, timeout_ms)
    return _with_errors(parts, appended.response, acks, context)


def _await_commit(
    parts: Parts, appended: Appended, acks: int, context: RequestContext, timeout_ms: int
) -> Answer[Produced]:
    """Answer once the in-sync replicas have the appended records, or at the producer's timeout."""
    later: Answer[Produced] = Answer.later(blocks=False)
    delayed = DelayedProduce(
        parts.purgatory,
        appended.uncommitted,
        timeout_ms,
        lambda: later.complete(_with_errors(parts, appended.response, acks, context)),
    )
    later.on_abandon = delayed.cancel
    return later


def _with_errors(
    parts: Parts, response: ProduceResponse, acks: int, context: RequestContext
) -> ProduceResponse | None:
    """Complete a response that may contain errors; with acks=0 an error closes the connection."""
    failures = [
        (topic, partition)
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    ]
    parts.replicas.refused_appends.update(partition.error_code for _topic, partition in failures)
    if acks == 0:
        if failures:
            _topic, partition = failures[0]
            raise CloseConnection(f"produce with acks=0 failed: {partition.error_message}")
        return None
    if context.api_version >= LEADER_HINTS_SINCE_VERSION:
        hints = LeaderHints(parts.image, context.listener_name)
        for topic, partition in failures:
            if partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader = hints.leader_of(topic.name or topic.topic_id, partition.index)
                partition.current_leader = ProduceResponse.LeaderIdAndEpoch(
                    leader_id=leader.node_id, leader_epoch=leader.epoch
                )
        response.node_endpoints = [
            ProduceResponse.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in hints.endpoints()
        ]
    return response


API = (
    Api(ProduceRequest, versions=(3, 13), advertised=(0, 13))
    .on_broker(lambda node: node, handle)
    .needs(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "for transactional records"),
        (Operation.WRITE, ResourceType.TOPIC),
    )
)
