"""Random histories of one log against a list of records: nothing lost, invented, moved or reordered."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from log_building import START_MS, LogBench, append_values, read_all

from penstock.protocol import batch
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import FileSystem
from penstock.storage.partition.log import Log

_directory: Path


class UnsyncedFiles(FileSystem):
    """Files without syncs: the page cache survives the deaths of this test."""

    fsync = fdatasync = staticmethod(lambda fd: None)


class LogHistory(RuleBasedStateMachine):
    """The model: the value of each offset in the log, and the start and end of the log."""

    log: Log

    @initialize(
        segment_bytes=st.sampled_from([600, 2_000, 1 << 20]), interval=st.sampled_from([0, 100, 1000, 4096])
    )
    def begin(self, segment_bytes: int, interval: int) -> None:
        shutil.rmtree(_directory, ignore_errors=True)
        config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, file_delete_delay_ms=0)
        self.bench = LogBench(_directory, config, files=UnsyncedFiles())
        self.log = self.bench.open()
        self.model: dict[int, bytes] = {}
        self.start, self.end, self.serial = 0, 0, 0
        self.producer_id, self.sequence = 1, 0

    @rule(count=st.integers(1, 6), size=st.integers(1, 60), idempotent=st.booleans(), late=st.integers(0, 50))
    def append(self, count: int, size: int, idempotent: bool, late: int) -> None:
        values = [b"%d.%d" % (self.serial, i) + b"." * size for i in range(count)]
        options: dict[str, object] = {}
        if idempotent:
            options = {"producer_id": self.producer_id, "producer_epoch": 0, "base_sequence": self.sequence}
            self.sequence += count
        info = append_values(self.log, *values, timestamp=START_MS + self.serial * 10 - late, **options)
        assert info == (self.end, self.end + count - 1, -1, False)
        self.model |= {self.end + i: value for i, value in enumerate(values)}
        self.end += count
        self.serial += 1

    @rule(repeat=st.integers(1, 30))
    def append_many(self, repeat: int) -> None:
        for _ in range(repeat):
            self.append(2, 20, False, 0)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Truncate at a batch boundary, as followers do."""
        offset = self.batch_start(data.draw(st.integers(self.start, self.end), label="offset"))
        self.log.truncate_to(offset)
        self.model = {o: value for o, value in self.model.items() if o < offset}
        self.end = offset
        self.producer_id, self.sequence = self.producer_id + 1, 0  # its last batches may be truncated

    def batch_start(self, offset: int) -> int:
        piece = self.log.read(offset, 1)
        return offset if piece is None else max(batch.parse_header(piece.read()).base_offset, self.start)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end), label="offset")
        assert self.log.delete_records_before(offset) == offset
        self.start = offset

    @rule(keep_bytes=st.integers(0, 5_000))
    def retain(self, keep_bytes: int) -> None:
        self.log.update_config(replace(self.bench.config, retention_bytes=keep_bytes))
        self.log.delete_old_segments(START_MS)
        self.log.remove_deleted_files(self.bench.clock())
        self.start = self.log.log_start_offset
        assert self.start <= self.end
        if self.start < self.end:
            assert self.log.size_bytes >= keep_bytes or self.start in self.model

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.log = self.bench.open(clean=True, log_start_offset=self.start)

    @rule(data=st.data())
    def kill_and_start(self, data: st.DataObject) -> None:
        """Kill the process: all that it wrote is there, except for the torn end of a pending append."""
        self.bench.recovery_point = data.draw(st.integers(0, self.log.recovery_point), label="recovery point")
        active = self.log.segments.active
        torn = data.draw(st.binary(max_size=100), label="torn tail")
        with active.file.path.open("ab") as file:
            file.write(torn[:-1] + b"\x07" if torn else b"")
        self.log = self.bench.open(clean=False, log_start_offset=self.start)

    @rule(offset_seed=st.integers(0, 10_000), max_bytes=st.integers(1, 3_000))
    def read_somewhere(self, offset_seed: int, max_bytes: int) -> None:
        if self.start == self.end:
            return
        offset = self.start + offset_seed % (self.end - self.start)
        piece = self.log.read(offset, max_bytes)
        held = [o for o in self.model if o >= offset]
        if not held:
            assert piece is None
            return
        assert piece is not None
        headers = [header for _, header in batch.iter_headers(piece.read())]
        assert headers[0].last_offset >= offset
        assert len(headers) == 1 or len(piece) <= max_bytes

    @invariant()
    def content_is_the_models(self) -> None:
        if hasattr(self, "model"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            expected = [(o, value) for o, value in sorted(self.model.items()) if o >= self.start]
            assert read_all(self.log, 1500) == expected


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_random_histories(tmp_path: Path) -> None:
    global _directory
    _directory = tmp_path / "flights-0"
    LogHistory.TestCase.settings = settings(
        max_examples=50, stateful_step_count=20, suppress_health_check=list(HealthCheck)
    )
    LogHistory.TestCase().runTest()
