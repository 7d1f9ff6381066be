"""Push queries share feeds of records, and each query keeps a position in the log, not records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from engine_server import Server, eventually, taken

from penstock.sql.engine import EngineError
from penstock.sql.engine.reading.feeds import Bounds, Feed, Feeds
from penstock.sql.engine.reading.topic_reader import Reader

S = "CREATE STREAM s (id INT KEY, v STRING) WITH (kafka_topic='s', partitions=2, format='json');"
FOLLOW = "SELECT * FROM s EMIT CHANGES;"


def write(server: Server, *values: str, times_ms: list[int] | None = None, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": server.servers})
    for number, value in enumerate(values):
        at_ms = times_ms[number] if times_ms else 1_000
        producer.produce("s", f'{{"V":"{value}"}}', b"1", partition=partition, timestamp=at_ms)
    assert producer.flush(20) == 0


def feed_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "s feed"]


def test_a_partition_keeps_its_order_whatever_its_times_are(server: Server) -> None:
    server.run(S)
    write(server, "a", "b", "c", times_ms=[300, 100, 200])
    assert [row[1] for row in taken(server.engine.query(FOLLOW), 3)] == ["a", "b", "c"]
    assert [row[1] for row in server.rows("SELECT * FROM s;")] == ["a", "b", "c"]


def test_of_several_partitions_the_earliest_time_is_next(server: Server) -> None:
    server.run(S)
    write(server, "1", "4", "5", times_ms=[100, 400, 500])
    write(server, "2", "3", "6", times_ms=[200, 300, 600], partition=1)
    assert [row[1] for row in taken(server.engine.query(FOLLOW), 6)] == list("123456")


def test_a_table_is_read_before_the_stream_it_is_joined_with(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of notifications does not matter: here the table is not followed at all."""
    start = Feed.start
    monkeypatch.setattr(Feed, "start", lambda feed: start(feed) if feed._topic == "s" else None)
    server.run(S)
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY, w STRING) WITH (kafka_topic='t', partitions=2, format='json');"
    )
    server.run("INSERT INTO t VALUES (1, 'one'); INSERT INTO t VALUES (2, 'two');")
    result = server.engine.query("SELECT s.id, v, w FROM s JOIN t ON s.id = t.id EMIT CHANGES;")
    server.run("INSERT INTO s VALUES (1, 'a'); INSERT INTO s VALUES (2, 'b');")
    assert sorted(taken(result, 2)) == [(1, "a", "one"), (2, "b", "two")]


