"""Topics that are dropped and created again with another number of partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from engine_server import Server

from penstock.protocol.murmur2 import partition_for_key
from waiting import wait_until

COUNTS = [7, 1, 3]
"""The numbers of partitions of a topic, one incarnation after another."""
KEYS = [f"k{number}" for number in range(9)]
INSERTS = "".join(f"INSERT INTO s VALUES ('{key}', {number});" for number, key in enumerate(KEYS))
ROWS = [(key, number) for number, key in enumerate(KEYS)]


def create(kind: str, partitions: int) -> str:
    key = "PRIMARY KEY" if kind == "TABLE" else "KEY"
    return (
        f"CREATE {kind} s (k STRING {key}, v INT)"
        f" WITH (kafka_topic='s', partitions={partitions}, key_format='KAFKA', value_format='JSON');"
    )


def partitions_of_keys(server: Server) -> Iterator[tuple[str, int]]:
    consumer = Consumer({"bootstrap.servers": server.servers, "group.id": "reader"})
    numbers = consumer.list_topics("s", 10).topics["s"].partitions
    consumer.assign([TopicPartition("s", number, 0) for number in numbers])
    for _ in KEYS:
        message = consumer.poll(10)
        assert message is not None
        yield message.key().decode(), message.partition()
    consumer.close()


def test_rows_of_a_stream_go_to_the_partitions_of_now(server: Server) -> None:
    for partitions in COUNTS:
        server.run(create("STREAM", partitions) + INSERTS)
        assert sorted(server.rows("SELECT * FROM s;")) == ROWS
        assert dict(partitions_of_keys(server)) == {
            key: partition_for_key(key.encode(), partitions) for key in KEYS
        }
        server.run("DROP STREAM s DELETE TOPIC;")


def test_queries_and_their_views_are_of_the_topic_of_now(server: Server) -> None:
    for partitions in COUNTS:
        server.run(create("TABLE", partitions) + "CREATE TABLE u AS SELECT k, v + 1 AS w FROM s;" + INSERTS)
        server.becomes("SELECT * FROM u;", [(key, value + 1) for key, value in ROWS])
        described = server.one("DESCRIBE u EXTENDED;")["sourceDescription"]
        assert described["partitions"] == partitions
        [group] = [each for each in described["queryOffsetSummaries"] if each["topicSummaries"]]
        assert [len(each["offsets"]) for each in group["topicSummaries"]] == [partitions]
        server.run("DROP TABLE u DELETE TOPIC; DROP TABLE s DELETE TOPIC;")


@pytest.mark.parametrize("partitions", [(3, 1), (1, 3)])
def test_a_source_table_and_a_push_query_follow_a_topic_that_is_replaced(
    server: Server, partitions: tuple[int, int]
) -> None:
    """The topic is replaced behind the server's back, while both read it."""
    before, after = partitions
    server.run(create("STREAM", before) + INSERTS)
    server.run(
        "CREATE SOURCE TABLE r (k STRING PRIMARY KEY, v INT)"
        " WITH (kafka_topic='s', key_format='KAFKA', value_format='JSON');"
    )
    server.becomes("SELECT * FROM r;", ROWS)
    pushed = server.engine.query("SELECT * FROM s EMIT CHANGES;", {"auto.offset.reset": "latest"})
    admin = AdminClient({"bootstrap.servers": server.servers})
    admin.delete_topics(["s"])["s"].result(30)
    wait_until(lambda: "s" not in server.topics())
    admin.create_topics([NewTopic("s", after, 1)])["s"].result(30)
    server.run("INSERT INTO s VALUES ('new', 1); INSERT INTO s VALUES ('newer', 2);")
    rows = pushed.rows()
    assert sorted([next(rows), next(rows)]) == [("new", 1), ("newer", 2)]
    pushed.close()
    server.becomes("SELECT * FROM r;", [("new", 1), ("newer", 2)])
