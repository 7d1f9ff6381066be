"""Class data of the JVM: recorded once, used when it is whole, and never in the way."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from penstock.spark.launching.class_data import class_data_options
from penstock.spark.launching.java import Java

WHOLE = (0xF00BABA8).to_bytes(4, "little") + b"the rest"


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return tmp_path / "spark"


@pytest.fixture
def java(tmp_path: Path) -> Java:
    executable = tmp_path / "java"
    executable.touch()
    return Java(executable, 21, "PATH")


def recording_of(options: str) -> Path:
    match = re.match(r"-XX:ArchiveClassesAtExit=(\S+)", options)
    assert match is not None, options
    return Path(match[1])


def test_the_first_jvm_records_and_later_ones_use_it(java: Java, spark_home: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    recording = recording_of(class_data_options(java, spark_home, cache))
    assert class_data_options(java, spark_home, cache) == ""  # another process is recording
    recording.write_bytes(WHOLE)
    options = class_data_options(java, spark_home, cache).split()
    [archive] = cache.iterdir()
    assert options[:2] == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    assert archive.read_bytes() == WHOLE


def test_a_recording_that_was_cut_off_is_not_used_but_done_again(
    java: Java, spark_home: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    recording = recording_of(class_data_options(java, spark_home, cache))
    recording.write_bytes(bytes(4) + b"the rest")
    os.utime(recording, (0, 0))
    recording_of(class_data_options(java, spark_home, cache))


def test_another_java_or_other_jars_have_files_of_their_own(
    java: Java, spark_home: Path, tmp_path: Path
) -> None:
    first = recording_of(class_data_options(java, spark_home, tmp_path)).name
    newer = Java(java.executable, 25, "PATH")
    assert recording_of(class_data_options(newer, spark_home, tmp_path)).name != first
    os.utime(spark_home / "jars", (1, 1))
    assert recording_of(class_data_options(java, spark_home, tmp_path)).name != first


def test_without_a_cache_that_can_be_written_spark_starts_as_ever(java: Java, spark_home: Path) -> None:
    assert class_data_options(java, spark_home, java.executable / "no directory") == ""
