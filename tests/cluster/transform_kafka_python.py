"""Consume, transform, produce with kafka-python, until killed: BOOTSTRAP NAME SOURCE SINK GROUP.

NAME is the transactional id. The process exits if its producer cannot continue, and is then replaced.
"""

import faulthandler
import random
import signal
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

RECORDS_MAX = 50
LOST_S = 35
ABORTED_BY_CHOICE = 0.1


def main(bootstrap: str, name: str, source: str, sink: str, group: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=name,
        transaction_timeout_ms=10_000,
        reconnect_backoff_max_ms=200,
    )
    # When its broker stops, 3.0.12 may lose a request or spin forever, and these calls take no timeout.
    faulthandler.dump_traceback_later(LOST_S, exit=True)
    producer.init_transactions()
    faulthandler.cancel_dump_traceback_later()
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=2_000,
        heartbeat_interval_ms=300,
        max_poll_records=RECORDS_MAX,
        reconnect_backoff_max_ms=200,
    )
    while True:
        polled = consumer.poll(timeout_ms=200)
        if not polled:
            continue
        faulthandler.dump_traceback_later(LOST_S, exit=True)
        producer.begin_transaction()
        try:
            for records in polled.values():
                for record in records:
                    producer.send(sink, value=record.value, key=record.key)
            if random.random() < ABORTED_BY_CHOICE:
                producer.flush()
                raise InterruptedError
            offsets = {
                partition: OffsetAndMetadata(records[-1].offset + 1, "", -1)
                for partition, records in polled.items()
            }
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit_transaction()
        except (KafkaError, InterruptedError):
            producer.abort_transaction()
            rewind(consumer, consumer.assignment())
        faulthandler.cancel_dump_traceback_later()


def rewind(consumer: KafkaConsumer, partitions: set[TopicPartition]) -> None:
    """Seek to the committed offsets."""
    for partition in partitions:
        consumer.seek(partition, consumer.committed(partition) or 0)


if __name__ == "__main__":
    faulthandler.register(signal.SIGQUIT)
    main(*sys.argv[1:])
