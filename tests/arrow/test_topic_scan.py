"""`penstock.read` on a real node, and the libraries that take its results."""

import logging
import subprocess
import sys
import threading
from datetime import UTC, datetime

import duckdb
import polars
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition

import penstock
from penstock.arrow import scan as scanning
from penstock.arrow import topic_scan
from penstock.arrow.batches import UndecodableRecord
from penstock.arrow.loss import DataLoss
from penstock.client.errors import ServerUnreachable, UnknownPartition
from penstock.client.settings import ConfigError
from waiting import wait_until


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


def values(table):
    return table.column("value").to_pylist()


@pytest.fixture
def two_partitions(make_topic, produce):
    topic = make_topic(2)
    produce(topic, numbers(0, 50), partition=1, key=b"k", timestamp=1_700_000_000_123)
    produce(topic, numbers(50, 80), partition=0, headers=[("h", b"x")])
    return topic


def test_a_table_has_all_records_in_order(servers, two_partitions):
    table = penstock.read(two_partitions, servers, include_headers=True).to_table()
    assert values(table) == numbers(50, 80) + numbers(0, 50)
    assert table.column("offset").to_pylist() == [*range(30), *range(50)]
    last = table.slice(79).to_pylist()[0]
    assert last == {
        "key": b"k",
        "value": b"49",
        "topic": two_partitions,
        "partition": 1,
        "offset": 49,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
        "timestampType": 0,
        "headers": None,
    }
    assert table.column("headers")[0].as_py() == [{"key": "h", "value": b"x"}]


def test_what_is_read_is_fixed_when_read_is_called(servers, two_partitions, produce):
    scan = penstock.read(two_partitions, servers)
    produce(two_partitions, numbers(80, 90), partition=0)
    assert scan.to_table().num_rows == scan.to_table().num_rows == 80
    assert {str(tp): (r.start, r.stop) for tp, r in scan.offsets.items()} == {
        f"{two_partitions}-0": (0, 30),
        f"{two_partitions}-1": (0, 50),
    }
    assert f"{two_partitions}-1 0–50" in repr(scan)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_compression_and_any_number_of_threads(
    servers, make_topic, produce, monkeypatch, codec, threads
):
    topic = make_topic(3)
    for partition in range(3):
        config = {"compression.type": codec, "batch.size": 4000}
        produce(topic, numbers(5000 * partition, 5000 * partition + 5000), config, partition=partition)
    monkeypatch.setattr(scanning, "_BYTES_PER_CHUNK", 6000)
    monkeypatch.setattr(scanning, "_MAX_BYTES_AHEAD", 20_000)
    scan = penstock.read(topic, servers, threads=threads, properties={"max.partition.fetch.bytes": "30000"})
    assert values(scan.to_table()) == numbers(0, 15_000)
    streamed = scan.to_reader().read_all()
    for partition in range(3):
        of_one = streamed.filter(pa.compute.equal(streamed.column("partition"), partition))
        assert values(of_one) == numbers(5000 * partition, 5000 * partition + 5000)


def test_duckdb_polars_and_pandas_take_it(servers, make_topic, produce):
    topic = make_topic(2)
    orders = [b'{"id": %d, "amount": %d.5, "who": {"name": "n%d"}}' % (n, n, n % 3) for n in range(30)]
    produce(topic, orders, key=b"key")
    scan = penstock.read(
        topic,
        servers,
        key_format="string",
        value_format="json",
        value_schema="id BIGINT, amount DOUBLE, who STRUCT<name: STRING>",
    )
    query = "SELECT value.who.name, count(*), sum(value.amount) FROM scan GROUP BY 1 ORDER BY 1"
    assert duckdb.sql(query).fetchall() == [("n0", 10, 140.0), ("n1", 10, 150.0), ("n2", 10, 160.0)]
    assert duckdb.sql("SELECT min(timestamp) > TIMESTAMPTZ '2020-01-01' FROM scan").fetchall() == [(True,)]
    frame = scan.to_polars()
    assert frame.schema["timestamp"] == polars.Datetime("ms", "UTC")
    assert frame["value"].struct.field("id").sum() == sum(range(30))
    assert polars.DataFrame(scan).equals(frame)
    table = scan.to_pandas()
    assert list(table.columns) == scan.schema.names
    assert sum(row["id"] for row in table["value"]) == sum(range(30))
    assert pa.table(scan).num_rows == 30
    assert scan.to_pandas(types_mapper={pa.int64(): None}.get).shape == (30, 7)


