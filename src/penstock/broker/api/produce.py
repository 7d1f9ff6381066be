"""Produce (0): append record batches to partitions that this node leads.

Versions 3 to 13; 0 to 2 are advertised and refused, since librdkafka stops compressing when they're missing
(KAFKA-18659). Differences from Kafka:
- transactional batches are refused with INVALID_TXN_STATE until this node coordinates transactions;
- records are looked at only where the topic's configuration asks for it (see `produce_conversion`), so a
  malformed record inside a batch with a good checksum is the consumer's to find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.broker import produce_conversion
from penstock.broker.connection import CloseConnection
from penstock.broker.leader_hints import LeaderHints
from penstock.broker.produce_conversion import RecordsRefused
from penstock.protocol import batch
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.batch import CorruptBatch, InvalidBatch, MalformedRecords
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.broker.replicas import Replica
    from penstock.storage.log import AppendInfo

API_KEY = ApiKey.PRODUCE
VERSIONS = (3, 13)
ADVERTISED_VERSIONS = (0, 13)

TOPIC_IDS_SINCE_VERSION = 13
LEADER_HINTS_SINCE_VERSION = 10
CLIENT_OF_ADMINS = "__admin_client"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

PartitionResponse = ProduceResponse.PartitionProduceResponse
TopicResponse = ProduceResponse.TopicProduceResponse

Refusal = (KafkaError, InvalidBatch, CorruptBatch, MalformedRecords)


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    by_id = context.api_version >= TOPIC_IDS_SINCE_VERSION
    topics: list[TopicResponse] = []
    later: list[Awaitable[object]] = []
    failed = False
    for topic in request.topic_data:
        partitions: list[PartitionResponse] = []
        topic_key = topic.topic_id if by_id else topic.name
        for wanted in topic.partition_data:
            answer = PartitionResponse(index=wanted.index, base_offset=-1)
            partitions.append(answer)
            try:
                replica = broker.replicas.leader(topic_key, wanted.index)
                unfinished = _append(broker, replica, wanted.records, request.acks, context, answer)
                if unfinished is not None:
                    later.append(unfinished)
            except Refusal as error:
                failed = True
                _refuse(answer, error)
        topics.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
    response = ProduceResponse(responses=topics)
    if later:
        return _finish(broker, later, response, request.acks, context)
    if failed:
        return _with_errors(broker, response, request.acks, context)
    return response if request.acks else None


def _append(
    broker: Broker,
    replica: Replica,
    records: memoryview | None,
    acks: int,
    context: RequestContext,
    answer: PartitionResponse,
) -> Awaitable[object] | None:
    """Append one batch and fill in the answer, or hand back what is left to do off the loop."""
    if not -1 <= acks <= 1:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    if replica.topic in INTERNAL_TOPICS and context.client_id != CLIENT_OF_ADMINS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {replica.topic}"
        )
    if acks == -1:
        replica.check_enough_replicas()
    if not records:
        raise InvalidBatch("a produce request must have one record batch a partition")
    headers = batch.validate(records)
    header = headers[0]
    if header.attributes & batch.TRANSACTIONAL_MASK:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "this node does not serve transactions yet")
    if replica.must_convert(header):
        # The frame's memory is reused as soon as this returns.
        return _convert_and_append(broker, replica, bytearray(records), answer)
    _accept(answer, replica, replica.append(records, headers))
    return replica.flush_if_due(broker.run_in_worker)


async def _convert_and_append(
    broker: Broker, replica: Replica, records: bytearray, answer: PartitionResponse
) -> None:
    try:
        converted = await broker.run_in_worker(
            produce_conversion.convert, records, replica, broker.clock_ms()
        )
        _accept(answer, replica, replica.append(converted, batch.check_batches(converted)))
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
        flush = replica.flush_if_due(broker.run_in_worker)
        if flush is not None:
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
    broker: Broker,
    later: list[Awaitable[object]],
    response: ProduceResponse,
    acks: int,
    context: RequestContext,
) -> ProduceResponse | None:
    await asyncio.gather(*later)
    return _with_errors(broker, response, acks, context)


def _with_errors(
    broker: Broker, response: ProduceResponse, acks: int, context: RequestContext
) -> ProduceResponse | None:
    """The response as it is sent when something may have failed; with acks=0 failing means closing."""
    failures = [
        (topic, partition)
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    ]
    if acks == 0:
        if failures:
            _topic, partition = failures[0]
            raise CloseConnection(f"produce with acks=0 failed: {partition.error_message}")
        return None
    if context.api_version >= LEADER_HINTS_SINCE_VERSION:
        hints = LeaderHints(broker, context.listener_name)
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
