"""A log is read line by line, each once and in order, whatever rotates it and whenever the task dies."""

import gzip
import os
import random
import shutil
from pathlib import Path

import pytest

from long_run import repetitions
from penstock.connect import ConfigDef, SourceTaskTest
from penstock.connect.connectors.files.source.growing_files import GrowingFile
from penstock.connect.connectors.files.source.rotation import logs_of
from penstock.connect.connectors.files.source.task import FilesSourceTask
from penstock.connect.connectors.formats.settings import define_formats, format_settings
from penstock.connect.data.records import Offset

LINES = format_settings(define_formats(ConfigDef()).parse({"input.format": "lines"}))


class Logger:
    """A program that writes numbered lines to a log, and rotates it in one of several ways."""

    def __init__(self, directory: Path, chance: random.Random, way: str) -> None:
        self.path = directory / "app.log"
        self._chance = chance
        self._way = way
        self._written = 0
        self._part = ""
        self._generation = 0
        self.path.touch()

    @property
    def lines(self) -> list[str]:
        return [f"line {number} {'x' * (number % 50)}" for number in range(self._written)]

    def write(self) -> None:
        """Add some lines, and maybe a part of the next one."""
        text = self._part
        self._part = ""
        for _ in range(self._chance.randint(0, 30)):
            text += f"line {self._written} {'x' * (self._written % 50)}\n"[len(self._part) :]
            self._written += 1
        cut = self._chance.randint(0, min(3, len(text))) if self._chance.random() < 0.3 else 0
        if cut:
            text, self._part = text[:-cut], text[-cut:]
        with self.path.open("a") as file:
            file.write(text)

    def rotate(self) -> None:
        """Rotate the log, whose last line is whole then."""
        if self._part:
            with self.path.open("a") as file:
                file.write(self._part)
            self._part = ""
        if not self.path.stat().st_size:
            return
        self._generation += 1
        if self._way == "dates":
            target = self.path.with_name(f"app.log-2026{self._generation:04}")
        else:
            target = self.path.with_name("app.log.1")
            self._shift()
        if self._way == "copytruncate":
            shutil.copyfile(self.path, target)
            os.truncate(self.path, 0)
        else:
            self.path.rename(target)
            self.path.touch()
        self._set_time(target)

    def _shift(self) -> None:
        """Rename app.log.1 to app.log.2 and so on; with ``gzip`` the older ones are compressed."""
        for number in range(20, 0, -1):
            for suffix in ("", ".gz"):
                old = self.path.with_name(f"app.log.{number}{suffix}")
                if not old.exists():
                    continue
                new = self.path.with_name(f"app.log.{number + 1}{suffix}")
                if self._way == "gzip" and not suffix:
                    new = new.with_name(f"{new.name}.gz")
                    new.write_bytes(gzip.compress(old.read_bytes()))
                    shutil.copystat(old, new)
                    old.unlink()
                else:
                    old.rename(new)

    def _set_time(self, target: Path) -> None:
        """Let the times of rotated files differ, though the test is faster than the file system's clock."""
        os.utime(target, ns=(self._generation * 10**9, self._generation * 10**9))


def config_of(path: Path) -> dict[str, str]:
    return {
        "input.path": str(path),
        "topic": "lines",
        "mode": "tail",
        "empty.poll.wait.ms": "1",
        "rotation.wait.ms": "0",
    }


