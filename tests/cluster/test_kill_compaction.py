"""A node killed repeatedly during compaction: consumers always read the written table."""

import random
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Cluster
from to_the_end import TO_THE_END

SEED = 20
ROUNDS = 4
RECORDS = 20_000
KEYS = 500
CONFIG = {"log.cleaner.backoff.ms": "20"}
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
}

Table = dict[bytes, bytes]


def produce(bootstrap: str, rng: random.Random, table: Table, records: int = RECORDS) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(records):
        key, value = b"key %d" % rng.randrange(KEYS), b"%d" % number * 5
        if rng.random() < 0.05:
            producer.produce("table", key=key, value=None)
            table.pop(key, None)
        else:
            producer.produce("table", key=key, value=value)
            table[key] = value
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0


def read(bootstrap: str) -> tuple[Table, int]:
    """The final table of a consumer that reads from the beginning, and the number of records it read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
        }
        | TO_THE_END
    )
    consumer.assign([TopicPartition("table", 0, 0)])
    table: Table = {}
    count = 0
    while (message := consumer.poll(10)) is not None and message.error() is None:
        count += 1
        key, value = message.key(), message.value()
        assert key is not None
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    assert message is not None
    consumer.close()
    return table, count


def test_the_table_survives_kills_in_the_middle_of_compaction() -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    table: Table = {}
    with Cluster(CONFIG) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("table", 1, 1, config=TOPIC_CONFIG)])["table"].result(60)
        for _ in range(ROUNDS):
            produce(cluster.bootstrap_servers, rng, table)
            time.sleep(rng.random() / 2)
            cluster.kill()
            cluster.start()
            assert read(cluster.bootstrap_servers)[0] == table
        time.sleep(0.2)
        produce(cluster.bootstrap_servers, rng, table, records=1)  # starts a new segment
        deadline = time.monotonic() + 60
        while (found := read(cluster.bootstrap_servers))[1] > 2 * KEYS:
            assert time.monotonic() < deadline, "it is not compacted"
            time.sleep(0.1)
        assert found[0] == table
        left = [p.name for p in cluster.data_dir.rglob("*.cleaned")]
        assert len(left) <= 4, "those of the clean under way"
