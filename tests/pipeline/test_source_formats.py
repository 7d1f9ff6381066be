"""Keys and values in their formats, as Spark sees them."""

from struct import pack

import pytest
from pyspark.errors import AnalysisException, PySparkException

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, at TIMESTAMP, lines ARRAY<STRUCT<sku: STRING, n: INT>>"


@pytest.fixture
def read(spark, servers, make_topic, produce):
    def make(values, key=None, **options):
        topic = make_topic()
        produce(topic, values, key=key)
        reader = spark.read.format("penstock").option("kafka.bootstrap.servers", servers)
        return reader.options(subscribe=topic, **options).load().orderBy("offset")

    return make


def test_formats_give_columns_of_their_types(read):
    frame = read(
        [b'{"id": 1, "at": "2024-01-01T00:00:00Z", "lines": [{"sku": "a", "n": 2}]}', None],
        key=pack(">q", 7),
        keyFormat="long",
        valueFormat="json",
        valueSchema=SCHEMA,
    )
    assert frame.schema["key"].dataType.simpleString() == "bigint"
    rows = frame.selectExpr(
        "key", "value.id", "CAST(value.at AS LONG) AS at", "value.lines[0].sku", "value IS NULL"
    )
    assert [tuple(row) for row in rows.collect()] == [
        (7, 1, 1_704_067_200, "a", False),
        (7, None, None, None, True),
    ]


def test_a_value_that_cannot_be_read_fails_the_query_and_is_named(read):
    frame = read([b"1234", b"12345"], valueFormat="int")
    with pytest.raises(
        PySparkException, match=r"value at offset 1 of \S+-0 is not of the format 'int': expected 4"
    ):
        frame.collect()


def test_or_is_null_with_the_reason_beside_it(read):
    frame = read([b"caf\xc3\xa9", b"\xff", None], valueFormat="string", decodeErrors="null")
    rows = [(row.value, row["_error"]) for row in frame.collect()]
    assert rows[0] == ("café", None)
    assert rows[1][0] is None
    assert rows[1][1].startswith("value: expected UTF-8, found 1 bytes")
    assert rows[2] == (None, None)


def test_a_schema_that_is_none_is_told_before_the_query_runs(read):
    with pytest.raises(AnalysisException, match="expected a type, not 'NUMBER'"):
        read([b"{}"], valueFormat="json", valueSchema="id NUMBER")