def test_positions(servers, make_topic, produce):
    topic = make_topic(2)
    for partition in range(2):
        for i in range(10):
            produce(topic, numbers(i, i + 1), partition=partition, timestamp=1_700_000_000_000 + 1000 * i)

    def read(**positions):
        return values(penstock.read(topic, servers, **positions).to_table())

    assert read(start={0: 8, 1: 9}) == numbers(8, 10) + numbers(9, 10)
    assert read(start={topic: {0: 8, 1: "latest"}}, end={0: "latest", 1: 10}) == numbers(8, 10)
    assert read(start="latest") == read(end="earliest") == read(start={0: 5, 1: 5}, end={0: 5, 1: 5}) == []
    moment = datetime(2023, 11, 14, 22, 13, 27, 500_000, UTC)  # 7.5 s after the first
    assert read(start=moment) == numbers(8, 10) * 2
    assert read(start=1_700_000_007_500) == numbers(8, 10) * 2
    assert read(start={0: moment, 1: 0}, end=1_700_000_009_000) == numbers(8, 9) + numbers(0, 9)
    assert read(start=datetime(2100, 1, 1, tzinfo=UTC)) == [], "nothing is as new as that"
    only = penstock.read({topic: [1]}, servers, start={1: 4}, columns=["offset", "partition"]).to_table()
    assert only.to_pydict() == {"offset": [*range(4, 10)], "partition": [1] * 6}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"start": "first"}, r"'start': expected 'earliest', 'latest', a datetime.*found 'first'"),
        ({"start": -5}, r"'start': expected .* found -5"),
        ({"end": True}, r"'end': expected .* found True"),
        ({"start": datetime(2024, 1, 1)}, r"a datetime with a time zone.*found datetime"),
        (
            {"start": {0: 1}},
            r"'start' must name all partitions .*: it names \S+-0, but the read covers \S+-0, \S+-1",
        ),
        ({"start": {0: -1, 1: 0}}, r"'start': expected an offset of at least 0 for \S+-0, found -1"),
        ({"start": {"0": 1}}, r"'start': expected"),
        ({"start": {0: 31, 1: 0}}, r"'start': offset 31 is beyond the end of \S+-0, which is 30"),
        ({"end": {0: 30, 1: 51}}, r"'end': offset 51 is beyond the end of \S+-1, which is 50"),
        ({"start": {0: 5, 1: 5}, "end": {0: 5, 1: 3}}, r"'start' of \S+-1 is offset 5: .* up to 'end', 3"),
        ({"end": {"other": {0: 1}}}, r"it names other-0"),
        ({"columns": ["values"]}, r"unknown column 'values'"),
        ({"value_format": "xml"}, r"unknown format 'xml'"),
        ({"value_format": "json", "value_schema": "id"}, r"invalid schema 'id'"),
        ({"decode_errors": "ignore"}, r"'decode_errors': expected"),
        (
            {"isolation_level": "dirty"},
            r"'isolation\.level': expected one of read_uncommitted, read_committed",
        ),
        ({"properties": {"fetch.max.byte": "1"}}, r"unknown property 'fetch\.max\.byte'"),
        (
            {"properties": {"bootstrap.servers": "other:1"}},
            "'bootstrap.servers' in 'properties' is 'other:1'",
        ),
        ({"threads": 0}, r"'threads': expected 1 or more, found 0"),
    ],
)
def test_arguments_that_cannot_be_are_named(servers, two_partitions, arguments, problem):
    with pytest.raises(ConfigError, match=problem):
        penstock.read(two_partitions, servers, **arguments)


def test_what_does_not_exist_is_named(servers, two_partitions):
    with pytest.raises(UnknownPartition, match="topic 'nowhere' does not exist"):
        penstock.read(["nowhere", two_partitions], servers)
    with pytest.raises(UnknownPartition, match=f"partition {two_partitions}-7 does not exist"):
        penstock.read({two_partitions: [0, 7]}, servers)
    with pytest.raises(ConfigError, match="expected names of topics, found \\[\\]"):
        penstock.read([], servers)
    with pytest.raises(ServerUnreachable, match=r"nothing listens at 127\.0\.0\.1:1"):
        penstock.read("t", "127.0.0.1:1", properties={"default.api.timeout.ms": "200"})


