"""Round trips of every version of every message, and the Python interface of the classes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_values import all_message_versions, messages

from penstock.protocol import messages as m
from penstock.protocol.codec import MalformedMessage, UnencodableMessage, UnsupportedVersion
from penstock.protocol.messages import message_class

T = TypeVar("T")


@pytest.mark.longer
@pytest.mark.parametrize(("name", "version"), all_message_versions())
def test_round_trip(name: str, version: int) -> None:
    cls = message_class(name)

    @settings(
        max_examples=max(2, settings.default.max_examples // 10), suppress_health_check=list(HealthCheck)
    )
    @given(messages(name, version), st.binary(max_size=3))
    def check(message: m.Message, before: bytes) -> None:
        encoded = message.encode(version)
        assert cls.decode(version, encoded) == (message, len(encoded))
        around = before + encoded + b"after"
        assert cls.decode(version, memoryview(around), len(before)) == (message, len(before) + len(encoded))
        assert last_of(message.encode_in_steps(version)) == encoded
        assert last_of(cls.decode_in_steps(version, encoded)) == (message, len(encoded))

    check()


def last_of(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def test_long_messages_take_many_steps() -> None:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=f"topic-{number}") for number in range(5_000)]
    request = m.MetadataRequest(topics=topics)
    encoded = request.encode(12)
    assert sum(1 for _ in request.encode_in_steps(12)) > 30
    assert sum(1 for _ in m.MetadataRequest.decode_in_steps(12, encoded)) > 30
    with pytest.raises(MalformedMessage, match=r"topics\.name"):
        last_of(m.MetadataRequest.decode_in_steps(12, encoded[:-10]))


# -- the classes --------------------------------------------------------------------------------------------


def test_constructor_takes_keywords_and_has_kafkas_defaults() -> None:
    request = m.FetchRequest(max_wait_ms=500)
    assert request.max_wait_ms == 500
    assert request.cluster_id is None
    assert request.replica_state == m.FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    assert request.max_bytes == 0x7FFFFFFF
    assert request.topics == []
    with pytest.raises(TypeError):
        m.FetchRequest(no_such_field=1)


def test_mutable_defaults_are_not_shared() -> None:
    m.FetchRequest().topics.append(m.FetchRequest.FetchTopic())
    m.FetchRequest().replica_state.replica_id = 5
    assert m.FetchRequest().topics == []
    assert m.FetchRequest().replica_state.replica_id == -1


def test_equality_is_by_value_and_class() -> None:
    assert m.HeartbeatRequest(group_id="a") == m.HeartbeatRequest(group_id="a")
    assert m.HeartbeatRequest(group_id="a") != m.HeartbeatRequest(group_id="b")
    assert m.HeartbeatResponse() != m.LeaveGroupResponse()


def test_repr_names_the_fields() -> None:
    assert repr(m.HeartbeatResponse(error_code=27)) == "HeartbeatResponse(throttle_time_ms=0, error_code=27)"
    assert "FetchRequest.FetchTopic(" in repr(m.FetchRequest(topics=[m.FetchRequest.FetchTopic()]))


def test_copies_and_pickles() -> None:
    request = m.FetchRequest(topics=[m.FetchRequest.FetchTopic(topic="t")])
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_attributes_are_slots() -> None:
    with pytest.raises(AttributeError):
        m.HeartbeatRequest().no_such_field = 1


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="NoSuchRequest"):
        _ = m.NoSuchRequest


def test_class_facts() -> None:
    assert (m.FetchRequest.KIND, m.FetchRequest.ID) == ("request", 1)
    assert (m.TopicRecord.KIND, m.TopicRecord.ID) == ("record", 2)
    assert (m.OffsetCommitKey.KIND, m.OffsetCommitKey.ID) == ("key", 1)
    assert (m.FetchRequest.MIN_VERSION, m.FetchRequest.MAX_VERSION) == (4, 18)
    assert not m.FetchRequest.is_flexible(11)
    assert m.FetchRequest.is_flexible(12)


# -- the wire -----------------------------------------------------------------------------------------------


def test_known_bytes() -> None:
    """The first request of a client: ApiVersions 3 with a header of version 2, whose client id is classic."""
    header = m.RequestHeader(request_api_key=18, request_api_version=3, correlation_id=7, client_id="me")
    assert header.encode(2) == b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x02me\x00"
    request = m.ApiVersionsRequest(client_software_name="penstock", client_software_version="1")
    assert request.encode(3) == b"\x09penstock\x021\x00"
    assert request.encode(2) == b""


def test_fields_outside_the_version_keep_their_defaults() -> None:
    request = m.FetchRequest(session_id=9, rack_id="r1")
    decoded, _ = m.FetchRequest.decode(4, request.encode(4))
    assert (decoded.session_id, decoded.session_epoch, decoded.rack_id) == (0, -1, "")


def test_records_are_views_of_the_input() -> None:
    partition = m.ProduceRequest.PartitionProduceData(records=b"a batch")
    topic = m.ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    frame = bytearray(m.ProduceRequest(topic_data=[topic]).encode(9))
    decoded, _ = m.ProduceRequest.decode(9, memoryview(frame))
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[0] = ord("A")
    assert b"A batch" in frame


class FileSlice:
    """A stand-in for a slice of a segment file: a size, and bytes that only the kernel reads."""

    def __len__(self) -> int:
        return 1000


@pytest.mark.parametrize("version", range(4, 19))
def test_encode_parts_leaves_records_that_are_not_bytes(version: int) -> None:
    first, second = FileSlice(), FileSlice()

    def response(*records: m.RecordBytes | None) -> m.FetchResponse:
        partitions = [
            m.FetchResponse.PartitionData(partition_index=i, records=r) for i, r in enumerate(records)
        ]
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(partitions=partitions)])

    parts = response(first, b"in memory", None, second).encode_parts(version)
    assert [part for part in parts if isinstance(part, FileSlice)] == [first, second]
    on_the_wire = b"".join(part if isinstance(part, bytes) else bytes(len(part)) for part in parts)
    assert on_the_wire == response(bytes(1000), b"in memory", None, bytes(1000)).encode(version)
    with pytest.raises(UnencodableMessage, match="records"):
        response(first).encode(version)


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = m.ApiVersionsRequest(client_software_name="x", client_software_version="y").encode(3)
    assert encoded.endswith(b"\x00")
    unknown = b"\x02" + b"\x07\x03abc" + b"\x80\x01\x00"  # tag 7 with three bytes, tag 128 with none
    decoded, end = m.ApiVersionsRequest.decode(3, encoded[:-1] + unknown)
    assert decoded.client_software_name == "x"
    assert end == len(encoded[:-1] + unknown)


def test_tagged_fields_go_on_the_wire_only_when_set() -> None:
    bare = m.FetchRequest().encode(12)
    assert bare.endswith(b"\x00")
    named = m.FetchRequest(cluster_id="c").encode(12)
    assert named == bare[:-1] + b"\x01\x00\x02\x02c"


def test_null_struct_marks() -> None:
    """A null struct is -1 in an ordinary field (KIP-893), and 0 in a tagged one."""
    assert m.ConsumerGroupHeartbeatResponse().encode(0).endswith(b"\xff\x00")
    value = m.ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert value.encode(0).endswith(b"\x01\x00\x01\x00")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (m.HeartbeatRequest(group_id=None), "group_id"),
        (m.HeartbeatRequest(generation_id=2**31), "generation_id"),
        (m.HeartbeatRequest(group_id="g" * 40_000), "group_id"),
        (m.MetadataRequest(topics=[None]), "topics"),
        (
            m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.DeleteTopicState(topic_id=b"short")]),
            "topic_id",
        ),
        (m.ShareGroupStatePartitionMetadataValue(deleting_topics=None), "deleting_topics"),
    ],
)
def test_unencodable_values_name_the_field(message: m.Message, field: str) -> None:
    with pytest.raises(UnencodableMessage, match=field):
        message.encode(type(message).MAX_VERSION)


def test_versions_that_a_message_does_not_have() -> None:
    with pytest.raises(UnsupportedVersion, match="FetchRequest has versions 4-18, not 3"):
        m.FetchRequest().encode(3)
    with pytest.raises(UnsupportedVersion):
        m.FetchRequest.decode(19, b"")


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"\x00\x01g\x00\x00", "HeartbeatRequest v0: generation_id at byte 3 is cut off: 2 bytes remain"),
        (b"\x00\x05g", "HeartbeatRequest v0: group_id at byte 2 claims 5 bytes where 1 remain"),
        (b"\xff\xff", "HeartbeatRequest v0: group_id at byte 2 is null"),
        (b"\xff\xfe", "HeartbeatRequest v0: group_id at byte 2 has an invalid length of -2"),
        (b"\x00\x01\xff", "HeartbeatRequest v0: group_id at byte 2 is not UTF-8"),
    ],
)
def test_malformed_messages_name_field_and_position(encoded: bytes, message: str) -> None:
    with pytest.raises(MalformedMessage) as raised:
        m.HeartbeatRequest.decode(0, encoded)
    assert str(raised.value) == message


def test_malformed_tagged_fields() -> None:
    start = m.ApiVersionsRequest().encode(3)[:-1]
    for tags, what in (
        (b"\x01", "cut off"),
        (b"\x01\x05\x09abc", "claims 9 bytes where 3 remain"),
        (b"\x01\xff\xff\xff\xff\xff\x00", "more than five bytes"),
    ):
        with pytest.raises(MalformedMessage, match=what):
            m.ApiVersionsRequest.decode(3, start + tags)
    with pytest.raises(MalformedMessage, match=r"cluster_id .*does not fill its tag"):
        m.FetchRequest.decode(12, m.FetchRequest().encode(12)[:-1] + b"\x01\x00\x03\x02cX")
