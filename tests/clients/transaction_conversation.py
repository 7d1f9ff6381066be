"""A small language for transactions: a request to a node and, indented below it, the answer.

    topic NAME [partitions=N]                         settle TXN     (wait until its markers are written)
    init P TXN [v=N] [timeout=MS] [known] [2pc] [keep] [id=N] [epoch=N]         copy Q P
    add P PLACE ... [v=N]                             broker P PLACE ... [verify] ";" Q PLACE ... [v=N]
    write P PLACE VALUE ... [v=N] [plain] [sequence=N]                end P commit|abort [v=N]
    offsets P GROUP [v=N]             commit P GROUP PLACE=OFFSET ... [v=N] [member=ID,GENERATION]
    marker P PLACE ... commit|abort [v=N] [coordinator=N] [tv=N]
    read PLACE          committed GROUP PLACE ... [stable]            latest PLACE
    describe TXN ...    list [states=A,B] [pattern=X] [duration=MS]   writers PLACE ...
    coordinator KEY ...               (wait until groups and transactional ids of these names have one)

P and Q are producers: a transactional id with the producer id and epoch of the last answer; `P+1`
and `P-1` are the same with another epoch. A PLACE is TOPIC:PARTITION. Producer ids are called id1, id2, ...
in the order in which they appear. Times, throttling and coordinator epochs are left out.
"""

import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from broker_wire import Wire, batch_of, fetch_request, produce_request
from penstock.protocol import messages as m
from penstock.protocol.batch import iter_headers
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import ControlRecordType, control_record_type, decode_batch

ANSWER = "    "
PATIENCE_S = 60.0
PAUSE_S = 0.05
NO_ID = -1
READ_COMMITTED = 1
PRODUCER = re.compile(r"(?P<name>\w+)(?P<shift>[+-]\d+)?")
PLACE = re.compile(r"(?P<topic>[^:]*):(?P<partition>\d+)(?:=(?P<offset>-?\d+))?")
NOT_YET = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


@dataclass
class Producer:
    transactional_id: str
    producer_id: int = NO_ID
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.sequences = {}
        self.producer_id, self.epoch = producer_id, epoch


def converse(bootstrap_servers: str, script: str) -> str:
    """Play the commands of a script and return it with the answers of this node."""
    with Wire(bootstrap_servers) as wire:
        player = Player(wire)
        return "".join(f"{line}\n" for line in player.play(script))