@pytest.mark.longer
@pytest.mark.parametrize("way", ["rename", "dates", "copytruncate", "gzip"])
def test_each_line_is_read_once_and_in_order(way: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    for run in range(repetitions("PENSTOCK_LOGS", gate=4, long=2000)):
        directory = tmp_path / str(run)
        directory.mkdir()
        check_log(Logger(directory, chance, way), chance)


def check_log(logger: Logger, chance: random.Random) -> None:
    found: list[str] = []
    offset: Offset | None = None
    log = GrowingFile(str(logger.path), None, LINES, rotation_wait_s=0)

    def read() -> bool:
        nonlocal offset
        items = log.next(chance.choice([1, 7, 1000]))
        for item, after in items:
            found.append(item.value)
            offset = after
        return bool(items)

    while not read():
        logger.write()
    for _ in range(30):
        match chance.randint(0, 9):
            case 0 | 1:
                logger.rotate()
            case 2:
                log.close()  # a restart, at the offset that was stored with the last record
                log = GrowingFile(str(logger.path), offset, LINES, rotation_wait_s=0)
            case 3 | 4 | 5:
                read()
            case _:
                logger.write()
    logger.rotate()
    logger.write()
    logger.rotate()
    idle = 0
    while idle < 4:
        idle = 0 if read() else idle + 1
    assert found == logger.lines
    log.close()


def test_a_renamed_log_is_read_until_nothing_comes_any_more(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("one\ntwo")
    with SourceTaskTest(FilesSourceTask(), config_of(log) | {"rotation.wait.ms": "3600000"}) as test:
        assert [each.value for each in test.take(1)] == ["one"]
        with log.open("a") as file:
            log.rename(tmp_path / "app.log.1")
            log.write_text("new\n")
            assert test.poll() == []
            file.write(" and more\n")
            file.flush()
            assert [each.value for each in test.take(1)] == ["two and more"]
    with SourceTaskTest(FilesSourceTask(), config_of(tmp_path / "app.log*")) as test:
        assert [each.value for each in test.take(3)] == ["one", "two and more", "new"]


def test_a_log_may_appear_later_and_others_stay_apart(tmp_path: Path) -> None:
    with SourceTaskTest(FilesSourceTask(), config_of(tmp_path / "*.log")) as test:
        assert test.poll() == []
        (tmp_path / "a.log").write_text("a\n")
        (tmp_path / "a-errors.log").write_text("b\n")
        assert sorted(each.value for each in test.take(2)) == ["a", "b"]
        (tmp_path / "a.log").write_text("")  # truncated, without a copy
        assert test.poll() == []
        (tmp_path / "a.log").write_text("c\n")
        assert [each.value for each in test.take(1)] == ["c"]


def test_rotated_logs_are_read_though_the_one_of_the_offset_is_gone(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    for name, modified_s in (("app.log.2", 10), ("app.log.1", 20), ("app.log", 30)):
        (tmp_path / name).write_text(f"old {name}\n")
        os.utime(tmp_path / name, (modified_s, modified_s))
    with SourceTaskTest(FilesSourceTask(), config_of(log)) as test:
        assert [each.value for each in test.take(1)] == ["old app.log"]
        log.unlink()
        for name, modified_s in (("app.log.2", 40), ("app.log.1", 50)):  # app.log was the third
            (tmp_path / name).unlink()
            (tmp_path / name).write_text(f"new {name}\n")
            os.utime(tmp_path / name, (modified_s, modified_s))
        log.write_text("new app.log\n")
        test.restart(FilesSourceTask())
        expected = ["new app.log.2", "new app.log.1", "new app.log"]
        assert [each.value for each in test.take(3)] == expected


def test_older_logs_that_begin_with_the_same_lines_are_not_read_again(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    (tmp_path / "app.log.2.gz").write_bytes(gzip.compress(b"started\nold\n"))
    os.utime(tmp_path / "app.log.2.gz", (10, 10))
    log.write_text("started\n")
    os.utime(log, (20, 20))
    with SourceTaskTest(FilesSourceTask(), config_of(log)) as test:
        assert [each.value for each in test.take(1)] == ["started"]
        (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(b"started\nmore\n"))
        os.utime(tmp_path / "app.log.1.gz", (30, 30))
        (tmp_path / "new").write_text("started\nnew\n")
        (tmp_path / "new").rename(log)
        test.restart(FilesSourceTask())
        assert [each.value for each in test.take(3)] == ["more", "started", "new"]


def test_a_log_that_was_removed_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("one\ntwo")
    log = GrowingFile(str(path), None, LINES, rotation_wait_s=0)
    assert [each.item.value for each in log.next(10)] == ["one"]
    path.unlink()
    assert [each.item.value for each in log.next(10)] == ["two"]
    assert log.next(10) == []
    links = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [each for each in links if each.startswith(str(path))]
    path.write_text("three\n")
    assert [each.item.value for each in log.next(10)] == ["three"]
    log.close()


def test_names_of_rotated_files() -> None:
    for name in (
        "app.log.1",
        "app.log-20260101",
        "app.log.2.gz",
        "app.2026-01-01.log",
        "app-1.log.zst",
        "app.log.old",
    ):
        assert "/d/app.log" in logs_of(f"/d/{name}"), name
    for name in ("app.log", "app-errors.log", "app.log.tmp", "other.log.1"):
        assert "/d/app.log" not in logs_of(f"/d/{name}"), name
