"""The data of a killed process, and whether the next one may report that nothing was lost (KIP-966)."""

import errno
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_building import Clock, append_values

from penstock.protocol.batch import iter_headers
from penstock.storage.config import LogConfig
from penstock.storage.directories import run_file
from penstock.storage.directories.config import LogManagerConfig
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.disk import checkpoints
from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import StorageFailed
from penstock.storage.names import TopicPartition
from penstock.storage.partition.log import Log

TOPIC_ID = bytes(range(16))
FLIGHTS = TopicPartition("flights", 0)
CONFIG = LogConfig(segment_bytes=2000)
EPOCH = 7


def incarnation(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Killed(BaseException):
    """The process was killed in the middle of a call."""


class Machine(FileSystem):
    """The real file system on a simulated machine, which a test restarts and whose calls it makes fail."""

    def __init__(self) -> None:
        self.boot = 1
        self.failing: dict[str, BaseException] = {}
        """The planned failures by the name of the call."""

    def identity(self, fd: int) -> str | None:  # type: ignore[override]
        return f"boot {self.boot} inode {os.fstat(fd).st_ino}" if self.boot else None

    def _call(self, name: str) -> None:
        if name in self.failing:
            raise self.failing[name]

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        self._call("fdatasync")
        os.fdatasync(fd)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:  # type: ignore[override]
        self._call("pwrite")
        return os.pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:  # type: ignore[override]
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".log"):
            self._call("ftruncate")
        os.ftruncate(fd, size)

    def unlink(self, path: Path) -> None:  # type: ignore[override]
        self._call("unlink")
        os.unlink(path)

    def raise_lost_writes(self, fd: int) -> None:  # type: ignore[override]
        self._call("raise_lost_writes")


class Node:
    """A broker's storage across its processes, which are numbered and killed; see `start`."""

    def __init__(self, root: Path) -> None:
        self.machine = Machine()
        self.directories = [root / "d1", root / "d2"]
        self.registered = 0
        """The process that is registered with the cluster."""
        self.number = 0
        self.trust = True
        self.manager: LogManager | None = None

    def start(self, *, registers: bool = True) -> bool:
        """Start a new process; return whether it may report that no data of the registered one was lost."""
        self.kill()
        self.number += 1
        self.manager = LogManager(
            self.directories,
            node_id=1,
            clock=Clock(),
            files=self.machine,
            config=LogManagerConfig(penstock_trust_page_cache=self.trust),
        )
        before = incarnation(self.registered)
        self.manager.begin_run(
            incarnation(self.number), (before, EPOCH + self.registered) if self.registered else None
        )
        self.manager.load(lambda topic: CONFIG)
        is_whole = self.manager.is_whole(before)
        if registers:
            self.registered = self.number
        return is_whole

    def kill(self) -> None:
        if self.manager is not None:
            self.manager._executor.shutdown()
            self.manager._release()
            self.manager = None

    def stop(self) -> None:
        assert self.manager is not None
        self.manager.close(EPOCH + self.registered)
        self.manager = None

    @property
    def log(self) -> Log:
        assert self.manager is not None
        log = self.manager.get(*FLIGHTS) or self.manager.create(*FLIGHTS[:1], TOPIC_ID, 0, CONFIG)
        return log

    @property
    def directory(self) -> Path:
        """The directory of the log."""
        return self.log.directory.parent


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start()
    for number in range(10):
        append_values(node.log, b"%d" % number, b"x" * 50)
    yield node
    node.machine.failing.clear()
    node.kill()


def test_who_was_killed_has_lost_nothing_unless_the_machine_has_restarted(node: Node) -> None:
    assert node.start()
    assert node.start(), "and again"
    node.machine.boot = 2
    assert not node.start()
    assert node.start(), "of what was there after the restart nothing is lost"
    node.machine.boot = 0
    assert not node.start(), "this one tells of no restarts"
    assert not any((directory / run_file.FILE_NAME).exists() for directory in node.directories)


def test_who_is_killed_before_it_registers_changes_nothing(node: Node) -> None:
    assert node.start(registers=False)
    assert node.start(registers=False)
    assert node.start(), "the first one is registered still"
    node.start(registers=False)
    node.registered = node.number
    assert node.start(), "it had registered, and was killed before it knew"
    node.start(registers=False)
    late = node.number
    node.start(registers=False)
    assert node.manager is not None
    assert node.manager.is_whole(incarnation(late)), "its registration may be under way still"


def test_another_broker_that_ran_in_between_is_not_vouched_for(node: Node) -> None:
    node.registered = 99
    assert not node.start()