def test_a_reader_may_hear_of_records_before_it_has_begun(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Feeds.join

    def joined(self: Feeds, bounds: Bounds, reader: Reader) -> dict[str, Feed]:
        found = join(self, bounds, reader)
        assert reader.step() is None
        return found

    monkeypatch.setattr(Feeds, "join", joined)
    server.run(S)
    write(server, "a")
    assert taken(server.engine.query(FOLLOW), 1) == [(1, "a")]


def test_a_chunk_may_go_beyond_the_known_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the topic was listed between two records that the reader then finds in one chunk."""
    list_bounds, start = Feeds.bounds, Feed.start

    def listed_too_early(feeds: Feeds, topics: Mapping[str, bool]) -> Bounds:
        bounds = list_bounds(feeds, topics)
        return bounds._replace(ends={tp: min(end, 1) for tp, end in bounds.ends.items()})

    def started_late(feed: Feed) -> None:
        [reader] = feed.readers
        assert isinstance(reader, Reader)
        reader.step()
        start(feed)

    monkeypatch.setattr(Feeds, "bounds", listed_too_early)
    monkeypatch.setattr(Feed, "start", started_late)
    server.run(S)
    write(server, "a", "b")
    assert taken(server.engine.query(FOLLOW), 2) == [(1, "a"), (1, "b")]


def test_readers_of_a_topic_share_what_follows_it(server: Server) -> None:
    server.run(S)
    results = [server.engine.query(FOLLOW) for _ in range(5)]
    eventually(feed_threads, lambda found: len(found) == 1)
    write(server, "a")
    assert [taken(each, 1) for each in results] == [[(1, "a")]] * 5
    for each in results:
        each.close()
    assert eventually(feed_threads, lambda found: not found) == []
    again = server.engine.query(FOLLOW)
    assert taken(again, 1) == [(1, "a")]


def test_who_is_behind_reads_the_log_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither rows nor records are buffered for a slow reader."""
    monkeypatch.setattr("penstock.sql.engine.reading.results.QUEUED_ROWS_MAX", 10)
    monkeypatch.setattr("penstock.sql.engine.reading.feeds.KEPT_BYTES", 5_000)
    server.run(S)
    slow, fast = server.engine.query(FOLLOW), server.engine.query(FOLLOW)
    wanted = [str(number) for number in range(300)]
    for start in range(0, 300, 50):
        write(server, *wanted[start : start + 50])
        assert len(taken(fast, 50)) == 50
    assert 10 <= slow.queued < 120  # type: ignore[attr-defined]
    [feed] = server.engine._selector._feeds._feeds.values()
    assert sum(each.size_bytes for each in feed._kept.values()) <= max(
        5_000, *(each.size_bytes for each in feed._kept.values())
    )
    assert [row[1] for row in taken(slow, 300)] == wanted


@pytest.mark.parametrize("text", ["SELECT * FROM s;", FOLLOW])
def test_what_is_read_ends_with_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("penstock.sql.engine.reading.results.QUEUED_ROWS_MAX", 1)
    server.run(S)
    write(server, *map(str, range(200)))
    result = server.engine.query(text)
    assert len(taken(result, 1)) == 1
    server.close()
    assert result.is_finished
    assert len(list(result.rows())) == 0


def test_a_slow_reader_whose_records_are_deleted_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.sql.engine.reading.results.QUEUED_ROWS_MAX", 10)
    monkeypatch.setattr("penstock.sql.engine.reading.feeds.KEPT_BYTES", 1)
    server.run(S)
    slow, fast = server.engine.query(FOLLOW), server.engine.query(FOLLOW)
    for start in range(0, 300, 50):
        write(server, *map(str, range(start, start + 50)))
        assert len(taken(fast, 50)) == 50
    admin = AdminClient({"bootstrap.servers": server.servers})
    [deleted] = admin.delete_records([TopicPartition("s", 0, 290)]).values()
    deleted.result(60)
    with pytest.raises(EngineError, match=r"records of s-0 from offset .* were deleted before this query"):
        list(slow.rows(timeout_s=20))


def test_what_was_aborted_is_not_read_from_the_beginning_either(server: Server) -> None:
    server.run(S)
    producer = Producer({"bootstrap.servers": server.servers, "transactional.id": "t"})
    producer.init_transactions(20)
    for value, end in (("a", "commit"), ("no", "abort"), ("b", "commit"), ("neither", "abort")):
        producer.begin_transaction()
        producer.produce("s", f'{{"V":"{value}"}}', b"1", partition=0)
        producer.flush(20)
        getattr(producer, f"{end}_transaction")(20)
    result = server.engine.query(FOLLOW)
    assert [row[1] for row in taken(result, 2)] == ["a", "b"]
    write(server, "c")
    assert [row[1] for row in taken(result, 1)] == ["c"]
    assert [row[1] for row in server.rows("SELECT * FROM s;")] == ["a", "b", "c"]


def test_a_partition_that_is_new_is_read_from_its_beginning(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.reading.follower._LOOK_S", 0.2)
    server.run(S)
    result = server.engine.query(FOLLOW)
    admin = AdminClient({"bootstrap.servers": server.servers})
    [grown] = admin.create_partitions([NewPartitions("s", 3)]).values()
    grown.result(60)
    write(server, "a", partition=2)
    assert [row[1] for row in taken(result, 1)] == ["a"]


def test_the_state_of_a_push_query_is_bounded(start: Callable[..., Server]) -> None:
    server = start(penstock_push_query_state_max_bytes="2000")
    server.run(S)
    few = server.engine.query("SELECT COUNT(*) AS n, 1 AS k FROM s GROUP BY 1 EMIT CHANGES;")
    many = server.engine.query("SELECT COUNT(*) AS n, v FROM s GROUP BY v EMIT CHANGES;")
    for number in range(40):
        server.run(f"INSERT INTO s VALUES ({number}, 'group {number}');")
    with pytest.raises(EngineError, match=r"bytes of state in the query .* expected 2000 at most"):
        list(many.rows(timeout_s=20))
    assert len(taken(few, 40)) == 40