def test_an_address_where_nothing_listens_is_reported_soon(monkeypatch):
    assert topic_scan._LISTENER_PATIENCE_MS <= 3_000
    monkeypatch.setattr(topic_scan, "_LISTENER_PATIENCE_MS", 300)
    with pytest.raises(penstock.NothingListens, match=r"nothing listens at 127\.0\.0\.1:1") as raised:
        penstock.read("t", "127.0.0.1:1")
    notes = getattr(raised.value, "__notes__", [])  # none if a slow machine has time for one attempt only
    assert all(note.endswith("within 300 ms") for note in notes)


def test_undecodable_values(servers, make_topic, produce):
    topic = make_topic()
    produce(topic, [b"12345678", b"123", None])
    strict = penstock.read(topic, servers, value_format="long")
    with pytest.raises(
        UndecodableRecord, match=rf"value at offset 1 of {topic}-0 is not of the format 'long'"
    ):
        strict.to_table()
    reader = strict.to_reader()
    with pytest.raises(UndecodableRecord):
        reader.read_all()
    stream = pa.RecordBatchReader.from_stream(strict)
    with pytest.raises(pa.ArrowException, match="offset 1 of"):
        stream.read_all()
    table = penstock.read(topic, servers, value_format="long", decode_errors="null").to_table()
    assert values(table) == [int.from_bytes(b"12345678"), None, None]
    assert [bool(error) for error in table.column("_error").to_pylist()] == [False, True, False]


def test_records_of_aborted_and_open_transactions_are_left_out(servers, make_topic):
    topic = make_topic()
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions()
    for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(topic, b"d")
    producer.flush()
    assert values(penstock.read(topic, servers).to_table()) == [b"a", b"c"]
    dirty = penstock.read(topic, servers, isolation_level="read_uncommitted").to_table()
    assert values(dirty) == [b"a", b"b", b"c", b"d"]
    producer.abort_transaction()


def test_records_that_are_gone_are_an_error_or_a_warning(servers, make_topic, produce, admin, caplog):
    topic = make_topic(2)
    produce(topic, numbers(0, 10), partition=0)
    produce(topic, numbers(10, 20), partition=1)
    strict = penstock.read(topic, servers)
    lenient = penstock.read(topic, servers, fail_on_data_loss=False)
    admin.delete_records([TopicPartition(topic, 0, 4)])[TopicPartition(topic, 0)].result(30)
    with pytest.raises(
        DataLoss, match=rf"offset 0 of {topic}-0 cannot be read: its log begins at 4.*fail_on_"
    ):
        strict.to_table()
    with caplog.at_level(logging.WARNING):
        assert values(lenient.to_table()) == numbers(4, 20)
    assert f"offset 0 of {topic}-0" in caplog.text
    admin.delete_topics([topic])[topic].result(30)
    with pytest.raises(DataLoss, match="does not exist"):
        strict.to_table()
    assert lenient.to_table().num_rows == 0


def test_a_topic_made_again_is_not_read_in_the_others_place(servers, make_topic, produce, admin):
    topic = make_topic()
    produce(topic, numbers(0, 5))
    scan = penstock.read(topic, servers, properties={"default.api.timeout.ms": "3000"})
    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in admin.list_topics(timeout=60).topics)
    from confluent_kafka.admin import NewTopic

    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    produce(topic, numbers(5, 10))
    with pytest.raises(DataLoss, match="does not exist"):
        scan.to_table()


def test_a_stream_that_is_left_ends_its_threads(servers, make_topic, produce):
    topic = make_topic()
    produce(topic, [b"x" * 1000] * 20_000)

    def ours():
        return [thread for thread in threading.enumerate() if thread.name.startswith("penstock-")]

    scan = penstock.read(topic, servers, properties={"max.partition.fetch.bytes": "100000"}, threads=2)
    reader = scan.to_reader()
    assert reader.read_next_batch().num_rows
    assert ours()
    del reader
    wait_until(lambda: not ours())


def test_importing_penstock_loads_no_arrow():
    program = (
        "import sys, penstock; assert 'pyarrow' not in sys.modules; assert callable(penstock.read); "
        "assert 'pyarrow' in sys.modules; assert 'read' in dir(penstock)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_pyarrow_the_extra_is_named():
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import penstock\n"
        "try: penstock.read\n"
        "except ImportError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert told.startswith("penstock.read needs pyarrow. Install the extra with: ")
    assert told.endswith("-m pip install 'penstock[arrow]'\n")
    with pytest.raises(AttributeError, match="no attribute 'raed'"):
        penstock.raed  # noqa: B018
