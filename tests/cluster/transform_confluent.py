"""Consume, transform, produce with confluent-kafka, until killed: BOOTSTRAP NAME SOURCE SINK GROUP.

NAME is the transactional id. The process exits if its producer cannot continue, and is then replaced.
"""

import faulthandler
import random
import signal
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

RECORDS_MAX = 50
ABORTED_BY_CHOICE = 0.1
TIMEOUT_S = 30


def main(bootstrap: str, name: str, source: str, sink: str, group: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 10_000,
            # By default librdkafka 2.16 drops its brokers when all are down, but not the handle by which it
            # has cached the group coordinator. Sending offsets to the transaction then waits forever.
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.max.ms": 200,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 2_000,
            "heartbeat.interval.ms": 300,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    consumer.subscribe([source])
    while True:
        # From before the poll: if the group rebalances in it, the offsets and the records are rejected.
        member = consumer.consumer_group_metadata()
        messages = [m for m in consumer.consume(RECORDS_MAX, timeout=0.2) if m.error() is None]
        if messages:
            try:
                transform(producer, messages, sink, member)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(TIMEOUT_S)
                rewind(consumer)
            except InterruptedError:
                producer.abort_transaction(TIMEOUT_S)
                rewind(consumer)


def transform(producer: Producer, messages: list[Message], sink: str, member: object) -> None:
    """Run one transaction. Raises KafkaException, or InterruptedError for an intentional abort."""
    producer.begin_transaction()
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        producer.produce(sink, message.value(), key=message.key())
        ends[message.topic(), message.partition()] = message.offset() + 1
    if random.random() < ABORTED_BY_CHOICE:
        producer.flush(TIMEOUT_S)
        raise InterruptedError
    offsets = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
    # librdkafka 2.16 drops a broker that is down and missing in metadata, but may still have it as the
    # group's coordinator: then this call waits forever for a connection that is never opened, its own timeout
    # notwithstanding.
    faulthandler.dump_traceback_later(TIMEOUT_S + 5, exit=True)
    try:
        producer.send_offsets_to_transaction(offsets, member, TIMEOUT_S)
    finally:
        faulthandler.cancel_dump_traceback_later()
    while True:
        try:
            producer.commit_transaction(TIMEOUT_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def rewind(consumer: Consumer) -> None:
    """Seek to the committed offsets."""
    for partition in consumer.committed(consumer.assignment(), timeout=TIMEOUT_S):
        if partition.offset < 0:
            partition.offset = OFFSET_BEGINNING
        consumer.seek(partition)


if __name__ == "__main__":
    faulthandler.register(signal.SIGQUIT)
    main(*sys.argv[1:])
