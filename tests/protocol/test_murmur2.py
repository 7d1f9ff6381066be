import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from penstock.protocol.murmur2 import murmur2, partition_for_key

# The values that Kafka's own UtilsTest publishes.
PUBLISHED = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", PUBLISHED)
def test_published_values(key: bytes) -> None:
    assert murmur2(key) == PUBLISHED[key] & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_agrees_with_kafka_python(key: bytes, partitions: int) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF
    assert partition_for_key(memoryview(key), partitions) == (
        (kafka_python_murmur2(key) & 0x7FFFFFFF) % partitions
    )
