"""A small language for the data plane: a request to a node and, indented below it, the answer.

    topic NAME [partitions=N] [CONFIG=VALUE ...]        set NAME CONFIG=VALUE        drop NAME
    produce [v=N] [acks=N] [txn=ID] PLACE RECORDS ...   RECORDS is [ BATCH + BATCH ... ] or empty
    fetch [v=N] [session=ID:EPOCH] [max=BYTES] [min=BYTES] [wait=MS] [level=N] [forget=PLACE,...]
        PLACE@OFFSET[/BYTES][~CURRENT_EPOCH][^LAST_EPOCH] ...
    begin fetch ...                                     end (shows the answer)
    offsets [v=N] [level=N] [replica=N] PLACE@TIMESTAMP[~CURRENT_EPOCH] ...
    epochs [v=N] [replica=N] PLACE@EPOCH[~CURRENT_EPOCH] ...
    trim [v=N] PLACE@OFFSET ...                         dirs [v=N] PLACE ...
    init [v=N] [txn=ID] [FIELD=VALUE ...]               versions [v=N] [name=TEXT] [software=TEXT]
    metadata [v=N] [create=0] NAME | id=NAME ...        coordinator [v=N] [type=N] KEY ...
    bare API VERSION                                    (a request without a body; the answer in hex)

A PLACE is TOPIC:PARTITION. In versions with topic ids, a topic's name stands for its id, `NAME#N` for that of
the Nth topic of this name, and a name that no topic ever had for an unknown id.

A BATCH is records as VALUE, KEY=VALUE or VALUE@TIMESTAMP (`~` for null, `a*9` for nine of it; a timestamp may
be `now+MS`), followed by changes to it: `.codec=gzip`, `.producer=ID,EPOCH,SEQUENCE`, `.control=1`,
`.none=1` for no records at all, any field of the batch header as `.FIELD=NUMBER` (the checksum is adapted,
unless it is the field), `.cut=N` to remove its last bytes, `.tail=TEXT` to append bytes.

In answers topics have the names above, sessions are s1, s2, ..., and times near the clock's are `now`. Fields
with their default value are left out; so are the message and the log start of a rejected batch, unless single
records are rejected. All is sorted except the partitions of a fetch, whose order matters.
"""

import itertools
import re
import shlex
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from crc32c import crc32c

from broker_wire import Wire
from penstock.metadata.image import ResourceType
from penstock.protocol import batch, records
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message, MessageStruct
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ErrorCode
from waiting import wait_until

ANSWER = "    "
PATIENCE_S = 60.0
TIMEOUT_MS = 5_000
CLOCK_TOLERANCE_MS = 600_000
FETCH_BYTES = 1 << 20
TIME = re.compile(r"-9223370\d{12}\b|\b1\d{12}\b")
UNKNOWN_ID = bytes(range(1, 17))
PRODUCE_BY_ID = FETCH_BY_ID = 13
SEVERAL_KEYS = 4
SHOWN_APIS = frozenset(range(4)) | {18, 21, 22, 23}
PLACE = re.compile(
    r"(?P<topic>[^:]*):(?P<partition>-?\d+)(?:@(?P<number>[^/~^]+))?(?:/(?P<bytes>-?\d+))?"
    r"(?:~(?P<epoch>-?\d+))?(?:\^(?P<last>-?\d+))?"
)
NAMELESS = frozenset({"host", "log_dir", "cluster_id", "port", "total_bytes", "usable_bytes"})
"""Fields whose values may differ between nodes."""

Options = dict[str, str]
Place = re.Match[str]


def converse(bootstrap_servers: str, script: str, settle_s: float = 0.0) -> str:
    """The script with the answers of this node, which gets `settle_s` after changes of topics."""
    return "\n".join(Conversation(bootstrap_servers, settle_s).lines(script)) + "\n"


