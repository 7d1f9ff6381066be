"""Successive transactions on three nodes: each must wait for the markers of the previous one.

A commit triggered by a follower's fetch may append at once to other partitions of the same fetch. If that
fetch is not notified, it sleeps for its half second and delays every transaction. Here such a fetch would
sleep for longer than a transaction may take.
"""

from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from several_nodes import penstock_nodes

TRANSACTIONS = 20
COMMIT_WITHIN_S = 50
SLEEPY = {
    "replica.fetch.wait.max.ms": "60000",
    "replica.socket.timeout.ms": "120000",
    "replica.lag.time.max.ms": "300000",
}


def test_the_next_one_begins_at_once(tmp_path: Path) -> None:
    with penstock_nodes(tmp_path, config=SLEEPY) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("out", 6, 3)])["out"].result(30)
        for number in range(2):  # coordinators of both partitions of __transaction_state
            producer = Producer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "transactional.id": f"transformer-{number}",
                    "retry.backoff.ms": 10,
                    "log_level": 0,
                }
            )
            producer.init_transactions(COMMIT_WITHIN_S)
            for _ in range(TRANSACTIONS):
                producer.begin_transaction()
                for partition in range(6):
                    producer.produce("out", b"x", partition=partition)
                producer.commit_transaction(COMMIT_WITHIN_S)