class Player:
    """The answers to a script of one node, or of several in sequence on the same data."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._producers: dict[str, Producer] = {}
        self._ids: dict[int, str] = {NO_ID: "-"}

    def move_to(self, wire: Wire) -> None:
        """Continue at another node."""
        self._wire = wire

    def play(self, script: str) -> Iterator[str]:
        for line in script.splitlines():
            if line.startswith(ANSWER):
                continue
            yield line
            if line.strip() and not line.startswith("#"):
                for answer in self._do(line):
                    yield ANSWER + answer

    def _do(self, line: str) -> list[str]:
        verb, *rest = shlex.split(line)
        options = dict(word.split("=", 1) for word in rest if re.fullmatch(r"[a-z]+=.*", word))
        words = [word for word in rest if not re.fullmatch(r"[a-z]+=.*", word)]
        command: Callable[[list[str], dict[str, str]], list[str]] = getattr(self, f"_{verb}")
        return command(words, options)

    def _ask(self, request: Message, kind: type[Message], options: dict[str, str], newest: int) -> Message:
        return self._wire.ask(request, kind, int(options.get("v", newest)))

    def _producer(self, word: str) -> Producer:
        match = PRODUCER.fullmatch(word)
        assert match, word
        producer = self._producers[match["name"]]
        if match["shift"]:
            producer = replace(producer, epoch=producer.epoch + int(match["shift"]))
        return producer

    def _id(self, producer_id: int) -> str:
        return self._ids.setdefault(producer_id, f"id{len(self._ids)}")

    # -- producers -------------------------------------------------------------------------------------

    def _init(self, words: list[str], options: dict[str, str]) -> list[str]:
        name, transactional_id, *flags = words
        known = self._producers.get(name, Producer(transactional_id))
        request = m.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=int(options.get("timeout", "60000")),
            enable2_pc="2pc" in flags,
            keep_prepared_txn="keep" in flags,
        )
        if "known" in flags:
            request.producer_id, request.producer_epoch = known.producer_id, known.epoch
        request.producer_id = int(options.get("id", request.producer_id))
        request.producer_epoch = int(options.get("epoch", request.producer_epoch))
        response = self._ask(request, m.InitProducerIdResponse, options, 5)
        if response.error_code == ErrorCode.NONE:
            producer = self._producers.setdefault(name, Producer(transactional_id))
            producer.transactional_id = transactional_id
            producer.become(response.producer_id, response.producer_epoch)
        return [self._told(response)]

    def _told(self, response: Message) -> str:
        who = f" {self._id(response.producer_id)} epoch {response.producer_epoch}"
        return ErrorCode(response.error_code).name + (who if response.producer_id != NO_ID else "")

    def _copy(self, words: list[str], options: dict[str, str]) -> list[str]:
        copied = self._producer(words[1])
        self._producers[words[0]] = replace(copied, sequences=dict(copied.sequences))
        return []

    def _add(self, words: list[str], options: dict[str, str]) -> list[str]:
        producer = self._producer(words[0])
        topic_class = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                topic_class(name=topic, partitions=parts) for topic, parts in by_topic(words[1:]).items()
            ],
        )
        response = self._ask(request, m.AddPartitionsToTxnResponse, options, 3)
        return [added(response.results_by_topic_v3_and_below)]

    def _broker(self, words: list[str], options: dict[str, str]) -> list[str]:
        """Send a request with several transactions."""
        transactions = []
        for part in " ".join(words).split(";"):
            name, *places = part.split()
            producer = self._producer(name)
            verify = "verify" in places
            topic_class = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
            transactions.append(
                m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=producer.transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    verify_only=verify,
                    topics=[
                        topic_class(name=topic, partitions=parts)
                        for topic, parts in by_topic([p for p in places if p != "verify"]).items()
                    ],
                )
            )
        request = m.AddPartitionsToTxnRequest(transactions=transactions)
        response = self._ask(request, m.AddPartitionsToTxnResponse, options, 5)
        return sorted(
            f"{result.transactional_id}: {added(result.topic_results)}"
            for result in response.results_by_transaction
        )

    def _write(self, words: list[str], options: dict[str, str]) -> list[str]:
        name, place, *values = words
        is_plain = "plain" in values
        producer = self._producer(name)
        topic, partition = place_of(place)
        sequence = int(options.get("sequence", producer.sequences.get((topic, partition), 0)))
        encoded = [value.encode() for value in values if value != "plain"]
        batch = batch_of(
            *encoded, producer=(producer.producer_id, producer.epoch, sequence), transactional=not is_plain
        )
        request = produce_request(topic, batch, partition)
        request.transactional_id = producer.transactional_id
        response = self._ask(request, m.ProduceResponse, options, 12)
        written = response.responses[0].partition_responses[0]
        error = ErrorCode(written.error_code)
        if error is ErrorCode.NONE:
            producer.sequences[topic, partition] = sequence + len(encoded)
        return [f"{error.name} at {written.base_offset}" if error is ErrorCode.NONE else error.name]

    def _offsets(self, words: list[str], options: dict[str, str]) -> list[str]:
        producer = self._producer(words[0])
        request = m.AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=words[1],
        )
        return [ErrorCode(self._ask(request, m.AddOffsetsToTxnResponse, options, 4).error_code).name]

    def _commit(self, words: list[str], options: dict[str, str]) -> list[str]:
        producer = self._producer(words[0])
        member_id, generation = options.get("member", ",-1").split(",")
        topics: dict[str, m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = {}
        for word in words[2:]:
            match = PLACE.fullmatch(word)
            assert match, word
            topic = topics.setdefault(
                match["topic"],
                m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=match["topic"], partitions=[]),
            )
            topic.partitions.append(
                m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    partition_index=int(match["partition"]), committed_offset=int(match["offset"])
                )
            )
        request = m.TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id=words[1],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            member_id=member_id,
            generation_id=int(generation),
            topics=list(topics.values()),
        )
        response = self._ask(request, m.TxnOffsetCommitResponse, options, 5)
        return [
            ", ".join(
                f"{topic.name}:{p.partition_index} {ErrorCode(p.error_code).name}"
                for topic in sorted(response.topics, key=lambda topic: topic.name)
                for p in sorted(topic.partitions, key=lambda p: p.partition_index)
            )
        ]

    def _end(self, words: list[str], options: dict[str, str]) -> list[str]:
        producer = self._producer(words[0])
        request = m.EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=words[1] == "commit",
        )
        response = self._ask(request, m.EndTxnResponse, options, 5)
        if response.error_code == ErrorCode.NONE and response.producer_id != NO_ID:
            self._producers[PRODUCER.fullmatch(words[0])["name"]].become(
                response.producer_id, response.producer_epoch
            )
        return [self._told(response)]

    # -- markers ---------------------------------------------------------------------------------------

    def _marker(self, words: list[str], options: dict[str, str]) -> list[str]:
        producer = self._producer(words[0])
        topic_class = m.WriteTxnMarkersRequest.WritableTxnMarkerTopic
        marker = m.WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=words[-1] == "commit",
            coordinator_epoch=int(options.get("coordinator", "1000")),
            transaction_version=int(options.get("tv", "0")),
            topics=[
                topic_class(name=topic, partition_indexes=parts)
                for topic, parts in by_topic(words[1:-1]).items()
            ],
        )
        request = m.WriteTxnMarkersRequest(markers=[marker])
        response = self._ask(request, m.WriteTxnMarkersResponse, options, 2)
        return [
            ", ".join(
                sorted(
                    f"{topic.name}:{p.partition_index} {ErrorCode(p.error_code).name}"
                    for result in response.markers
                    for topic in result.topics
                    for p in topic.partitions
                )
            )
        ]

    # -- describe --------------------------------------------------------------------------------------

    def _topic(self, words: list[str], options: dict[str, str]) -> list[str]:
        self._wire.create_topic(words[0], int(options.get("partitions", "1")))
        asked = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=words[0])])
        self._until(lambda: not self._wire.ask(asked, m.MetadataResponse, 12).topics[0].error_code)
        return []

    def _settle(self, words: list[str], options: dict[str, str]) -> list[str]:
        self._until(lambda: not self._described(words[0]).transaction_state.startswith("Prepare"))
        return [self._described(words[0]).transaction_state]

    def _coordinator(self, words: list[str], options: dict[str, str]) -> list[str]:
        for key_type in (0, 1):
            find = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=words)
            self._until(
                lambda find=find: (
                    not any(
                        found.error_code
                        for found in self._wire.ask(find, m.FindCoordinatorResponse).coordinators
                    )
                )
            )
        anyone = m.InitProducerIdRequest(transactional_id=None)  # Kafka has no producer ids at the start
        self._until(lambda: self._wire.ask(anyone, m.InitProducerIdResponse).error_code not in NOT_YET)
        self._until(lambda: all(self._described(word).error_code not in NOT_YET for word in words))
        for word in words:
            self._until(lambda word=word: not self._fetch_offsets(word, {}, stable=False).error_code)
        return []

    def _described(self, transactional_id: str) -> Message:
        request = m.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self._wire.ask(request, m.DescribeTransactionsResponse).transaction_states[0]

    def _describe(self, words: list[str], options: dict[str, str]) -> list[str]:
        shown = []
        for word in words:
            found = self._described(word)
            if found.error_code:
                shown.append(f"{word!r} {ErrorCode(found.error_code).name}")
                continue
            places = sorted(f"{topic.topic}:{p}" for topic in found.topics for p in topic.partitions)
            started = "never begun" if found.transaction_start_time_ms < 0 else "begun"
            shown.append(
                f"{word!r} {found.transaction_state} {self._id(found.producer_id)}"
                f" epoch {found.producer_epoch} timeout {found.transaction_timeout_ms} {started} {places}"
            )
        return shown

    def _list(self, words: list[str], options: dict[str, str]) -> list[str]:
        request = m.ListTransactionsRequest(
            state_filters=[state for state in options.get("states", "").split(",") if state],
            transactional_id_pattern=options.get("pattern"),
            duration_filter=int(options.get("duration", "-1")),
        )
        response = self._ask(request, m.ListTransactionsResponse, options, 2)
        if response.error_code:
            return [ErrorCode(response.error_code).name]
        unknown = [f"unknown states {sorted(response.unknown_state_filters)}"]
        return (unknown if response.unknown_state_filters else []) + sorted(
            f"{found.transactional_id} {found.transaction_state} {self._id(found.producer_id)}"
            for found in response.transaction_states
        )

    def _writers(self, words: list[str], options: dict[str, str]) -> list[str]:
        topics = [
            m.DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=parts)
            for topic, parts in by_topic(words).items()
        ]
        response = self._wire.ask(m.DescribeProducersRequest(topics=topics), m.DescribeProducersResponse)
        shown = []
        for topic in response.topics:
            for partition in topic.partitions:
                where = f"{topic.name}:{partition.partition_index}"
                if partition.error_code:
                    shown.append(f"{where} {ErrorCode(partition.error_code).name} {partition.error_message}")
                shown += [
                    f"{where} {self._id(found.producer_id)} epoch {found.producer_epoch}"
                    f" sequence {found.last_sequence} open since {found.current_txn_start_offset}"
                    + (" has ended" if found.coordinator_epoch >= 0 else "")
                    for found in sorted(partition.active_producers, key=lambda p: p.producer_id)
                ]
        return shown

    def _read(self, words: list[str], options: dict[str, str]) -> list[str]:
        """The contents of a `read_committed` fetch: records, markers and aborted transactions."""
        topic, partition = place_of(words[0])
        request = fetch_request(topic, {partition: 0}, isolation_level=READ_COMMITTED)
        data = self._wire.ask(request, m.FetchResponse, 12).responses[0].partitions[0]
        batches = bytes(data.records or b"")
        shown = []
        for position, header in iter_headers(batches):
            who = (
                f"{self._id(header.producer_id)}/{header.producer_epoch}" if header.producer_id >= 0 else "-"
            )
            for record in decode_batch(batches, position):
                if header.is_control:
                    committed = control_record_type(record.key) is ControlRecordType.COMMIT
                    shown.append(f"{record.offset} {'COMMIT' if committed else 'ABORT'} {who}")
                else:
                    kind = " in a transaction" if header.is_transactional else ""
                    shown.append(f"{record.offset} {(record.value or b'').decode()} {who}{kind}")
        aborted = sorted(
            (found.first_offset, self._id(found.producer_id)) for found in data.aborted_transactions
        )
        shown += [f"aborted {who} since {offset}" for offset, who in aborted]
        return [
            *shown,
            f"{ErrorCode(data.error_code).name} high watermark {data.high_watermark}"
            f" last stable {data.last_stable_offset}",
        ]

    def _latest(self, words: list[str], options: dict[str, str]) -> list[str]:
        topic, partition = place_of(words[0])
        shown = []
        for level in (0, READ_COMMITTED):
            wanted = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=-1)
            request = m.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=level,
                topics=[m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])],
            )
            found = self._wire.ask(request, m.ListOffsetsResponse, 7).topics[0].partitions[0]
            shown.append(f"{ErrorCode(found.error_code).name} {found.offset}")
        return [f"uncommitted {shown[0]}, committed {shown[1]}"]

    def _fetch_offsets(self, group_id: str, topics: dict[str, list[int]], *, stable: bool) -> Message:
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group_id,
            topics=[
                m.OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=parts)
                for topic, parts in topics.items()
            ],
        )
        request = m.OffsetFetchRequest(groups=[group], require_stable=stable)
        return self._wire.ask(request, m.OffsetFetchResponse, 8).groups[0]

    def _committed(self, words: list[str], options: dict[str, str]) -> list[str]:
        stable = "stable" in words
        places = by_topic([word for word in words[1:] if word != "stable"])
        group = self._fetch_offsets(words[0], places, stable=stable)
        return [
            ", ".join(
                f"{topic.name}:{p.partition_index}={p.committed_offset}"
                + (f" {ErrorCode(p.error_code).name}" if p.error_code else "")
                for topic in group.topics
                for p in topic.partitions
            )
        ]

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, "the node does not come round to it"
            time.sleep(PAUSE_S)


def place_of(word: str) -> tuple[str, int]:
    match = PLACE.fullmatch(word)
    assert match, word
    return match["topic"], int(match["partition"])


def by_topic(words: list[str]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in map(place_of, words):
        topics.setdefault(topic, []).append(partition)
    return topics


def added(results: list[m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]) -> str:
    return ", ".join(
        sorted(
            f"{topic.name}:{p.partition_index} {ErrorCode(p.partition_error_code).name}"
            for topic in results
            for p in topic.results_by_partition
        )
    )