class Conversation:
    def __init__(self, bootstrap_servers: str, settle_s: float) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.settle_s = settle_s
        self.wire = self.connect()
        self.waiting = self.wire
        self.ids: dict[str, bytes] = {}
        self.sessions: dict[str, int] = {}
        self.started_ms = time.time_ns() // 1_000_000
        self.commands: Mapping[str, Callable[[list[str]], Iterable[str]]] = {
            "topic": self.topic,
            "set": self.set,
            "drop": self.drop,
            "produce": self.produce,
            "fetch": self.fetch,
            "begin": self.begin,
            "end": self.end,
            "offsets": self.offsets,
            "epochs": self.epochs,
            "trim": self.trim,
            "dirs": self.dirs,
            "init": self.init,
            "versions": self.versions,
            "metadata": self.metadata,
            "coordinator": self.coordinator,
            "bare": self.bare,
        }

    def connect(self) -> Wire:
        return Wire(self.bootstrap_servers, PATIENCE_S)

    def lines(self, script: str) -> Iterator[str]:
        for line in script.splitlines():
            if line.startswith(ANSWER):
                continue
            yield line
            if line and not line.startswith("#"):
                command, *words = shlex.split(line)
                for answer in self.commands[command](words):
                    yield ANSWER + TIME.sub("TIME", answer)
        self.wire.socket.close()

    def ask(self, request: Message, kind: type[Message], version: int | str | None) -> Iterator[str]:
        try:
            response = self.wire.ask(request, kind, None if version is None else int(version))
        except ConnectionError:
            self.wire = self.connect()
            yield "closed"
        else:
            yield from self.shown(response)

    # Topics

    def topic(self, words: list[str]) -> Iterable[str]:
        name, *rest = words
        configs = {key.replace(".", "_"): value for key, value in options_of(rest)[0].items()}
        partitions = int(configs.pop("partitions", "1"))
        topic_id = self.wire.create_topic(name, partitions, **configs)
        wait_until(lambda: self.is_led(name, partitions))
        number = next(n for n in itertools.count(1) if f"{name}#{n}" not in self.ids)
        self.ids[f"{name}#{number}"] = self.ids[name] = topic_id
        time.sleep(self.settle_s)
        return []

    def is_led(self, topic: str, partitions: int) -> bool:
        """Whether the node leads the partitions, which Apache Kafka does a moment after their creation."""
        asked = [
            m.ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=-1)
            for number in range(partitions)
        ]
        request = m.ListOffsetsRequest(
            replica_id=-1, topics=[m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=asked)]
        )
        (answer,) = self.wire.ask(request, m.ListOffsetsResponse, 7).topics
        return not any(partition.error_code for partition in answer.partitions)

    def set(self, words: list[str]) -> Iterable[str]:
        topic, (name, value) = words[0], words[1].split("=")
        config = m.IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
        resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic, configs=[config]
        )
        request = m.IncrementalAlterConfigsRequest(resources=[resource])
        assert not self.wire.ask(request, m.IncrementalAlterConfigsResponse).responses[0].error_code
        time.sleep(self.settle_s)
        return []

    def drop(self, words: list[str]) -> Iterable[str]:
        states = [m.DeleteTopicsRequest.DeleteTopicState(name=name) for name in words]
        request = m.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)
        assert not self.wire.ask(request, m.DeleteTopicsResponse).responses[0].error_code
        time.sleep(self.settle_s)
        return []

    def called(self, topic: str, by_id: bool) -> tuple[str, bytes]:
        """The name and id for a request."""
        return ("", self.ids.get(topic, UNKNOWN_ID)) if by_id else (topic, bytes(16))

    # Produce

    def produce(self, words: list[str]) -> Iterator[str]:
        options, words = options_of(words)
        version = int(options.get("v", PRODUCE_BY_ID))
        wanted: list[tuple[Place, bytes]] = []
        while words:
            (place,) = places_of([words.pop(0)])
            wanted.append((place, self.payload(words)))
        request = m.ProduceRequest(
            acks=int(options.get("acks", -1)), timeout_ms=TIMEOUT_MS, transactional_id=options.get("txn")
        )
        for topic, parts in itertools.groupby(wanted, lambda pair: pair[0]["topic"]):
            name, topic_id = self.called(topic, version >= PRODUCE_BY_ID)
            partitions = [
                m.ProduceRequest.PartitionProduceData(index=int(place["partition"]), records=data)
                for place, data in parts
            ]
            request.topic_data.append(
                m.ProduceRequest.TopicProduceData(name=name, topic_id=topic_id, partition_data=partitions)
            )
        if request.acks:
            return self.ask(request, m.ProduceResponse, version)
        self.wire.send(request, version, answered=False)
        return self.is_it_open()

    def is_it_open(self) -> Iterator[str]:
        try:
            self.wire.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)
            yield "no answer"
        except ConnectionError:
            self.wire = self.connect()
            yield "closed"

    def payload(self, words: list[str]) -> bytes:
        """The records of one partition, taken from the front of `words`."""
        if words.pop(0) == "empty":
            return b""
        closing = words.index("]")
        inside, words[:] = words[:closing], words[closing + 1 :]
        batches = [list(group) for plus, group in itertools.groupby(inside, lambda w: w == "+") if not plus]
        return b"".join(map(self.batch, batches))

    def batch(self, words: list[str]) -> bytes:
        changes = dict(word[1:].split("=", 1) for word in words if word.startswith("."))
        plain = [word for word in words if not word.startswith(".")]
        producer = [int(number) for number in changes.pop("producer", "-1,-1,-1").split(",")]
        cut, tail = int(changes.pop("cut", 0)), changes.pop("tail", "")
        data = bytearray(
            records.encode_batch(
                [self.record(index, word) for index, word in enumerate(plain or [""])],
                compression=Codec[changes.pop("codec", "none").upper()],
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=producer[2],
                control=changes.pop("control", None) is not None,
            )
        )
        if changes.pop("none", None):
            del data[batch.HEADER_SIZE :]
            length = batch.HEADER_SIZE - batch.LOG_OVERHEAD
            changes = {"count": "0", "last_offset_delta": "-1", "batch_length": str(length)} | changes
        if changes:
            _change_header(data, {name: self.time(value) for name, value in changes.items()})
        return bytes(data[: len(data) - cut]) + tail.encode()

    def record(self, index: int, word: str) -> records.Record:
        text, _, timestamp = word.partition("@")
        key, has_key, value = text.rpartition("=")
        at_ms = self.time(timestamp) if timestamp else self.started_ms
        return records.Record(index, at_ms, _bytes(key) if has_key else b"k", _bytes(value), ())

    def time(self, text: str) -> int:
        return self.started_ms + int(text[3:] or 0) if text.startswith("now") else int(text)

    # Fetch

    def fetch_request(self, words: list[str]) -> tuple[m.FetchRequest, int]:
        options, words = options_of(words)
        version = int(options.get("v", 18))
        session, epoch = options.get("session", "0:-1").split(":")
        request = m.FetchRequest(
            max_wait_ms=int(options.get("wait", 0)),
            min_bytes=int(options.get("min", 1)),
            max_bytes=int(options.get("max", FETCH_BYTES)),
            isolation_level=int(options.get("level", 0)),
            session_id=self.sessions.get(session) or int(session),
            session_epoch=int(epoch),
        )
        for topic, places in by_topic(words):
            name, topic_id = self.called(topic, version >= FETCH_BY_ID)
            partitions = [
                m.FetchRequest.FetchPartition(
                    partition=int(place["partition"]),
                    fetch_offset=int(place["number"]),
                    partition_max_bytes=int(place["bytes"] or FETCH_BYTES),
                    current_leader_epoch=int(place["epoch"] or -1),
                    last_fetched_epoch=int(place["last"] or -1),
                )
                for place in places
            ]
            request.topics.append(
                m.FetchRequest.FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
            )
        for topic, places in by_topic(options.get("forget", "").split(",") if "forget" in options else []):
            name, topic_id = self.called(topic, version >= FETCH_BY_ID)
            numbers = [int(place["partition"]) for place in places]
            request.forgotten_topics_data.append(
                m.FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=numbers)
            )
        return request, version

    def fetch(self, words: list[str]) -> Iterator[str]:
        request, version = self.fetch_request(words)
        start_s = time.monotonic()
        yield from self.ask(request, m.FetchResponse, version)
        if request.max_wait_ms > 0:
            waited = time.monotonic() - start_s >= request.max_wait_ms / 1000 * 0.9
            yield "after waiting" if waited else "at once"

    def begin(self, words: list[str]) -> Iterable[str]:
        request, version = self.fetch_request(words[1:])
        self.waiting = self.connect()
        self.waiting.send(request, version)
        time.sleep(0.1)
        return []

    def end(self, _words: list[str]) -> Iterator[str]:
        yield from self.shown(self.waiting.receive(m.FetchResponse))
        self.waiting.socket.close()

    # Other requests

    def offsets(self, words: list[str]) -> Iterator[str]:
        options, words = options_of(words)
        request = m.ListOffsetsRequest(
            replica_id=int(options.get("replica", -1)),
            isolation_level=int(options.get("level", 0)),
            timeout_ms=TIMEOUT_MS,
        )
        for topic, places in by_topic(words):
            partitions = [
                m.ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=int(place["partition"]),
                    timestamp=self.time(place["number"]),
                    current_leader_epoch=int(place["epoch"] or -1),
                )
                for place in places
            ]
            request.topics.append(m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=partitions))
        return self.ask(request, m.ListOffsetsResponse, options.get("v"))

    def epochs(self, words: list[str]) -> Iterator[str]:
        options, words = options_of(words)
        request = m.OffsetForLeaderEpochRequest(replica_id=int(options.get("replica", -1)))
        for topic, places in by_topic(words):
            partitions = [
                m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                    partition=int(place["partition"]),
                    leader_epoch=int(place["number"]),
                    current_leader_epoch=int(place["epoch"] or -1),
                )
                for place in places
            ]
            request.topics.append(
                m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=partitions)
            )
        return self.ask(request, m.OffsetForLeaderEpochResponse, options.get("v"))

    def trim(self, words: list[str]) -> Iterator[str]:
        options, words = options_of(words)
        request = m.DeleteRecordsRequest(timeout_ms=TIMEOUT_MS)
        for topic, places in by_topic(words):
            partitions = [
                m.DeleteRecordsRequest.DeleteRecordsPartition(
                    partition_index=int(place["partition"]), offset=int(place["number"])
                )
                for place in places
            ]
            request.topics.append(
                m.DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=partitions)
            )
        return self.ask(request, m.DeleteRecordsResponse, options.get("v"))

    def dirs(self, words: list[str]) -> Iterator[str]:
        options, words = options_of(words)
        topics = [
            m.DescribeLogDirsRequest.DescribableLogDirTopic(
                topic=topic, partitions=[int(place["partition"]) for place in places]
            )
            for topic, places in by_topic(words)
        ]
        return self.ask(m.DescribeLogDirsRequest(topics=topics), m.DescribeLogDirsResponse, options.get("v"))

    def init(self, words: list[str]) -> Iterator[str]:
        options, _ = options_of(words)
        version = int(options.pop("v", 5))
        request = m.InitProducerIdRequest(transactional_id=options.pop("txn", None), transaction_timeout_ms=1)
        for name, value in options.items():
            setattr(request, name, int(value))
        response = self.wire.ask(request, m.InitProducerIdResponse, version)
        while response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # Kafka fetches ids
            time.sleep(0.1)
            response = self.wire.ask(request, m.InitProducerIdResponse, version)
        if response.producer_id >= 0:
            response.producer_id = m.InitProducerIdResponse().producer_id
            yield "an id"
        yield from self.shown(response)

    def versions(self, words: list[str]) -> Iterator[str]:
        """The API versions without features, which differ: ours lack those of later issues."""
        options, _ = options_of(words)
        request = m.ApiVersionsRequest(
            client_software_name=options.get("name", "wire"),
            client_software_version=options.get("software", "1"),
        )
        response = self.wire.ask(request, m.ApiVersionsResponse, int(options.get("v", 4)))
        response.api_keys = [key for key in response.api_keys if key.api_key in SHOWN_APIS]
        response.finalized_features_epoch = -1
        response.finalized_features = response.supported_features = []
        yield from self.shown(response)

    def metadata(self, words: list[str]) -> Iterator[str]:
        options, words = options_of(words, but="id")
        request = m.MetadataRequest(allow_auto_topic_creation=options.get("create") != "0")
        for word in words:
            is_id = word.startswith("id=")
            name, topic_id = self.called(word.removeprefix("id="), is_id)
            request.topics.append(
                m.MetadataRequest.MetadataRequestTopic(name=None if is_id else name, topic_id=topic_id)
            )
        return self.ask(request, m.MetadataResponse, options.get("v"))

    def coordinator(self, words: list[str]) -> Iterator[str]:
        options, words = options_of(words)
        request = m.FindCoordinatorRequest(key_type=int(options.get("type", 0)))
        if int(options.get("v", SEVERAL_KEYS)) >= SEVERAL_KEYS:
            request.coordinator_keys = words
        else:
            request.key = words[0]
        return self.ask(request, m.FindCoordinatorResponse, options.get("v"))

    def bare(self, words: list[str]) -> Iterator[str]:
        header = struct.pack(">hhih", ApiKey[words[0]], int(words[1]), 7, -1)
        wire = self.connect()
        wire.socket.sendall(struct.pack(">i", len(header)) + header)
        try:
            yield wire.receive_frame().hex()
        except ConnectionError:
            yield "closed"
        wire.socket.close()

    # Answers

    def shown(self, struct: MessageStruct) -> Iterator[str]:
        """A struct's own fields, with its arrays below them, or beside them if these are short."""
        own, nested = [], []
        usual = type(struct)()
        for name in struct.__slots__:
            field = getattr(struct, name)
            if field == getattr(usual, name) or _is_left_out(struct, name, field):
                continue
            if isinstance(field, list) and field and isinstance(field[0], MessageStruct):
                items = [list(self.shown(item)) for item in field]
                ordered = isinstance(field[0], m.FetchResponse.PartitionData)
                nested += itertools.chain(*(items if ordered else sorted(items)))
            else:
                own.append(f"{name}={self.plain(name, field)}")
        if len(own) <= 1 and nested:
            yield from (" ".join([*own, line]) for line in nested)
        else:
            yield " ".join(own) or "-"
            yield from ("  " + line for line in nested)

    def plain(self, name: str, value: Any) -> str:
        if name == "error_code":
            return ErrorCode(value).name
        if name == "records":
            return "[" + " ".join(self.batches(bytes(value))) + "]"
        if name == "session_id":
            return self.session(value)
        if name in NAMELESS:
            return "its"
        if isinstance(value, MessageStruct):
            return "(" + " ".join(self.shown(value)) + ")"
        if isinstance(value, bytes) and len(value) == 16:
            return next((text for text, found in self.ids.items() if found == value), "unknown")
        if isinstance(value, int):
            return self.number(value)
        return repr(value)

    def number(self, value: int) -> str:
        return "now" if abs(value - self.started_ms) < CLOCK_TOLERANCE_MS else str(value)

    def session(self, session_id: int) -> str:
        names = {number: name for name, number in self.sessions.items()}
        name = names.get(session_id, f"s{len(names) + 1}")
        self.sessions[name] = session_id
        return name

    def batches(self, data: bytes) -> Iterator[str]:
        """The complete batches; Kafka may send part of another one."""
        for position, header in batch.iter_headers(data):
            values = " ".join(
                f"{record.offset}:{_text(record.value)}" for record in records.decode_batch(data, position)
            )
            codec = Codec(header.compression).name.lower()
            stamp = "appended" if header.timestamp_type == batch.LOG_APPEND_TIME else "created"
            time_ = self.number(header.max_timestamp)
            yield f"({codec} epoch {header.partition_leader_epoch} {stamp} {time_} {values})"


