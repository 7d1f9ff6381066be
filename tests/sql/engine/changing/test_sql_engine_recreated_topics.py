"""Topics that are dropped and created again with another number of partitions."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from engine_server import Server, taken

from penstock.client.errors import ClientError
from penstock.client.reading.follower import Follower
from penstock.protocol.murmur2 import partition_for_key
from penstock.sql.engine.reading.feeds import Feed
from waiting import wait_until

FOLLOW = "SELECT * FROM s EMIT CHANGES;"
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
    pushed = server.engine.query(FOLLOW, {"auto.offset.reset": "latest"})
    replace(server, after)
    server.run("INSERT INTO s VALUES ('new', 1); INSERT INTO s VALUES ('newer', 2);")
    assert sorted(taken(pushed, 2)) == [("new", 1), ("newer", 2)]
    pushed.close()
    server.becomes("SELECT * FROM r;", [("new", 1), ("newer", 2)])


def test_a_push_query_whose_topic_is_replaced_as_it_starts_reads_the_new_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is replaced after the query has listed its end, and before it is followed."""
    start = Feed.start

    def start_late(feed: Feed) -> None:
        replace(server, 1)
        server.run("INSERT INTO s VALUES ('new', 1); INSERT INTO s VALUES ('newer', 2);")
        start(feed)

    server.run(create("STREAM", 1) + INSERTS)
    monkeypatch.setattr(Feed, "start", start_late)
    pushed = server.engine.query(FOLLOW, {"auto.offset.reset": "latest"})
    assert taken(pushed, 2) == [("new", 1), ("newer", 2)]


def test_a_push_query_that_starts_before_the_replacement_is_noticed_reads_no_row_twice(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_notice = threading.Event()
    recover = Follower._recover

    def recover_late(follower: Follower, error: ClientError) -> None:
        assert may_notice.wait(60)
        recover(follower, error)

    server.run(create("STREAM", 1) + INSERTS)
    before = server.engine.query(FOLLOW)
    assert taken(before, len(ROWS)) == ROWS
    monkeypatch.setattr(Follower, "_recover", recover_late)
    replace(server, 1)
    server.run("INSERT INTO s VALUES ('new', 1);")
    after = server.engine.query(FOLLOW)
    assert taken(after, 1) == [("new", 1)]
    may_notice.set()
    assert taken(before, 1) == [("new", 1)]
    server.run("INSERT INTO s VALUES ('newer', 2);")
    assert taken(before, 1) == taken(after, 1) == [("newer", 2)]


def replace(server: Server, partitions: int) -> None:
    """Delete the topic and create it again, behind the server's back."""
    admin = AdminClient({"bootstrap.servers": server.servers})
    admin.delete_topics(["s"])["s"].result(30)
    wait_until(lambda: "s" not in server.topics())
    admin.create_topics([NewTopic("s", partitions, 1)])["s"].result(30)
