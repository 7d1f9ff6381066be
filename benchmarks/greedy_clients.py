"""A modest client beside a greedy one of each kind: the modest one's latency, with and without a quota.

The modest client produces one record and fetches it, at a fixed rate. It is timed from when it was due. For
each kind of greedy client it runs alone, beside the greedy client without a quota, and beside it with one,
each time on a new broker. The output has the p50 and the p99, as medians of the rounds. The broker is pinned
to one core, and all clients to another (Linux). The machine must be idle otherwise: the p99 shows everything.

    PYTHONPATH=src python benchmarks/greedy_clients.py [rounds [kind ...]]
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from penstock.protocol import api_keys
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster

R = TypeVar("R", bound=Message)

ROUNDS: Final = 3
RATE_PER_S: Final = 100
MEASURED_S: Final = 8.0
SETTLED_S: Final = 4.0
"""The time before a measurement, in which a greedy client uses up its burst."""
SETTINGS: Final = {"quota.window.num": "3", "offsets.topic.num.partitions": "1"}
"""With three samples, a burst is the use of two seconds. Kafka's default is ten."""
GREEDY_ADDRESS: Final = "127.0.0.2"
MB: Final = 1_000_000

QUOTAS: Final[dict[str, tuple[dict[str, str], str, float]]] = {
    "producer, acks=1": ({"client-id": "greedy"}, "producer_byte_rate", 5 * MB),
    "producer, acks=0": ({"client-id": "greedy"}, "producer_byte_rate", 5 * MB),
    "consumer": ({"client-id": "greedy"}, "consumer_byte_rate", 20 * MB),
    "small requests": ({"client-id": "greedy"}, "request_percentage", 5),
    "topics": ({"client-id": "greedy"}, "controller_mutation_rate", 1),
    "connections": ({"ip": GREEDY_ADDRESS}, "connection_creation_rate", 10),
}


