"""A minimal client for tests of the broker: one socket and our own codec."""

import itertools
import socket
import struct
import time
from typing import Self, TypeVar

from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    RequestHeader,
    ResponseHeader,
)
from penstock.protocol.records import Record, decode_batches, encode_batch

M = TypeVar("M", bound=Message)
CLIENT_ID = "wire"


class Wire:
    """A connection. A test can pipeline by calling `send` several times before `receive`."""

    def __init__(
        self,
        bootstrap_servers: str,
        timeout_s: float = 60.0,
        source: str | None = None,
        client_id: str = CLIENT_ID,
    ) -> None:
        """``source`` is the address of this end of the connection, by default the kernel's choice."""
        host, port = bootstrap_servers.rsplit(":", 1)
        own = None if source is None else (source, 0)
        self.socket = socket.create_connection((host, int(port)), timeout_s, own)
        self.client_id = client_id
        self._sent: list[tuple[int, ApiKey, int]] = []
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, request: Message, version: int | None = None, *, answered: bool = True) -> int:
        """Send a request, by default in the newest version, and return its correlation id."""
        frame, correlation_id, key, used = self.frame(request, version)
        self.socket.sendall(frame)
        if answered:
            self._sent.append((correlation_id, key, used))
        return correlation_id

    def frame(self, request: Message, version: int | None = None) -> tuple[bytes, int, ApiKey, int]:
        key = ApiKey(type(request).ID)
        used = api_keys.api_range(key)[1] if version is None else version
        correlation_id = next(self._correlation_ids)
        header = RequestHeader(
            request_api_key=key,
            request_api_version=used,
            correlation_id=correlation_id,
            client_id=self.client_id,
        ).encode(api_keys.request_header_version(key, used))
        body = header + request.encode(used)
        return struct.pack(">i", len(body)) + body, correlation_id, key, used

    def receive(self, kind: type[M]) -> M:
        """The next response, which must be that of the oldest unanswered request."""
        frame = self.receive_frame()
        correlation_id, key, version = self._sent.pop(0)
        header_version = api_keys.response_header_version(key, version)
        header, position = ResponseHeader.decode(header_version, frame)
        assert header.correlation_id == correlation_id, "responses come in the order of requests"
        response, end = api_keys.response_class(key).decode(version, frame, position)
        assert end == len(frame)
        assert isinstance(response, kind)
        return response

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self.socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("closed by the node")
            received += chunk
        return bytes(received)

    def is_closed(self, within_s: float = 60.0) -> bool:
        """Whether the node closes this connection in time without sending anything."""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def ask(self, request: Message, kind: type[M], version: int | None = None) -> M:
        self.send(request, version)
        return self.receive(kind)

    # Helpers for most tests

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic and return its id; names of configs have underscores for dots."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=10_000,
        )
        result = self.ask(request, CreateTopicsResponse).topics[0]
        assert result.error_code == 0, result.error_message
        return result.topic_id

    def topic_id(self, name: str) -> bytes:
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
        return self.ask(request, MetadataResponse, 12).topics[0].topic_id

    def produce(
        self,
        topic: str,
        records: bytes,
        partition: int = 0,
        acks: int = -1,
        version: int = 12,
    ) -> ProduceResponse.PartitionProduceResponse:
        request = produce_request(topic, records, partition, acks)
        return self.ask(request, ProduceResponse, version).responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int = 0, partition: int = 0, version: int = 12, max_wait_ms: int = 0
    ) -> FetchResponse.PartitionData:
        request = fetch_request(topic, {partition: offset}, max_wait_ms=max_wait_ms)
        return self.ask(request, FetchResponse, version).responses[0].partitions[0]

    def values(self, topic: str, offset: int = 0, partition: int = 0) -> list[bytes | None]:
        """Fetch repeatedly and return the values of all records from an offset on."""
        found: list[bytes | None] = []
        while True:
            data = self.fetch(topic, offset, partition)
            assert data.error_code == 0, data.error_code
            records = [r for r in decode_batches(bytes(data.records or b"")) if r.offset >= offset]
            if not records:
                return found
            found += [record.value for record in records]
            offset = records[-1].offset + 1


def batch_of(
    *values: bytes | None,
    key: bytes | None = None,
    timestamp: int | None = None,
    compression: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """A record batch as a producer builds it; `producer` is its id, epoch and base sequence."""
    now_ms = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    producer_id, producer_epoch, base_sequence = producer
    return encode_batch(
        [Record(index, now_ms, key, value, ()) for index, value in enumerate(values)],
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def produce_request(
    topic: str | bytes, records: bytes | None, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    """A produce request for one partition of a topic, given by name or id."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else bytes(16),
                partition_data=[ProduceRequest.PartitionProduceData(index=partition, records=records)],
            )
        ],
    )


def fetch_request(
    topic: str | bytes,
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    isolation_level: int = 0,
) -> FetchRequest:
    """A fetch request for partitions of one topic, given by name or id; `session` is id and epoch."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchRequest.FetchTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else bytes(16),
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                    )
                    for partition, offset in offsets.items()
                ],
            )
        ]
        if offsets
        else [],
    )
