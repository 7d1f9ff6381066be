"""Tables kept in step with topics of changes: after random histories and crashes they equal the source."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from change_records import Change, SourceTable, versions, without_nulls
from mirrored_table import Mirror
from pyspark.sql import SparkSession

from long_run import repetitions
from penstock.spark import DeltaTarget, IcebergTarget, TargetTable

pytestmark = pytest.mark.spark

STEPS = 60
"""Changes of the source's table before each run of the query."""

MakeTopic = Callable[..., str]


@pytest.fixture
def delta_table(tmp_path: Path) -> TargetTable:
    pytest.importorskip("deltalake", reason="the extra delta is not installed")
    return DeltaTarget(str(tmp_path / "table"))


@pytest.fixture
def iceberg_table(tmp_path: Path) -> TargetTable:
    pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    return IcebergTarget("lake.inventory.orders", catalog_properties=properties)


@pytest.fixture(params=["delta_table", "iceberg_table"])
def table(request: pytest.FixtureRequest) -> TargetTable:
    found: TargetTable = request.getfixturevalue(request.param)
    return found


def test_a_delta_table_equals_the_source_after_a_crash(
    spark: SparkSession, servers: str, make_topic: MakeTopic, delta_table: TargetTable, tmp_path: Path
) -> None:
    mirror = Mirror(spark, servers, make_topic(3), delta_table, tmp_path / "checkpoint")
    mirror.change(STEPS)
    mirror.run(batch_size=STEPS, crash_after=1)
    assert sorted(mirror.found(), key=by_key) == current(mirror.source)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("partitions", [1, 3])
def test_current_rows(
    spark: SparkSession,
    servers: str,
    make_topic: MakeTopic,
    table: TargetTable,
    tmp_path: Path,
    partitions: int,
) -> None:
    mirror = mirror_of(spark, servers, make_topic, table, tmp_path, partitions)
    for _ in range(repetitions("PENSTOCK_MIRROR_ROUNDS", gate=1, long=4)):
        mirror.change(STEPS)
        mirror.run()
        assert sorted(mirror.found(), key=by_key) == current(mirror.source)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("partitions", [1, 3])
def test_all_versions_of_rows(
    spark: SparkSession,
    servers: str,
    make_topic: MakeTopic,
    table: TargetTable,
    tmp_path: Path,
    partitions: int,
) -> None:
    mirror = mirror_of(spark, servers, make_topic, table, tmp_path, partitions)
    for _ in range(repetitions("PENSTOCK_MIRROR_ROUNDS", gate=1, long=4)):
        mirror.change(STEPS)
        mirror.run(stored_as_scd_type=2)
        assert sorted(mirror.found(), key=by_key) == expected_versions(mirror.changes)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scd_type", ["1", "2"])
def test_kills_of_the_process_at_a_commit(
    spark: SparkSession,
    servers: str,
    make_topic: MakeTopic,
    delta_table: TargetTable,
    tmp_path: Path,
    scd_type: str,
) -> None:
    topic = make_topic()
    mirror = Mirror(spark, servers, topic, delta_table, tmp_path / "unused", with_truncates=True)
    mirror.change(STEPS * repetitions("PENSTOCK_MIRROR_KILLS", gate=1, long=2))
    driver = [sys.executable, str(Path(__file__).with_name("mirroring_driver.py"))]
    place = [servers, topic, str(tmp_path / "table"), str(tmp_path / "checkpoint"), scd_type]
    kills = 0
    while True:
        end = [str(mirror.random.choice((1, 2, 3))), mirror.random.choice(("before", "after"))]
        ended = subprocess.run([*driver, *place, *end], capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        kills += 1
    print("kills:", kills)
    expected = current(mirror.source) if scd_type == "1" else expected_versions(mirror.changes)
    assert sorted(mirror.found(), key=by_key) == expected


def mirror_of(
    spark: SparkSession, servers: str, make_topic: MakeTopic, table: TargetTable, path: Path, partitions: int
) -> Mirror:
    """Return a random table; it is truncated only if the topic has one partition, where that has an order."""
    topic = make_topic(partitions)
    return Mirror(spark, servers, topic, table, path / "checkpoint", with_truncates=partitions == 1)


def current(source: SourceTable) -> list[dict[str, Any]]:
    return [without_nulls(row) for _, row in sorted(source.rows.items())]


def expected_versions(changes: list[Change]) -> list[dict[str, Any]]:
    return sorted(
        (
            without_nulls(
                row | {"__START_AT": moment(start), "__END_AT": None if end is None else moment(end)}
            )
            for made in versions(changes).values()
            for start, end, row in made
        ),
        key=by_key,
    )


def moment(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).replace(microsecond=at_us % 1_000_000)


def by_key(row: dict[str, Any]) -> Any:
    return row["id"], row.get("__START_AT")
