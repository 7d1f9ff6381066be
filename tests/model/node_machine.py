"""The state machine: clients of every kind against one node, each answer judged by `broker_model`.

One client at a time, so that every offset can be predicted; what concurrency does to histories is the
checker's to judge (`history_checker`). A fault strikes between a request and its response: the node is killed
or the connection cut, and the client repeats the request as real ones do.
"""

import itertools
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from broker_model import (
    FENCED,
    OK,
    OLD_EPOCH,
    Batch,
    BrokerModel,
    Errors,
    GroupModel,
    Partition,
    PartitionModel,
    Read,
    State,
)
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from model_reader import read
from node_client import (
    EARLIEST,
    END_TXN_VERSION,
    LATEST,
    PRODUCE_VERSION,
    TXN_OFFSET_COMMIT_VERSION,
    NodeClient,
)

from broker_wire import Wire, fetch_request
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchResponse

GROUPS = 2
KEYS = 4
INDEX = st.integers(0, 59)  # chooses among few things, by remainder
TIMEOUT_MS = 200
REST_S = 1.2  # nodes look every second for logs to clean
WAIT_MS = 60_000  # longer than an example takes: who is answered was woken
READ_BYTES = st.sampled_from([1, 300, 1 << 20])
# One segment; a segment a batch, or nearly; an index entry a batch, and few segments.
LAYOUTS: list[dict[str, str]] = [{}, {"segment.ms": "1"}, {"segment.ms": "20", "index.interval.bytes": "1"}]
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}


class Node(Protocol):
    """What the machine needs of a node in a process of its own."""

    @property
    def bootstrap_servers(self) -> str: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def start(self) -> object: ...


