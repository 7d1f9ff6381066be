"""Hostile input to every decoder: it must be refused as malformed, or decoded as a valid message.

``PENSTOCK_FUZZ_EXAMPLES=2000 pytest tests/protocol/test_messages_fuzz.py`` is the long run.
"""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_values import all_message_versions, messages

from long_run import repetitions
from penstock.protocol import messages as m
from penstock.protocol.codec import MalformedMessage
from penstock.protocol.messages import message_class

EXAMPLES = repetitions("PENSTOCK_FUZZ_EXAMPLES", gate=2, long=20)

HOSTILE = st.sampled_from(
    [
        b"\x7f\xff\xff\xff",  # the largest classic length
        b"\xff\xff\xff\xff\x07",  # the largest compact one
        b"\xff\xff\xff\xff\xff\xff",  # a varint without end, or -1
        b"\x80\x00\x00\x00",  # a negative length other than -1
        b"\xff\xfe",
        b"\xc3\x28",  # not UTF-8
        b"\x00",
        b"\x01",
    ]
)


@st.composite
def mutated(draw: st.DrawFn, name: str, version: int) -> bytes:
    """A valid message with some of its bytes replaced, and perhaps its end cut off."""
    data = bytearray(draw(messages(name, version)).encode(version))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        hostile = draw(st.one_of(HOSTILE, st.binary(min_size=1, max_size=4)))
        data[at : at + len(hostile)] = hostile
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


@pytest.mark.longer
@pytest.mark.parametrize(("name", "version"), all_message_versions())
def test_decoding_never_fails_otherwise(name: str, version: int) -> None:
    cls = message_class(name)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.one_of(mutated(name, version), st.binary(max_size=64)))
    def check(data: bytes) -> None:
        try:
            decoded, end = cls.decode(version, data)
        except MalformedMessage:
            return
        assert end <= len(data)
        encoded = decoded.encode(version)
        assert cls.decode(version, encoded)[0].encode(version) == encoded

    check()


@pytest.mark.parametrize(
    "filler", [b"\x00", b"\x01", b"\x02", b"\x03", b"\x7f", b"\x80", b"\xff", b"\x00\x01"]
)
def test_a_byte_repeated(filler: bytes) -> None:
    """Repeated bytes nest as deep and count as high as possible, for every decoder."""
    data = filler * (4096 // len(filler))
    for name, version in all_message_versions():
        try:
            message_class(name).decode(version, data)
        except MalformedMessage:
            continue


@pytest.mark.parametrize(
    "name", ["FetchRequest", "MetadataResponse", "CreateTopicsRequest", "StreamsGroupHeartbeatRequest"]
)
@pytest.mark.parametrize("filler", [1, 2, 3, 0x7F])
def test_memory_stays_in_proportion_to_the_input(name: str, filler: int) -> None:
    cls = message_class(name)
    version = cls.MAX_VERSION
    data = bytes([filler]) * 200_000
    tracemalloc.start()
    try:
        cls.decode(version, data)
    except MalformedMessage:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 60 * len(data)


@pytest.mark.parametrize(
    ("version", "count"),
    [(8, b"\x7f\xff\xff\xff"), (12, b"\xff\xff\xff\xff\x07")],
    ids=["classic", "compact"],
)
def test_a_count_that_the_bytes_cannot_hold_is_refused_at_once(version: int, count: bytes) -> None:
    with pytest.raises(MalformedMessage, match=r"topics .*claims 2147483\d+ elements where \d+ bytes remain"):
        m.MetadataRequest.decode(version, count + bytes(1000))
