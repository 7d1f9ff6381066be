"""A sole voter commits all that it appends, in order, and restores it after a restart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
from several_members import Follower, record

from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.broker.quorum.quorum import Quorum
from penstock.broker.setup.environment import Environment
from penstock.metadata.configs import BrokerConfig
from penstock.protocol.errors import KafkaError
from penstock.storage.directories import meta_properties
from penstock.storage.errors import StorageFailed
from waiting import until

P = ParamSpec("P")
T = TypeVar("T")


class Host:
    """A node that runs only the quorum."""

    node_id = 1
    cluster_id = "iWKQh-fZRQyPCSDH4Og5Gw"

    def __init__(self, directory: Path, **properties: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.environment = Environment()
        self.dial_broker = self.dial_controller = self.environment.dial
        self.died: asyncio.Future[str] = self.loop.create_future()
        meta_properties.claim(self.environment.files, [directory], self.node_id, self.cluster_id)
        self.config = BrokerConfig.single_node(
            {
                "log.dirs": str(directory),
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )

    def clock_ms(self) -> int:
        return 1_700_000_000_000

    def advertised(self, listener_name: str) -> tuple[str, int]:
        raise KeyError(listener_name)

    def run_in_worker(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self.loop.run_in_executor(None, lambda: function(*args, **kwargs))


@asynccontextmanager
async def running(directory: Path, **properties: str) -> AsyncIterator[tuple[Quorum, Follower]]:
    quorum, follower = Quorum(Host(directory, **properties)), Follower()
    try:
        await quorum.open()
        quorum.listen(follower)
        await quorum.start()
        yield quorum, follower
    finally:
        await quorum.close()


async def commit(quorum: Quorum, *batches: str) -> None:
    """Append batches of records (`a,b` is a batch of two) and wait until they are committed."""
    end_offset = 0
    for batch in batches:
        end_offset = quorum.append([record(name) for name in batch.split(",")], 30)
    await until(lambda: quorum.high_watermark >= end_offset)


def test_batches_come_back_as_they_were_appended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (quorum, follower):
            assert follower.heard == ["0 1 control", "leader 1 in 1"]
            await commit(quorum, "a,b", "c")
            assert follower.heard[2:] == ["1 1 a,b", "3 1 c"]
            assert quorum.high_watermark == quorum.log_end_offset == 4
        async with running(tmp_path) as (quorum, follower):
            assert follower.heard == ["0 1 control", "1 1 a,b", "3 1 c", "4 2 control", "leader 1 in 2"]
            assert (quorum.leader_id, quorum.epoch, quorum.is_leader) == (1, 2, True)

    asyncio.run(scenario())


def test_a_snapshot_stands_for_what_was_before_it(tmp_path: Path) -> None:
    small = {
        "metadata_log_max_record_bytes_between_snapshots": "500",
        "internal_metadata_log_segment_bytes": "1000",
        "metadata_max_retention_bytes": "1",
    }

    async def scenario() -> None:
        async with running(tmp_path, **small) as (quorum, _):
            for i in range(40):
                await commit(quorum, f"n{i}")
        async with running(tmp_path, **small) as (_, follower):
            assert follower.heard[0].startswith("snapshot ")
            assert follower.names == [f"n{i}" for i in range(40)]

    asyncio.run(scenario())


def test_who_has_resigned_appends_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as (quorum, follower):
            quorum.resign(0, "an epoch long gone")
            assert quorum.is_leader
            quorum.resign(1, "cannot go on")
            with pytest.raises(KafkaError, match="not the active controller"):
                quorum.append([record("a")], 30)
            assert follower.heard[-1] == "leader None in 1"

    asyncio.run(scenario())


def test_a_failing_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_log: MetadataLog) -> int:
        raise StorageFailed("no space left on device")

    async def scenario() -> None:
        async with running(tmp_path) as (quorum, follower):
            monkeypatch.setattr(MetadataLog, "flush", fails)
            quorum.append([record("a")], 30)
            await until(lambda: len(follower.heard) > 2)
            assert follower.heard[2].endswith(
                "cannot be written: KAFKA_STORAGE_ERROR: no space left on device"
            )
            with pytest.raises(KafkaError, match="cannot be written"):
                quorum.append([record("b")], 30)

    asyncio.run(scenario())