@dataclass(eq=False)
class Producer:
    """What one producer believes. Two share a transactional id: whoever came last fences the other."""

    transactional_id: str | None
    version: int = 2  # of transactions
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[Partition, int] = field(default_factory=dict)
    sent: dict[Partition, deque[Batch]] = field(default_factory=dict)
    ended: tuple[int, int, bool] | None = None  # producer id, epoch, commit of its last EndTxn

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.epoch

    def begin_epoch(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences.clear()


@dataclass(eq=False)
class Waiting:
    """A fetch that was not answered yet."""

    wire: Wire
    partition: Partition
    offset: int
    committed: bool


class NodeMachine(RuleBasedStateMachine):
    """Subclasses name the node and a client to it, which all examples share; each has topics of its own."""

    node: ClassVar[Node]
    client: ClassVar[NodeClient]
    faults_max: ClassVar[int] = 2
    steps: ClassVar[int] = 0
    restarts: ClassVar[int] = 0
    _numbers: ClassVar[Iterator[int]] = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.model = BrokerModel()
        self.name = f"m{next(self._numbers)}"
        self.values = itertools.count()
        self.faults_left = 0
        self.rests_left = 0
        self.deletions_left = 2
        self.next_fault: str | None = None
        self.random = random.Random(0)
        self.topics: dict[str, int] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.waiting: list[Waiting] = []
        self.producers = [
            Producer(None),
            Producer(None),
            Producer(f"{self.name}-x"),
            Producer(f"{self.name}-x"),
            Producer(f"{self.name}-y"),
        ]
        for number in range(GROUPS):
            self.model.groups[f"{self.name}-g{number}"] = GroupModel()

    @initialize(
        faults=st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2]),
        seed=st.integers(0, 1 << 16),
        versions=st.tuples(*[st.sampled_from([2, 1])] * 3),
        compacted=st.booleans(),
        layout=st.sampled_from(LAYOUTS),
        rests=st.sampled_from([False, False, True]),
    )
    def begin(
        self,
        faults: int,
        seed: int,
        versions: tuple[int, ...],
        compacted: bool,
        layout: dict[str, str],
        rests: bool,
    ) -> None:
        self.faults_left = min(faults, self.faults_max)
        self.random.seed(seed)
        for producer, version in zip(self.producers[2:], versions, strict=True):
            producer.version = version
        self.configs = {f"{self.name}-a": layout, f"{self.name}-b": COMPACTED if compacted else layout}
        self.make_topic(f"{self.name}-a", 2)
        self.make_topic(f"{self.name}-b", 1)
        self.rests_left = int(compacted and rests)
        for producer in self.producers:
            self.start_producer(producer)

    def make_topic(self, name: str, partitions: int) -> None:
        compacted = self.configs[name] is COMPACTED
        self.client.create_topic(name, partitions, self.configs[name])
        self.topics[name] = partitions
        for index in range(partitions):
            self.model.partitions[name, index] = PartitionModel(compacted=compacted)

    def teardown(self) -> None:
        self.client.fault = None
        self.send_away()
        try:
            if self.topics and sys.exc_info()[0] is None:
                if self.may_rest():
                    self.let_the_cleaner_work()
                self.check_everything()
        finally:
            for topic in self.topics:
                self.client.delete_topic(topic)

    # -- choosing ------------------------------------------------------------------------------------

    def partition(self, index: int) -> Partition:
        type(self).steps += 1
        partitions = list(self.model.partitions)
        return partitions[index % len(partitions)]

    def transactional(self, index: int) -> tuple[Producer, str]:
        producer = self.producers[2 + index % 3]
        assert producer.transactional_id is not None
        return producer, producer.transactional_id

    def group(self, index: int) -> str:
        return f"{self.name}-g{index % GROUPS}"

    def records(self, partition: Partition, count: int, key: int) -> list[tuple[bytes | None, bytes | None]]:
        """New values; on compacted topics with keys, and tombstones among them."""
        numbers = list(itertools.islice(self.values, count))
        if not self.model.partitions[partition].compacted:
            return [(None, b"%d" % number) for number in numbers]
        return [
            (b"k%d" % ((key + number) % KEYS), b"%d" % number if number % 6 else None) for number in numbers
        ]

    # -- faults --------------------------------------------------------------------------------------

    @precondition(lambda self: self.faults_left > 0 and self.next_fault is None)
    @rule(kind=st.sampled_from(["kill", "kill", "cut"]))
    def plan_fault(self, kind: str) -> None:
        self.faults_left -= 1
        self.next_fault = kind

    def under_fault(self, *, repeatable: bool = True) -> None:
        """The request that comes next may meet the fault that was planned.

        A cut leaves the first request on its way while the second is sent: for those that are not proof
        against that, it waits for another.
        """
        if self.next_fault == "kill":
            self.client.fault = self.kill
        elif self.next_fault == "cut" and repeatable:
            self.client.fault = lambda: None
        else:
            return
        self.next_fault = None

    def kill(self) -> None:
        time.sleep(self.random.choice([0.0, 0.0002, 0.001, 0.003]))
        self.node.kill()
        self.client.close()
        self.restarted()

    def restarted(self) -> None:
        self.send_away()
        self.node.start()
        type(self).restarts += 1
        self.model.node_restarted()
        for transactional_id in self.model.transactions:
            self.client.await_completion(transactional_id)

    @precondition(lambda self: self.faults_left > 0)
    @rule(killed=st.booleans())
    def restart(self, killed: bool) -> None:
        self.faults_left -= 1
        self.client.close()
        if killed:
            self.node.kill()
        else:
            self.node.stop()
        self.restarted()
        self.check_everything()

    # -- producing -----------------------------------------------------------------------------------

    def expect(self, error: ErrorCode, expected: Errors) -> bool:
        """Whether the request was accepted."""
        assert error in expected, f"{error.name}, expected {sorted(code.name for code in expected)}"
        return error == ErrorCode.NONE

    def start_producer(self, producer: Producer, *, timeout_ms: int = 600_000) -> None:
        tid = producer.transactional_id
        error, producer_id, epoch = self.client.init_producer_id(tid, timeout_ms=timeout_ms)
        assert error == ErrorCode.NONE, error.name
        if tid is not None:
            if (known := self.model.transactions.get(tid)) is not None:
                before = (known.producer_id, known.epoch)
                assert producer_id != before[0] or epoch > before[1], "a new producer fences the old one"
            self.model.init_producer(tid, producer_id, epoch)
        producer.begin_epoch(producer_id, epoch)
        producer.sent.clear()

    @rule(at=INDEX, count=st.integers(1, 4), key=INDEX, codec=st.integers(0, 4))
    def produce_plain(self, at: int, count: int, key: int, codec: int) -> None:
        partition = self.partition(at)
        log = self.model.partitions[partition]
        batch = Batch(self.records(partition, count, key), codec=codec)
        self.under_fault(repeatable=False)
        faults = self.client.faults_met
        error, base_offset = self.client.produce({partition: batch.encode()}, None, 12)[partition]
        assert error == ErrorCode.NONE, error.name
        if self.client.faults_met > faults and base_offset == log.end + count:
            log.append(batch)  # both attempts were written: nothing tells a plain producer's apart
        assert log.append(batch) == base_offset

    @rule(who=INDEX, at=INDEX, other=INDEX, count=st.integers(1, 3), key=INDEX)
    def produce(self, who: int, at: int, other: int, count: int, key: int) -> None:
        """The next batch in sequence, on one partition or two at once."""
        producer = self.producers[who % len(self.producers)]
        batches = {
            partition: self.next_batch(producer, partition, count, key)
            for partition in {self.partition(at): 0, self.partition(other): 0}
        }
        self.under_fault()
        self.send(producer, batches)

    def next_batch(self, producer: Producer, partition: Partition, count: int, key: int) -> Batch:
        return Batch(
            self.records(partition, count, key),
            producer.producer_id,
            producer.epoch,
            producer.sequences.get(partition, 0),
            producer.transactional_id is not None,
        )

    @rule(who=INDEX, at=INDEX, counts=st.lists(st.integers(1, 3), min_size=2, max_size=5), key=INDEX)
    def produce_in_flight(self, who: int, at: int, counts: list[int], key: int) -> None:
        """Several batches on their way at once: none overtakes another, none comes twice."""
        producer = self.producers[who % len(self.producers)]
        partition = self.partition(at)
        batches: list[Batch] = []
        for count in counts:
            batch = self.next_batch(producer, partition, count, key)
            batch.base_sequence = batches[-1].last_sequence + 1 if batches else batch.base_sequence
            batches.append(batch)
        self.under_fault()
        answers = self.client.produce_in_flight(
            partition,
            [batch.encode() for batch in batches],
            producer.transactional_id,
            PRODUCE_VERSION[producer.version],
        )
        for batch, answer in zip(batches, answers, strict=True):
            self.check_produced(producer, partition, batch, answer)

    def send(self, producer: Producer, batches: dict[Partition, Batch]) -> None:
        answers = self.client.produce(
            {partition: batch.encode() for partition, batch in batches.items()},
            producer.transactional_id,
            PRODUCE_VERSION[producer.version],
        )
        for partition, batch in batches.items():
            self.check_produced(producer, partition, batch, answers[partition])

    def check_produced(
        self, producer: Producer, partition: Partition, batch: Batch, answer: tuple[ErrorCode, int]
    ) -> None:
        errors, duplicate = self.model.check_produce(
            partition, batch, producer.transactional_id, is_version_2=producer.version == 2
        )
        error, base_offset = answer
        if not self.expect(error, errors):
            return
        if duplicate is not None:
            assert base_offset == duplicate, f"{partition}: a duplicate was taken for new"
            return
        assert base_offset == self.model.partitions[partition].append(batch), partition
        producer.sequences[partition] = batch.last_sequence + 1
        producer.sent.setdefault(partition, deque(maxlen=7)).append(batch)

    @rule(who=INDEX, at=INDEX, back=st.integers(0, 6))
    def produce_again(self, who: int, at: int, back: int) -> None:
        """A batch that was acknowledged before, as when the acknowledgement got lost."""
        producer = self.producers[who % len(self.producers)]
        partition = self.partition(at)
        if sent := producer.sent.get(partition):
            self.send(producer, {partition: sent[-1 - back % len(sent)]})

    @rule(who=INDEX, at=INDEX, gap=st.integers(1, 3))
    def produce_out_of_order(self, who: int, at: int, gap: int) -> None:
        """A batch after one that never came."""
        producer = self.producers[who % len(self.producers)]
        partition = self.partition(at)
        known = self.model.partitions[partition].producers.get(producer.producer_id)
        if known is not None and known.epoch == producer.epoch and known.batches:
            batch = self.next_batch(producer, partition, 1, 0)
            batch.base_sequence += gap
            self.send(producer, {partition: batch})

    # -- transactions --------------------------------------------------------------------------------

    @rule(who=INDEX)
    def start_again(self, who: int) -> None:
        """A new instance of a producer: what the old one had under way is aborted."""
        self.under_fault(repeatable=False)
        self.start_producer(self.producers[who % len(self.producers)])

    @rule(who=INDEX)
    def bump_epoch(self, who: int) -> None:
        """A producer that goes on after an error (KIP-360).

        One that is fenced is refused, but only after what it found under way was aborted, as in Kafka.
        """
        producer, tid = self.transactional(who)
        transaction = self.model.transactions[tid]
        errors = self.model.bump_epoch(tid, producer.producer_id, producer.epoch)
        error, producer_id, epoch = self.client.init_producer_id(tid, producer.producer_id, producer.epoch)
        if self.expect(error, errors):
            transaction.last_epoch, transaction.epoch = producer.epoch, epoch
            producer.begin_epoch(producer_id, epoch)

    @rule(who=INDEX, at=INDEX, other=INDEX)
    def add_partitions(self, who: int, at: int, other: int) -> None:
        """As clients of version 1 do before they produce."""
        producer, tid = self.transactional(who)
        if producer.version != 1:
            return
        partitions = list({self.partition(at): 0, self.partition(other): 0})
        self.under_fault()
        answers = self.client.add_partitions(tid, producer.producer_id, producer.epoch, partitions)
        assert set(answers) == set(partitions)
        for partition in partitions:
            errors = self.model.add_partition(tid, producer.producer_id, producer.epoch, partition)
            self.expect(answers[partition], errors)

    @rule(who=INDEX, commit=st.booleans())
    def end(self, who: int, commit: bool) -> None:
        producer, tid = self.transactional(who)
        producer.ended = (producer.producer_id, producer.epoch, commit)
        self.under_fault(repeatable=producer.version == 2)
        self.end_transaction(producer, tid, *producer.ended)

    @rule(who=INDEX)
    def end_again(self, who: int) -> None:
        """The EndTxn that was answered before comes once more: never may it touch a later transaction.

        Under version 1 it does (that is why KIP-890 came about), so there it stays away from an open one.
        """
        producer, tid = self.transactional(who)
        if producer.ended is not None:
            self.end_transaction(producer, tid, *producer.ended)

    def end_transaction(
        self, producer: Producer, tid: str, producer_id: int, epoch: int, commit: bool
    ) -> None:
        transaction = self.model.transactions[tid]
        if producer.version == 2:
            errors, ends = transaction.end_in_version_2(producer_id, epoch, commit=commit)
        else:
            errors, ends = transaction.end_in_version_1(producer_id, epoch, commit=commit)
        error, new_id, new_epoch = self.client.end_transaction(
            tid, producer_id, epoch, commit=commit, version=END_TXN_VERSION[producer.version]
        )
        if not self.expect(error, errors):
            return
        if ends:
            marker_epoch = epoch + 1 if producer.version == 2 else epoch
            self.model.end_transaction(tid, commit=commit, epoch=marker_epoch)
            self.client.await_completion(tid)
        if producer.version == 2:
            if ends:
                assert (new_id, new_epoch) == (producer_id, epoch + 1)
                transaction.last_epoch, transaction.epoch = epoch, new_epoch
            else:
                assert (new_id, new_epoch) == (transaction.producer_id, transaction.epoch)
            if (producer.producer_id, producer.epoch) != (new_id, new_epoch):
                producer.begin_epoch(new_id, new_epoch)

    @precondition(lambda self: self.faults_left > 0)
    @rule(at=INDEX, version=st.sampled_from([2, 1]))
    def abandon(self, at: int, version: int) -> None:
        """A transaction that nobody ends is aborted by its coordinator, and its producer fenced."""
        self.faults_left -= 1
        partition = self.partition(at)
        tid = f"{self.name}-z"
        producer = Producer(tid, version)
        self.start_producer(producer, timeout_ms=TIMEOUT_MS)
        if version == 1:
            added = self.client.add_partitions(tid, producer.producer_id, producer.epoch, [partition])
            self.expect(added[partition], self.model.add_partition(tid, *producer.identity, partition))
        self.send(producer, {partition: self.next_batch(producer, partition, 2, 0)})
        assert self.model.transactions[tid].state is State.ONGOING
        self.client.await_abort(tid)
        self.model.fence(tid)
        self.send(producer, {partition: self.next_batch(producer, partition, 1, 0)})

    @rule(who=INDEX)
    def describe_transaction(self, who: int) -> None:
        _, tid = self.transactional(who)
        transaction = self.model.transactions[tid]
        found = self.client.transaction_state(tid)
        assert found.transaction_state == transaction.state.value
        assert (found.producer_id, found.producer_epoch) == (transaction.producer_id, transaction.epoch)
        partitions = {(topic.topic, index) for topic in found.topics for index in topic.partitions}
        offsets = {partition for partition in partitions if partition[0] == "__consumer_offsets"}
        expected = transaction.partitions if transaction.state is State.ONGOING else set()
        assert partitions - offsets == expected
        assert bool(offsets) == bool(transaction.groups and transaction.state is State.ONGOING)

    # -- offsets of groups ---------------------------------------------------------------------------

    @rule(group=INDEX, at=INDEX, offset=st.integers(0, 100), as_whom=INDEX)
    def commit_offset(self, group: int, at: int, offset: int, as_whom: int) -> None:
        name, partition = self.group(group), self.partition(at)
        member = self.model.groups[name].identity(as_whom)
        self.under_fault()
        error = self.client.commit_offset(name, partition, offset, member)
        if self.expect(error, self.model.groups[name].check_member(member, transactional=False)):
            self.model.groups[name].committed[partition] = (self.model.next_position(), offset)

    @rule(who=INDEX, group=INDEX, at=INDEX, offset=st.integers(0, 100), as_whom=INDEX)
    def commit_offset_in_transaction(self, who: int, group: int, at: int, offset: int, as_whom: int) -> None:
        producer, tid = self.transactional(who)
        name, partition = self.group(group), self.partition(at)
        identity = (producer.producer_id, producer.epoch)
        if producer.version == 1:
            added = self.client.add_offsets(tid, *identity, name)
            if not self.expect(added, self.model.add_group(tid, *identity, name)):
                return
            errors = OK
        else:
            errors = self.model.add_group(tid, *identity, name)
            errors = OLD_EPOCH if errors == FENCED else errors
        member = self.model.groups[name].identity(as_whom)
        if errors == OK:
            errors = self.model.groups[name].check_member(member, transactional=True)
        self.under_fault()
        version = TXN_OFFSET_COMMIT_VERSION[producer.version]
        error = self.client.commit_offset_in_transaction(
            name, partition, offset, tid, *identity, version=version, member=member
        )
        if self.expect(error, errors):
            pending = self.model.groups[name].pending.setdefault(producer.producer_id, {})
            pending[partition] = (self.model.next_position(), offset)

    @rule(group=INDEX, rejoin=st.booleans())
    def join(self, group: int, rejoin: bool) -> None:
        """A member of its own: the one before it leaves, and is no member any more."""
        name = self.group(group)
        model = self.model.groups[name]
        if model.member is not None and not rejoin:
            assert self.client.leave_group(name, model.member[0]) == ErrorCode.NONE
            model.member, model.former = None, model.member
        before = model.generation
        member, model.generation = self.client.join_group(name, model.member[0] if model.member else "")
        assert model.generation > before
        model.member = (member, model.generation)

    @rule(group=INDEX)
    def leave(self, group: int) -> None:
        name = self.group(group)
        model = self.model.groups[name]
        if model.member is not None:
            assert self.client.leave_group(name, model.member[0]) == ErrorCode.NONE
            model.member, model.former = None, model.member
            model.generation += 1

    @rule(group=INDEX, at=INDEX, require_stable=st.booleans())
    def fetch_offset(self, group: int, at: int, require_stable: bool) -> None:
        self.check_offset(self.group(group), self.partition(at), require_stable=require_stable)

    def check_offset(self, group: str, partition: Partition, *, require_stable: bool) -> None:
        found = self.client.committed_offset(group, partition, require_stable=require_stable)
        expected = self.model.groups[group].offset(partition, require_stable=require_stable)
        assert found == expected, f"{group} {partition}: {found}, expected {expected}"

    # -- reading -------------------------------------------------------------------------------------

    @rule(at=INDEX, offset=st.integers(0, 1 << 16), committed=st.booleans(), max_bytes=READ_BYTES)
    def read(self, at: int, offset: int, committed: bool, max_bytes: int) -> None:
        partition = self.partition(at)
        self.check_read(partition, offset, committed=committed, max_bytes=max_bytes)

    def check_read(self, partition: Partition, offset: int, *, committed: bool, max_bytes: int) -> None:
        log = self.model.partitions[partition]
        end = log.last_stable_offset if committed else log.end
        offset %= end + 2
        if not log.log_start_offset <= offset <= log.end:
            refused = self.client.fetch(partition, offset, committed=committed)
            assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode(refused.error_code).name
            return
        records, data = read(self.client, partition, offset, committed=committed, max_bytes=max_bytes)
        note(f"{partition} from {offset}: {[(r.offset, r.value) for r in records]}")
        told = (data.log_start_offset, data.high_watermark)
        assert told == (log.log_start_offset, log.end), f"{partition}: {told}"
        assert data.last_stable_offset in log.stable_offsets(), f"{partition}: {data.last_stable_offset}"
        found = [(record.offset, record.key, record.value) for record in records]
        expected = list(log.visible(offset, committed=committed))
        if log.compacted:
            check_compacted(found, expected, list(log.visible(offset, committed=True)))
        else:
            assert found == expected

    def may_rest(self) -> bool:
        return self.rests_left > 0 and self.model.partitions[f"{self.name}-b", 0].end > 4

    @precondition(lambda self: self.may_rest())
    @rule()
    def let_the_cleaner_work(self) -> None:
        """The log is compacted meanwhile: who reads from any offset on misses no key's last value."""
        self.produce_plain(
            list(self.model.partitions).index((f"{self.name}-b", 0)), 1, 0, 0
        )  # rolls a segment
        self.rests_left -= 1
        time.sleep(REST_S)
        for partition, log in self.model.partitions.items():
            for offset in {log.log_start_offset, log.end // 3, log.end // 2}:
                self.check_read(partition, offset, committed=True, max_bytes=300)
                self.check_read(partition, offset, committed=False, max_bytes=1 << 20)

    @rule(at=INDEX, committed=st.booleans())
    def list_offsets(self, at: int, committed: bool) -> None:
        self.check_offsets(self.partition(at), committed=committed)

    def check_offsets(self, partition: Partition, *, committed: bool) -> None:
        log = self.model.partitions[partition]
        earliest, latest = (
            self.client.offset(partition, at, committed=committed) for at in (EARLIEST, LATEST)
        )
        expected = log.stable_offsets() if committed else [log.end]
        assert earliest == log.log_start_offset, f"{partition} starts at {earliest}"
        assert latest in expected, f"{partition} ends at {latest}, not {expected}"

    @precondition(lambda self: len(self.waiting) < 2)
    @rule(at=INDEX, committed=st.booleans())
    def wait_for_more(self, at: int, committed: bool) -> None:
        """A fetch at the end of what its reader may see, left waiting."""
        partition = self.partition(at)
        log = self.model.partitions[partition]
        offset = log.last_stable_offset if committed else log.end
        request = fetch_request(
            partition[0], {partition[1]: offset}, max_wait_ms=WAIT_MS, isolation_level=int(committed)
        )
        wire = Wire(self.node.bootstrap_servers)
        wire.send(request, 12)
        self.waiting.append(Waiting(wire, partition, offset, committed))

    @invariant()
    def those_who_wait_are_served(self) -> None:
        """As soon as there is more, and never with less than a record."""
        for waiting in list(self.waiting):
            log = self.model.partitions[waiting.partition]
            if waiting.offset < (log.last_stable_offset if waiting.committed else log.end):
                self.waiting.remove(waiting)
                data = waiting.wire.receive(FetchResponse).responses[0].partitions[0]
                waiting.wire.socket.close()
                assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
                assert data.records, f"{waiting.partition}: woken at {waiting.offset} for nothing"

    def send_away(self, chosen: Callable[["Waiting"], bool] = lambda _: True) -> None:
        """Forget fetches that wait for what will not be there."""
        for waiting in [waiting for waiting in self.waiting if chosen(waiting)]:
            waiting.wire.socket.close()
            self.waiting.remove(waiting)

    # -- what takes away -----------------------------------------------------------------------------

    @rule(at=INDEX, offset=st.integers(0, 1 << 16))
    def delete_records(self, at: int, offset: int) -> None:
        partition = self.partition(at)
        log = self.model.partitions[partition]
        offset %= log.end + 2
        self.under_fault()
        error, low_watermark = self.client.delete_records(partition, offset)
        if log.compacted:
            assert error == ErrorCode.POLICY_VIOLATION, error.name
        elif offset > log.end:
            assert error == ErrorCode.OFFSET_OUT_OF_RANGE, error.name
        else:
            assert error == ErrorCode.NONE, error.name
            log.log_start_offset = max(log.log_start_offset, offset)
            self.send_away(lambda waiting: waiting.partition == partition)  # they may have been told
            assert low_watermark == log.log_start_offset

    @precondition(lambda self: self.deletions_left > 0)
    @rule()
    def recreate_topic(self) -> None:
        """Deleted and made again: nothing of the old one comes back, and no open transaction hangs on it."""
        self.deletions_left -= 1
        topic = f"{self.name}-a"
        self.send_away(lambda waiting: waiting.partition[0] == topic)
        self.client.delete_topic(topic)
        del self.topics[topic]
        self.make_topic(topic, 2)
        for producer in self.producers:
            for partition in [p for p in producer.sequences if p[0] == topic]:
                del producer.sequences[partition], producer.sent[partition]
        for group in self.model.groups.values():
            for offsets in [group.committed, *group.pending.values()]:
                for partition in [p for p in offsets if p[0] == topic]:
                    del offsets[partition]

    # -- at the end ----------------------------------------------------------------------------------

    def check_everything(self) -> None:
        for partition in self.model.partitions:
            for committed in (False, True):
                self.check_offsets(partition, committed=committed)
                self.check_read(
                    partition,
                    self.model.partitions[partition].log_start_offset,
                    committed=committed,
                    max_bytes=1 << 20,
                )
            for group in self.model.groups:
                self.check_offset(group, partition, require_stable=True)


def check_compacted(found: list[Read], expected: list[Read], committed: list[Read]) -> None:
    """What is there was written there, in order, and no key lacks its last committed value."""
    assert set(found) <= set(expected)
    assert found == sorted(found), "in the order of offsets"
    last = {key: (offset, key, value) for offset, key, value in committed}
    assert {record for record in last.values() if record[2] is not None} <= set(found)