def test_a_clean_stop_vouches_over_restarts_of_the_machine(node: Node) -> None:
    node.stop()
    node.machine.boot = 2
    assert node.start(registers=False)
    assert node.start(), "killed before it registered, when the marker was gone"
    node.stop()
    for directory in node.directories:
        (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    node.machine.boot = 3
    assert not node.start(), "the marker is of another run"


@pytest.mark.parametrize("index", [0, 1])
def test_all_directories_have_to_vouch(node: Node, index: int) -> None:
    node.kill()
    (node.directories[index] / run_file.FILE_NAME).unlink()
    assert not node.start()
    assert node.start()
    node.kill()
    shutil.rmtree(node.directories[index])
    assert not node.start(), "a new disk"
    assert node.start()
    node.kill()
    shutil.rmtree(node.directories[index])
    node.directories[index].write_text("no directory")
    assert not node.start(), "it is offline"


def test_a_directory_that_was_copied_vouches_for_nothing(node: Node) -> None:
    node.kill()
    for directory in node.directories:
        shutil.copytree(directory, directory.with_name("copy"))
        directory.rename(directory.with_name(f"old-{directory.name}"))
        directory.with_name("copy").rename(directory)
    assert not node.start()


@pytest.mark.parametrize("content", ["", "void", "{}", "[1]", '{"version":0,"identity":null}', "\0" * 200])
def test_what_is_no_run_file_vouches_for_nothing(node: Node, content: str) -> None:
    node.kill()
    (node.directories[0] / run_file.FILE_NAME).write_text(content)
    assert not node.start()


def test_switched_off_a_kill_counts_as_a_loss_and_a_clean_stop_does_not(node: Node) -> None:
    node.trust = False
    assert not node.start()
    node.trust = True
    assert not node.start()
    node.trust = False
    node.stop()
    assert node.start()


def test_a_failed_sync_counts_as_a_loss_whatever_comes_later(node: Node) -> None:
    node.machine.failing["fdatasync"] = OSError(errno.EIO, "the disk is broken")
    with pytest.raises(StorageFailed):
        node.log.flush()
    node.machine.failing.clear()
    assert not node.start()
    assert node.start()


def test_a_failed_sync_is_remembered_though_nothing_can_be_removed(node: Node) -> None:
    for name in ("fdatasync", "unlink", "pwrite"):
        node.machine.failing[name] = OSError(errno.EIO, "the disk is broken")
    with pytest.raises(StorageFailed):
        node.log.flush()
    del node.machine.failing["pwrite"]
    assert node.manager is not None
    node.manager.tick(0)
    assert (node.directory / run_file.FILE_NAME).read_bytes()[:4] == b"void"
    node.machine.failing.clear()
    assert not node.start()


def test_a_write_that_was_taken_back_is_no_loss(node: Node) -> None:
    node.machine.failing["pwrite"] = OSError(errno.ENOSPC, "no space left")
    with pytest.raises(StorageFailed):
        append_values(node.log, b"too much")
    node.machine.failing.clear()
    assert node.start()


def test_what_the_kernel_could_not_write_meanwhile_is_a_loss(node: Node) -> None:
    node.kill()
    node.machine.failing["raise_lost_writes"] = OSError(errno.EIO, "lost")
    assert not node.start()
    node.machine.failing.clear()
    assert node.start()


def test_an_append_that_a_kill_has_torn_is_no_loss(node: Node) -> None:
    path, sound = node.log.segments.active.file.path, node.log.segments.active.size
    append_values(node.log, b"torn", b"y" * 100)
    data = path.read_bytes()
    for size in (*range(sound, sound + 20), *range(sound + 20, len(data), 20), len(data) - 1):
        node.kill()
        path.write_bytes(data[:size])
        assert node.start(), f"torn at byte {size - sound}"
        assert node.log.log_end_offset == 20
    node.kill()
    path.write_bytes(data[:sound] + bytes(3_000_000))
    assert node.start(), "room that was allocated ahead"


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_a_loss_and_known_as_one_before_anything_is_cut(node: Node, seed: int) -> None:
    rng = random.Random(seed)
    path = node.log.segments.active.file.path
    node.kill()
    data = bytearray(path.read_bytes())
    starts = [position for position, _ in iter_headers(data)]
    at = rng.randrange(len(starts) - 1)  # a damaged length in the last one looks like a torn append
    covered = [*range(starts[at] + 8, starts[at] + 12), *range(starts[at] + 17, starts[at + 1])]
    data[rng.choice((rng.choice(covered), covered[rng.randrange(4)]))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    node.machine.failing["ftruncate"] = Killed()
    with pytest.raises(Killed):
        node.start()
    node.machine.failing.clear()
    assert not node.start()
    assert node.log.log_end_offset < 20
    assert node.start(), "what the process had that found it is all there"


@pytest.mark.parametrize("name", [checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS])
def test_what_ends_below_what_was_committed_or_synced_is_a_loss(node: Node, name: str) -> None:
    directory, path = node.directory, node.log.segments.active.file.path
    first_batch = int.from_bytes(path.read_bytes()[8:12], "big") + 12
    node.kill()
    checkpoints.write_offsets(FileSystem(), directory / name, {FLIGHTS: 4})
    os.truncate(path, first_batch)
    assert not node.start()
    assert node.log.log_end_offset == 2


def test_the_run_file_names_processes_and_where_it_lies(node: Node) -> None:
    node.start()
    content = json.loads((node.directories[0] / run_file.FILE_NAME).read_text())
    assert content["incarnations"] == [incarnation(1).hex(), incarnation(2).hex()]
    assert content["identity"].startswith("boot 1 inode ")
