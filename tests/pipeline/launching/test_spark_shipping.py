"""The files sent to executors: complete, without unusable ones, and built once for the same content."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import penstock
from penstock.spark.launching.session import settings_for, with_library
from penstock.spark.launching.shipping import (
    DIRECTORY,
    DRIVER_NEEDS,
    EXECUTOR_NEEDS,
    CannotShip,
    make_library,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package that lies next to an application."""
    package = tmp_path / "beside_the_app"
    (package / "tables").mkdir(parents=True)
    (package / "__init__.py").write_text("from beside_the_app.tables import RATE\n")
    (package / "tables" / "__init__.py").write_text("RATE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import beside_the_app  # type: ignore[import-not-found]

    module: ModuleType = beside_the_app
    return module


def test_the_library_is_enough_to_work_with_topics_and_topologies(beside: ModuleType, tmp_path: Path) -> None:
    """The library runs in a Python that has only the packages of Spark's workers, and nothing of Spark."""
    library = make_library([beside], cache=tmp_path / "cache")
    program = (
        f"import sys; sys.path.insert(0, {str(library.directory)!r})\n"
        "import penstock.client.reading.fetcher, penstock.client.producing.producer\n"
        "import penstock.protocol.compression\n"
        "import penstock.streams, beside_the_app, penstock\n"
        "print(penstock.__file__, beside_the_app.RATE)"
    )
    words = [sys.executable, "-I", "-S", "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == [str(library.directory / "penstock" / "__init__.py"), "3"], done.stderr


def test_the_archive_has_the_same_files_and_no_sources_of_kernels(tmp_path: Path) -> None:
    library = make_library(cache=tmp_path)
    with tarfile.open(library.archive) as archive:
        names = set(archive.getnames())
    unpacked = (path for path in library.directory.rglob("*") if path.is_file())
    assert names == {path.relative_to(library.directory).as_posix() for path in unpacked}
    kernels = Path(penstock.__file__).parent / "protocol" / "kernels"
    compiled = {f"penstock/protocol/kernels/{path.name}" for path in kernels.glob("*.so")}
    assert compiled <= names
    assert {
        "penstock/__main__.py",
        "penstock/spark/launching/log4j2.properties",
        "pyspark_penstock/__init__.py",
    } <= names
    assert not [name for name in names if name.endswith((".pyx", ".c", ".pyc"))]


def test_it_is_made_anew_when_something_has_changed(beside: ModuleType, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = make_library([beside], cache=cache)
    made_ns = first.archive.stat().st_mtime_ns
    assert make_library([beside], cache=cache) == first
    assert first.archive.stat().st_mtime_ns == made_ns
    assert beside.__file__ is not None
    Path(beside.__file__).with_name("more.py").touch()
    assert make_library([beside], cache=cache) != first


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        CannotShip, match="the package no-such-package, which executors need, is not installed"
    ):
        make_library(needs=["no-such-package"], cache=tmp_path)


def test_a_driver_on_the_cluster_gets_all_that_penstock_depends_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}  # type: ignore[index]
    assert set(DRIVER_NEEDS) == names
    assert set(EXECUTOR_NEEDS) < names


def test_own_archives_and_paths_of_executors_stay() -> None:
    given = {"spark.archives": "env.tar.gz#env", "spark.executorEnv.PYTHONPATH": "env/lib"}
    settings = with_library(given, Path("/cache/library.tar.gz"))
    assert settings["spark.archives"] == f"/cache/library.tar.gz#{DIRECTORY},env.tar.gz#env"
    assert settings["spark.executorEnv.PYTHONPATH"] == f"{DIRECTORY}:env/lib"
    assert with_library({}, Path("/x"))["spark.archives"] == f"/x#{DIRECTORY}"


def test_settings_of_your_own_go_before_those_of_a_profile() -> None:
    java = "spark.driver.extraJavaOptions"
    assert settings_for("local[2]", "low-latency", {})[java] == "-XX:TieredStopAtLevel=1"
    mixed = settings_for("local[2]", "low-latency", {java: "-XX:TieredStopAtLevel=4"})[java]
    assert mixed.split()[-1] == "-XX:TieredStopAtLevel=4"  # Java takes the last of repeated options
    cluster = settings_for("spark://one:7077", "throughput", {"spark.ui.enabled": "true"})
    assert cluster["spark.executor.extraJavaOptions"] == "-XX:+UseParallelGC"
    assert cluster["spark.ui.enabled"] == "true"
    # Settings for a local disk must not apply to storage that a cluster may share.
    assert "spark.sql.streaming.checkpointFileManagerClass" not in cluster
    assert "spark.driver.host" not in cluster
    assert int(settings_for("local[*]", "steady", {})["spark.sql.shuffle.partitions"]) <= (
        os.cpu_count() or 1
    )