def _is_left_out(struct: MessageStruct, name: str, field: object) -> bool:
    if name == "aborted_transactions":
        return not field  # none or null: Kafka is not consistent for all errors
    is_refused = getattr(struct, "error_code", 0) and not getattr(struct, "record_errors", None)
    return bool(is_refused) and name in ("error_message", "log_start_offset")


def options_of(words: Sequence[str], but: str = "") -> tuple[Options, list[str]]:
    """The leading NAME=VALUE words, and the rest."""
    matches = itertools.takewhile(bool, (re.match(r"([a-z_.]+)=", word) for word in words))
    taken = [match.string for match in matches if match and match[1] != but]
    return dict(word.split("=", 1) for word in taken), list(words[len(taken) :])


def places_of(words: Iterable[str]) -> Iterator[Place]:
    for word in words:
        place = PLACE.fullmatch(word)
        assert place is not None, word
        yield place


def by_topic(words: Iterable[str]) -> Iterator[tuple[str, Iterator[Place]]]:
    """Adjacent places grouped by topic, as in requests."""
    return itertools.groupby(places_of(words), lambda place: place["topic"])


def _change_header(data: bytearray, changes: dict[str, int]) -> None:
    header = batch.parse_header(data)._replace(**changes)
    struct.pack_into(">qiibIhiqqqhii", data, 0, *header)
    if "crc" not in changes:
        struct.pack_into(">I", data, batch.CRC_OFFSET, crc32c(data[batch.ATTRIBUTES_OFFSET :]))


def _bytes(text: str) -> bytes | None:
    letter, times, count = text.partition("*")
    return None if text == "~" else letter.encode() * (int(count) if times else 1)


def _text(value: bytes | None) -> str:
    if value is None:
        return "~"
    text = value.decode()
    return f"{text[0]}*{len(text)}" if len(text) > 20 else text
