"""`verify` detects and names each kind of damage, and accepts sound and compacted logs."""

import struct

import pytest
from log_building import LogBench, append_marker, append_values

from penstock.storage.config import LogConfig
from penstock.storage.inspection import Finding, verify_partition


@pytest.fixture
def sound(bench: LogBench) -> LogBench:
    """A log of several segments with an aborted transaction, closed."""
    bench.config = LogConfig(segment_bytes=600, index_interval_bytes=0)
    log = bench.open()
    log.assign_topic_id(b"\x07" * 16)
    for number in range(8):
        append_values(log, b"%d" % number * 60, b"x")
    append_values(log, b"t", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    append_marker(log, 5, 0, committed=False)
    log.close()
    return bench


def findings(bench: LogBench) -> list[Finding]:
    return [f for f in verify_partition(bench.directory, decode_records=True).findings if f.is_damage]


def test_a_sound_log(sound: LogBench) -> None:
    verified = verify_partition(sound.directory, decode_records=True)
    assert verified.findings == []
    assert (verified.start_offset, verified.end_offset) == (0, 18)
    assert (verified.batches, verified.records) == (10, 18)
    assert verified.segments > 2


def test_a_flipped_bit_is_named_with_offset_file_and_byte(sound: LogBench) -> None:
    path = sound.file(0, ".log")
    data = bytearray(path.read_bytes())
    second = 12 + struct.unpack_from(">i", data, 8)[0]
    data[second + 70] ^= 4
    path.write_bytes(data)
    (finding,) = findings(sound)
    assert (finding.partition, finding.offset, finding.position) == (("flights", 0), 2, second)
    assert finding.file == path
    assert "checksum" in finding.problem
    assert str(finding).startswith(f"flights-0, offset 2, {path}, byte {second}: ")


def test_a_torn_end_and_what_is_no_batch(sound: LogBench) -> None:
    last = max(sound.directory.glob("*.log"))
    with last.open("ab") as file:
        file.write(b"\0" * 7 + b"torn")
    (finding,) = findings(sound)
    assert finding.file == last
    assert "crash" in finding.problem


def test_missing_offsets_are_told_but_are_no_damage(sound: LogBench) -> None:
    bases = sorted(int(path.stem) for path in sound.directory.glob("*.log"))
    for suffix in (".log", ".index", ".timeindex"):
        sound.file(bases[1], suffix).unlink()
    verified = verify_partition(sound.directory)
    gaps = [f for f in verified.findings if not f.is_damage]
    assert [(gap.offset, gap.position) for gap in gaps] == [(bases[1], 0)]
    assert findings(sound) == []


@pytest.mark.parametrize(
    ("suffix", "position", "problem"),
    [
        (".index", 7, "no batch begins"),
        (".timeindex", 2, "timestamp"),
        (".snapshot", 8, "checksum"),
    ],
)
def test_damaged_companions(sound: LogBench, suffix: str, position: int, problem: str) -> None:
    path = max(path for path in sound.directory.glob("*" + suffix) if path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    found = findings(sound)
    assert found, suffix
    assert {finding.file for finding in found} == {path}
    assert problem in found[0].problem


def test_an_aborted_transaction_that_the_index_does_not_know(sound: LogBench) -> None:
    path = max(path for path in sound.directory.glob("*.txnindex") if path.stat().st_size)
    path.write_bytes(b"")
    (finding,) = findings(sound)
    assert (finding.file, finding.offset) == (path, 17)
    assert "producer 5" in finding.problem


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_damaged_small_files(sound: LogBench, name: str) -> None:
    (sound.directory / name).write_text("nonsense, and a lot of it, so that it is not cut short")
    (finding,) = findings(sound)
    assert finding.file.name == name