class Connection:
    """A blocking connection with one request at a time."""

    def __init__(self, address: tuple[str, int], client_id: str, source: str | None = None) -> None:
        own = None if source is None else (source, 0)
        self.socket = socket.create_connection(address, 60, own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id

    def send(self, request: Message, version: int) -> None:
        header = m.RequestHeader(
            request_api_key=request.ID, request_api_version=version, client_id=self._client_id
        )
        key = ApiKey(request.ID)
        body = header.encode(api_keys.request_header_version(key, version)) + request.encode(version)
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def ask(self, request: Message, response_type: type[R], version: int) -> R:
        self.send(request, version)
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        key = ApiKey(request.ID)
        _, position = m.ResponseHeader.decode(api_keys.response_header_version(key, version), frame)
        return response_type.decode(version, frame, position)[0]

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view, got = memoryview(received), 0
        while got < size:
            count = self.socket.recv_into(view[got:])
            if count == 0:
                raise ConnectionError("closed by the broker")
            got += count
        return received


def batch(size_bytes: int) -> bytes:
    return encode_batch([Record(0, time.time_ns() // 1_000_000, None, b"x" * size_bytes, ())])


def produce(topic: str, records: bytes, acks: int) -> m.ProduceRequest:
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=records)
    data = m.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    return m.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def fetch(topic: str, offset: int) -> m.FetchRequest:
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MB)
    named = m.FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    return m.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=MB, session_epoch=-1, topics=[named])


def create_topic(connection: Connection, name: str) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    connection.ask(request, m.CreateTopicsResponse, 5)


# Greedy clients, which send as fast as they are answered


def produce_much(address: tuple[str, int], acks: int) -> Iterator[None]:
    connection = Connection(address, "greedy")
    request = produce("greedy", batch(MB // 2), acks)
    while True:
        if acks:
            connection.ask(request, m.ProduceResponse, 9)
        else:
            connection.send(request, 9)
        yield


def consume_much(address: tuple[str, int]) -> Iterator[None]:
    connection = Connection(address, "greedy")
    while True:
        connection.ask(fetch("greedy", 0), m.FetchResponse, 12)
        yield


def ask_much(address: tuple[str, int]) -> Iterator[None]:
    connection = Connection(address, "greedy")
    while True:
        connection.ask(m.MetadataRequest(topics=None), m.MetadataResponse, 9)
        yield


def change_topics(address: tuple[str, int]) -> Iterator[None]:
    connection = Connection(address, "greedy")
    for number in itertools.count():
        name = f"changed-{os.getpid()}-{number}"
        create_topic(connection, name)
        deleted = m.DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        connection.ask(deleted, m.DeleteTopicsResponse, 4)
        yield


def connect_much(address: tuple[str, int]) -> Iterator[None]:
    while True:
        with contextlib.suppress(OSError):
            connection = Connection(address, "greedy", GREEDY_ADDRESS)
            try:
                connection.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)
            finally:
                connection.socket.close()
        yield


GREEDY: Final[dict[str, Callable[[tuple[str, int]], Iterator[None]]]] = {
    "producer, acks=1": lambda address: produce_much(address, 1),
    "producer, acks=0": lambda address: produce_much(address, 0),
    "consumer": consume_much,
    "small requests": ask_much,
    "topics": change_topics,
    "connections": connect_much,
}


def be_greedy(kind: str, address: tuple[str, int], core: int) -> None:
    os.sched_setaffinity(0, {core})
    for _ in GREEDY[kind](address):
        pass


# The modest client


class Latency(NamedTuple):
    """Milliseconds."""

    p50: float
    p99: float


def modest_latency(address: tuple[str, int]) -> Latency:
    """Produce a record and fetch it at a fixed rate."""
    connection = Connection(address, "modest")
    offset = 0
    took: list[float] = []
    began = time.perf_counter()
    for number in range(int(MEASURED_S * RATE_PER_S)):
        due = began + number / RATE_PER_S
        time.sleep(max(0.0, due - time.perf_counter()))
        answer = connection.ask(produce("modest", batch(1000), 1), m.ProduceResponse, 9)
        offset = answer.responses[0].partition_responses[0].base_offset
        connection.ask(fetch("modest", offset), m.FetchResponse, 12)
        took.append((time.perf_counter() - due) * 1000)
    connection.socket.close()
    cuts = statistics.quantiles(took, n=100)
    return Latency(cuts[49], cuts[98])


def set_quota(address: tuple[str, int], kind: str, *, remove: bool) -> None:
    names, key, value = QUOTAS[kind]
    entry = m.AlterClientQuotasRequest.EntryData(
        entity=[
            m.AlterClientQuotasRequest.EntityData(entity_type=part, entity_name=name)
            for part, name in names.items()
        ],
        ops=[m.AlterClientQuotasRequest.OpData(key=key, value=value, remove=remove)],
    )
    admin = Connection(address, "admin")
    answer = admin.ask(m.AlterClientQuotasRequest(entries=[entry]), m.AlterClientQuotasResponse, 1)
    assert answer.entries[0].error_code == 0, answer.entries[0].error_message
    admin.socket.close()


def beside(kind: str, address: tuple[str, int], core: int) -> Latency:
    """The modest client's latency beside a greedy client that has used up its burst."""
    process = multiprocessing.get_context("fork").Process(
        target=be_greedy, args=(kind, address, core), daemon=True
    )
    process.start()
    time.sleep(SETTLED_S)
    try:
        return modest_latency(address)
    finally:
        process.kill()
        process.join()


def measure(kind: str, client_core: int, broker_core: int) -> tuple[Latency, Latency, Latency]:
    """The latency alone, beside the greedy client without a quota, and with one; each on a new broker."""
    found = []
    for is_greedy, has_quota in ((False, True), (True, False), (True, True)):
        with Cluster(SETTINGS) as cluster:
            os.sched_setaffinity(cluster.pid, {broker_core})
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            address = (host, int(port))
            connection = Connection(address, "admin")
            for name in ("modest", "greedy"):
                create_topic(connection, name)
            for _ in range(4):
                connection.ask(produce("greedy", batch(MB // 2), 1), m.ProduceResponse, 9)
            if has_quota:
                set_quota(address, kind, remove=False)
            modest_latency(address)  # to warm up
            found.append(beside(kind, address, client_core) if is_greedy else modest_latency(address))
    return found[0], found[1], found[2]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    client_core, broker_core = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {client_core})
    print("| greedy client | alone | without a quota | with a quota | p99, of alone |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for kind in sys.argv[2:] or GREEDY:
        results = [measure(kind, client_core, broker_core) for _ in range(rounds)]
        columns = [
            f"{statistics.median(each[run].p50 for each in results):.2f}, "
            f"{statistics.median(each[run].p99 for each in results):.2f} ms"
            for run in range(3)
        ]
        ratio = statistics.median(each[2].p99 / each[0].p99 for each in results)
        print(f"| {kind} | {' | '.join(columns)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
