"""Retention deletes old snapshots and the log before them by size and age, never the newest (KIP-630)."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
from several_members import record

from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.broker.quorum.retention import MetadataRetention
from penstock.consensus.log import SnapshotId
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.snapshot import last_timestamp_ms
from waiting import until

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000

P = ParamSpec("P")
T = TypeVar("T")


def on_a_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Host:
    """The parts of a node that retention uses; the test sets the clock."""

    def __init__(self, directory: Path, **properties: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.now_ms = NOW_MS
        self.config = BrokerConfig.single_node(
            {
                "log.dirs": str(directory),
                "internal.metadata.log.segment.bytes": "100",
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )
        self.log = MetadataLog(directory, self.config, self.clock_ms)
        self.log.open()
        self.log.begin_epoch(1, 1, (1,), (1,), None, None)

    def clock_ms(self) -> int:
        return self.now_ms

    def run_in_worker(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self.loop.run_in_executor(None, lambda: function(*args, **kwargs))

    def write(self, records: int) -> SnapshotId:
        """Append this many one-record batches, then a snapshot; the newest record's time is now."""
        for i in range(records):
            self.log.append_records(1, [record(f"n{i}")], 30)
        at = SnapshotId(self.log.end_offset, 1)
        self.log.write_snapshot(at, [record("s")], 30, self.now_ms, self.log.quorum_records(at.end_offset))
        self.log.keep_snapshot(at)
        return at

    async def clean(self) -> list[SnapshotId]:
        """Apply retention and return what is left, according to the log and to the files."""
        retention = MetadataRetention(self, self.log)  # type: ignore[arg-type]
        retention.clean()
        await retention.stop()
        files = sorted(path.name for path in self.log.directory.glob("*.checkpoint"))
        left = [SnapshotId(*map(int, name.removesuffix(".checkpoint").split("-"))) for name in files]
        assert (self.log.earliest_snapshot, self.log.latest_snapshot) == (left[0], left[-1])
        return left


@on_a_loop
async def test_snapshots_go_by_age_one_after_the_other(tmp_path: Path) -> None:
    host = Host(tmp_path, metadata_max_retention_ms=str(7 * DAY_MS))
    first = host.write(10)
    host.now_ms += DAY_MS
    second = host.write(10)
    host.now_ms += DAY_MS
    third = host.write(10)
    segments = len(host.log.log.segments)
    assert await host.clean() == [first, second, third]
    host.now_ms = NOW_MS + 7 * DAY_MS
    assert await host.clean() == [first, second, third], "not older than that yet"
    host.now_ms += 1
    assert await host.clean() == [second, third]
    assert host.log.start_offset == second.end_offset
    assert len(host.log.log.segments) < segments
    host.now_ms += 365 * DAY_MS
    assert await host.clean() == [third], "the newest stays, however old"
    assert (host.log.start_offset, host.log.end_offset) == (third.end_offset, third.end_offset)


@on_a_loop
async def test_snapshots_go_by_size_until_there_is_room(tmp_path: Path) -> None:
    host = Host(tmp_path, metadata_max_retention_ms="-1", metadata_max_retention_bytes="10000")
    host.write(10)
    assert await host.clean() == [host.log.latest_snapshot]
    while host.log.log.size_bytes + host.log.snapshots.size_bytes() <= 10_000:
        last = host.write(10)
    before = list(host.log.snapshots.older_than(last))
    left = await host.clean()
    assert left == [*before[1:], last], "one was enough"
    assert host.log.log.size_bytes + host.log.snapshots.size_bytes() <= 10_000


@on_a_loop
async def test_without_limits_everything_stays(tmp_path: Path) -> None:
    host = Host(tmp_path, metadata_max_retention_ms="-1", metadata_max_retention_bytes="-1")
    kept = [host.write(10), host.write(10)]
    host.now_ms += 10_000 * DAY_MS
    assert await host.clean() == kept


@on_a_loop
async def test_what_is_left_opens_again(tmp_path: Path) -> None:
    host = Host(tmp_path, metadata_max_retention_bytes="1")
    host.write(10)
    last = host.write(10)
    host.log.append_records(1, [record("after")], 30)
    assert await host.clean() == [last]
    host.log.close()
    again = MetadataLog(tmp_path, host.config, host.clock_ms)
    again.open()
    assert (again.latest_snapshot, again.end_offset) == (last, last.end_offset + 1)
    assert again.log.log_start_offset <= last.end_offset


@on_a_loop
async def test_files_of_the_log_are_removed_when_their_delay_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.broker.quorum.retention.PERIOD_S", 0.01)
    host = Host(tmp_path, metadata_max_retention_bytes="1", internal_metadata_delete_delay_millis="5000")
    host.write(10)
    host.write(10)
    retention = MetadataRetention(host, host.log)  # type: ignore[arg-type]
    retention.start()

    await until(lambda: any(host.log.directory.glob("*.deleted")))
    host.now_ms += 5000
    await until(lambda: not any(host.log.directory.glob("*.deleted")))
    await retention.stop()


@on_a_loop
async def test_the_time_of_a_snapshot_that_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    host = Host(tmp_path)
    at = host.write(1)
    data = host.log.snapshots.path(at).read_bytes()
    assert last_timestamp_ms(data) == NOW_MS
    assert last_timestamp_ms(data[:200]) == NOW_MS, "the beginning is enough"
    assert last_timestamp_ms(data[:20]) is None
    assert last_timestamp_ms(b"\xff" * 100) is None
