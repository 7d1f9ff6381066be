"""Rules for producers: batches in and out of sequence, transactions of both versions, zombies."""

from collections import deque

from broker_model import Batch, Partition, State
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from machine_base import INDEX, TIMEOUT_MS, MachineBase, Producer
from node_client import END_TXN_VERSION, LATEST, PRODUCE_VERSION

from penstock.protocol.errors import ErrorCode


class ProducerRules(MachineBase):
    """Rules for producers of every kind."""

    # -- producing -----------------------------------------------------------------------------------
    def start_producer(self, producer: Producer, *, timeout_ms: int = 600_000) -> None:
        tid, faults = producer.transactional_id, self.client.faults_met
        error, producer_id, epoch = self.client.init_producer_id(tid, timeout_ms=timeout_ms)
        assert error == ErrorCode.NONE, error.name
        if tid is not None:
            aborted: list[Partition] = []
            if (known := self.model.transactions.get(tid)) is not None:
                before = (known.producer_id, known.epoch)
                assert producer_id != before[0] or epoch > before[1], "a new producer fences the old one"
                if known.state is State.ONGOING:
                    aborted = [
                        partition for partition in known.partitions if partition in self.model.partitions
                    ]
            self.model.init_producer(tid, producer_id, epoch)
            self.find_repeated_markers(aborted, faults)
        producer.begin_epoch(producer_id, epoch)
        producer.sent.clear()

    def find_repeated_markers(self, partitions: list[Partition], faults: int) -> None:
        """Repeat markers in the model if a coordinator that died before it recorded them wrote them again."""
        if self.client.faults_met > faults:
            for partition in partitions:
                log = self.model.partitions[partition]
                if self.client.offset(partition, LATEST) == log.end + 1:
                    log.repeat_marker()

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
            log.append(batch)  # without idempotence, both attempts were written
        assert log.append(batch) == base_offset

    @rule(who=INDEX, at=INDEX, other=INDEX, count=st.integers(1, 3), key=INDEX)
    def produce(self, who: int, at: int, other: int, count: int, key: int) -> None:
        """Send the next batch in sequence, to one partition or two at once.

        Producers of version 1 add the partitions to their transaction first, or forget to.
        """
        producer = self.producers[who % len(self.producers)]
        if producer.version == 1 and key % 4:
            self.add_to_transaction(producer, list({self.partition(at): 0, self.partition(other): 0}))
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
        """Send several batches without waiting in between: each is written once, in order."""
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
        """Send an acknowledged batch again, as a producer does that lost the acknowledgement."""
        producer = self.producers[who % len(self.producers)]
        partition = self.partition(at)
        if sent := producer.sent.get(partition):
            self.send(producer, {partition: sent[-1 - back % len(sent)]})

    @rule(who=INDEX, at=INDEX, gap=st.integers(1, 3))
    def produce_out_of_order(self, who: int, at: int, gap: int) -> None:
        """Send a batch after another one that was never sent."""
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
        """Start a new instance of a producer: the old one's open transaction is aborted."""
        self.under_fault(repeatable=False)
        self.start_producer(self.producers[who % len(self.producers)])

    @rule(who=INDEX)
    def bump_epoch(self, who: int) -> None:
        """Bump the epoch, as a producer does to continue after an error (KIP-360).

        A fenced producer is refused, but only after the open transaction was aborted, as in Kafka.
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
        producer, _ = self.transactional(who)
        if producer.version == 1:
            self.under_fault()
            self.add_to_transaction(producer, list({self.partition(at): 0, self.partition(other): 0}))

    def add_to_transaction(self, producer: Producer, partitions: list[Partition]) -> None:
        if (tid := producer.transactional_id) is None:
            return
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
        """Repeat an EndTxn that was answered before.

        It must not affect a later transaction. In version 1 it does, which is why KIP-890 was made.
        """
        producer, tid = self.transactional(who)
        if producer.ended is not None:
            self.end_transaction(producer, tid, *producer.ended)

    def end_transaction(
        self, producer: Producer, tid: str, producer_id: int, epoch: int, commit: bool
    ) -> None:
        transaction, faults = self.model.transactions[tid], self.client.faults_met
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
            decided = [
                partition for partition in transaction.partitions if partition in self.model.partitions
            ]
            self.model.end_transaction(tid, commit=commit, epoch=marker_epoch)
            self.client.await_completion(tid)
            self.find_repeated_markers(decided, faults)
            for partition in decided:
                self.check_committed(partition)
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
        """Leave a transaction open until its coordinator aborts it and fences its producer."""
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
