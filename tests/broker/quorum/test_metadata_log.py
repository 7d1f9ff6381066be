"""The metadata log's files: batches of the leader are appended unchanged, damaged ones are rejected."""

from pathlib import Path

import pytest
from several_members import names, record

from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.consensus.history import BOOTSTRAP_OFFSET
from penstock.consensus.log import Diverging, NeedsSnapshot, OffsetAndEpoch, SnapshotId, check_position
from penstock.consensus.voters import Address, ReplicaKey, Voter, VoterSet
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.snapshot import QuorumRecords, encode_snapshot
from penstock.protocol.batch import iter_headers
from penstock.protocol.messages import VotersRecord
from penstock.storage.errors import LogDirectoryError

VOTERS = VoterSet([Voter(ReplicaKey(1, b"1" * 16), {"CONTROLLER": Address("one", 9093)}, 0, 1)])


def opened(directory: Path, **properties: str) -> MetadataLog:
    directory.mkdir(exist_ok=True)
    config = BrokerConfig.single_node(
        {
            "log.dirs": str(directory),
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )
    log = MetadataLog(directory, config, lambda: 1_700_000_000_000)
    log.open()
    return log


def leaders_log(directory: Path) -> MetadataLog:
    """A log with epochs 1 (offsets 0 to 3) and 4 (offsets 4 to 8), and voters at offset 6."""
    log = opened(directory)
    log.begin_epoch(1, 1, (1,), (1,), None, None)
    log.append_records(1, [record("a"), record("b")], 30)
    log.append_records(1, [record("c")], 30)
    log.begin_epoch(4, 1, (1,), (1,), 1, VOTERS)
    log.append_records(4, [record("d")], 30)
    log.append_records(4, [record("e")], 30)
    return log


def test_a_follower_has_the_leaders_bytes(tmp_path: Path) -> None:
    leader, follower = leaders_log(tmp_path / "leader"), opened(tmp_path / "follower")
    data = leader.read(0, 1 << 20)
    assert follower.append_fetched(data)
    assert follower.read(0, 1 << 20) == data
    assert (follower.end_offset, follower.last_epoch) == (9, 4)
    assert follower.history.voters == VOTERS
    assert follower.history.voters_offset == 6
    assert [names(batch.records) for batch in follower.read_batches(0, 9)] == [
        [],
        ["a", "b"],
        ["c"],
        [],
        ["d"],
        ["e"],
    ]
    follower.close()
    again = opened(tmp_path / "follower")
    assert again.read(0, 1 << 20) == data
    assert again.history.voters_offset == 6


def test_small_segments_take_a_large_fetch(tmp_path: Path) -> None:
    leader = leaders_log(tmp_path / "leader")
    follower = opened(tmp_path / "follower", internal_metadata_log_segment_bytes="200")
    assert follower.append_fetched(leader.read(0, 1 << 20))
    assert follower.end_offset == 9
    assert len(follower.log.segments) > 2


@pytest.mark.parametrize("damage", ["a byte", "a gap"])
def test_what_is_damaged_stays_out(tmp_path: Path, damage: str) -> None:
    leader, follower = leaders_log(tmp_path / "leader"), opened(tmp_path / "follower")
    data = bytearray(leader.read(0, 1 << 20))
    positions = [position for position, _ in iter_headers(data)]
    if damage == "a byte":
        data[positions[3] - 1] ^= 1
        expected = 3
    else:
        del data[positions[1] : positions[2]]
        expected = 1
    assert follower.append_fetched(bytes(data))
    assert follower.end_offset == expected
    assert follower.append_fetched(leader.read(expected, 1 << 20))
    assert follower.end_offset == 9


def test_epochs_and_cuts(tmp_path: Path) -> None:
    log = leaders_log(tmp_path)
    assert [tuple(log.end_offset_for_epoch(epoch)) for epoch in (1, 2, 4, 5)] == [
        (4, 1),
        (4, 1),
        (9, 4),
        (9, 4),
    ]
    assert check_position(log, 4, 1) is None
    assert check_position(log, 9, 4) is None
    assert check_position(log, 6, 1) == Diverging(OffsetAndEpoch(4, 1))
    assert check_position(log, 9, 3) == Diverging(OffsetAndEpoch(4, 1))
    log.truncate_to(4)
    assert (log.end_offset, log.last_epoch, log.history.voters_offset) == (4, 1, None)


def snapshot(log: MetadataLog, at: SnapshotId, voters: VotersRecord | None = None) -> bytes:
    batches = encode_snapshot(
        [record("s")],
        epoch=at.epoch,
        metadata_version=30,
        last_timestamp_ms=0,
        now_ms=0,
        quorum=QuorumRecords(1, voters) if voters else None,
    )
    return b"".join(batches)


def test_a_snapshot_comes_in_pieces_and_replaces_the_log(tmp_path: Path) -> None:
    log, at = leaders_log(tmp_path), SnapshotId(20, 5)
    data = snapshot(log, at, VOTERS.to_record())
    assert log.receive_snapshot(at)
    for start in range(0, len(data), 50):
        assert log.receiving_snapshot == (at, start)
        log.receive_snapshot_piece(data[start : start + 50])
    assert log.install_snapshot()
    assert (log.start_offset, log.end_offset, log.last_epoch, log.latest_snapshot) == (20, 20, 5, at)
    assert (log.history.voters, log.history.voters_offset) == (VOTERS, 19)
    assert names(log.read_snapshot(at)) == ["s"]
    assert log.snapshot_piece(at, 10, 5) == (data[10:15], len(data))
    assert log.snapshot_piece(at, len(data) - 2, 5) == (data[-2:], len(data))
    assert log.snapshot_piece(at, 1 << 62, 5) == (b"", len(data))
    assert log.snapshot_piece(at, 0, -1) == (b"", len(data))
    assert log.snapshot_piece(SnapshotId(21, 5), 0, 5) is None
    assert not log.receive_snapshot(at), "it is here"
    assert check_position(log, 3, 1) == NeedsSnapshot(at)
    log.begin_epoch(6, 1, (1,), (1,), None, None)
    log.close()
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (20, 21, 6)


def test_a_damaged_snapshot_is_not_kept(tmp_path: Path) -> None:
    log, at = leaders_log(tmp_path), SnapshotId(20, 5)
    data = bytearray(snapshot(log, at))
    data[-1] ^= 1
    log.receive_snapshot(at)
    log.receive_snapshot_piece(bytes(data))
    assert not log.install_snapshot()
    assert (log.end_offset, log.latest_snapshot) == (9, None)
    assert log.receive_snapshot(at), "it can be fetched again"


def test_a_received_snapshot_wins_over_an_older_log_after_a_crash(tmp_path: Path) -> None:
    """The node died between storing the snapshot and truncating its log, so the log's tail is invalid."""
    log, at = leaders_log(tmp_path), SnapshotId(7, 5)
    log.snapshots.write(at, [snapshot(log, at)])
    log.close()
    again = opened(tmp_path)
    assert (again.start_offset, again.end_offset, again.last_epoch) == (7, 7, 5)


def test_a_log_that_lost_its_beginning_is_named(tmp_path: Path) -> None:
    log, at = leaders_log(tmp_path), SnapshotId(9, 4)
    quorum = log.quorum_records(9)
    log.write_snapshot(at, [record("s")], 30, 0, quorum)
    log.snapshots.add(at)
    log.log.delete_records_before(9)
    log.log.roll()
    log.log.delete_old_segments(1 << 60)
    log.close()
    log.snapshots.path(at).unlink()
    with pytest.raises(LogDirectoryError, match="records in between are missing"):
        opened(tmp_path)


def test_voters_of_formatting(tmp_path: Path) -> None:
    log = opened(tmp_path)
    at = SnapshotId(0, 0)
    log.snapshots.write(at, [snapshot(log, at, VOTERS.to_record())])
    log.close()
    again = opened(tmp_path)
    assert (again.history.voters, again.history.voters_offset) == (VOTERS, BOOTSTRAP_OFFSET)
    assert again.history.kraft_version == 1
    assert again.last_epoch == 0
