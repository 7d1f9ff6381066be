"""Snapshot files: written data is read back, and damage is rejected."""

import pytest

from penstock.metadata import snapshot
from penstock.metadata.snapshot import QuorumRecords, SnapshotError
from penstock.protocol.messages import FeatureLevelRecord, Message, TopicRecord, VotersRecord
from penstock.protocol.records import Record, encode_batch

RECORDS: list[Message] = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    *(TopicRecord(name=f"t{i}", topic_id=i.to_bytes(16, "big")) for i in range(2500)),
]


def encoded(records: list[Message], quorum: QuorumRecords | None = None) -> bytes:
    batches = snapshot.encode_snapshot(
        records, epoch=3, metadata_version=30, last_timestamp_ms=5, now_ms=7, quorum=quorum
    )
    return b"".join(batches)


@pytest.mark.parametrize("count", [0, 1, 1000, 1001, len(RECORDS)])
def test_what_is_written_is_read(count: int) -> None:
    content = snapshot.decode_snapshot(encoded(RECORDS[:count]))
    assert content.records == RECORDS[:count]
    assert content.quorum == QuorumRecords()


def test_dynamic_voters_are_part_of_a_snapshot() -> None:
    voters = VotersRecord(voters=[VotersRecord.Voter(voter_id=1, voter_directory_id=bytes([1]) * 16)])
    quorum = QuorumRecords(kraft_version=1, voters=voters)
    assert snapshot.decode_snapshot(encoded(RECORDS[:1], quorum)).quorum == quorum


def test_a_damaged_or_unfinished_snapshot_is_refused() -> None:
    data = encoded(RECORDS[:10])
    flipped = bytearray(data)
    flipped[200] ^= 1
    for damaged in (bytes(flipped), data[:-1], data[:-75], b""):
        with pytest.raises(SnapshotError):
            snapshot.decode_snapshot(damaged)


def test_records_of_a_later_release_are_counted_and_kept_out() -> None:
    data = encoded(RECORDS[:1])
    later = encode_batch([Record(0, 0, None, b"\x01\x70\x00\x00")])
    footer = len(data) - 75
    content = snapshot.decode_snapshot(data[:footer] + later + data[footer:])
    assert content.records == RECORDS[:1]
    assert content.unknown_records == 1


def test_names_of_snapshot_files() -> None:
    name = snapshot.file_name(42, 7)
    assert name == "00000000000000000042-0000000007.checkpoint"
    assert snapshot.parse_file_name(name) == (42, 7)
    for other in (snapshot.BOOTSTRAP_FILE, name + ".part", "42-7.checkpoint"):
        assert snapshot.parse_file_name(other) is None
