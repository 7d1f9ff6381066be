"""The logs of a node across clean and unclean starts and stops."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_building import Clock, append_values, read_all

from penstock.storage.config import LogConfig
from penstock.storage.directories import log_manager
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.disk import checkpoints
from penstock.storage.errors import InconsistentTopicId, LogDirectoryError
from penstock.storage.names import TopicPartition
from waiting import wait_until

TOPIC_ID = bytes(range(16))
LATER_TOPIC_ID = bytes(range(1, 17))
CONFIG = LogConfig(segment_bytes=2000)


class Node:
    """A manager that a test starts and stops on the same directories."""

    def __init__(self, root: Path) -> None:
        self.directories = [root / "d1", root / "d2"]
        self.clock = Clock()
        self.marks: dict[TopicPartition, int] = {}
        self.manager = self.start()

    def start(self) -> LogManager:
        self.manager = LogManager(
            self.directories, node_id=1, clock=self.clock, high_watermarks=lambda: self.marks
        )
        self.manager.load(lambda topic: CONFIG)
        return self.manager

    def kill(self) -> None:
        """Simulate the death of the process: nothing is closed, but the locks are released."""
        self.manager._executor.shutdown()
        self.manager._release()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.kill()


def test_create_stop_start(node: Node) -> None:
    created = [node.manager.create("flights", TOPIC_ID, p, CONFIG) for p in range(4)]
    for log in created:
        append_values(log, b"%d" % log.name.partition)
    assert node.manager.create("flights", TOPIC_ID, 0, CONFIG) is created[0]
    assert [len(list(d.glob("flights-*"))) for d in node.directories] == [2, 2], "spread evenly"
    node.marks = {TopicPartition("flights", 2): 1}
    cluster_id = node.manager.cluster_id
    node.manager.close(broker_epoch=44)
    for directory in node.directories:
        assert json.loads((directory / ".kafka_cleanshutdown").read_text()) == {
            "version": 0,
            "brokerEpoch": 44,
        }
    manager = node.start()
    assert not any((directory / ".kafka_cleanshutdown").exists() for directory in node.directories)
    assert manager.cluster_id == cluster_id
    assert manager.checkpointed_high_watermark("flights", 2) == 1
    assert len(manager) == 4
    for log in manager:
        assert read_all(log) == [(0, b"%d" % log.name.partition)]
        assert log.topic_id == TOPIC_ID
        assert log.recovery_point == 1


def test_kill_and_start(node: Node) -> None:
    log = node.manager.create("flights", TOPIC_ID, 0, CONFIG)
    for i in range(50):
        append_values(log, b"%d" % i * 20)
    log.delete_records_before(3)
    node.manager.checkpoint_log_start_offsets()
    with (log.directory / "00000000000000000000.log").open("ab") as file:
        file.write(b"torn")
    content = read_all(log)
    node.kill()
    manager = node.start()
    again = manager.get("flights", 0)
    assert again is not None
    assert len(content) == 47
    assert read_all(again) != []
    assert again.topic_id == TOPIC_ID, "written before anything was flushed"
    node.manager.close()


def test_what_was_recovered_is_not_recovered_again(node: Node) -> None:
    """This holds however soon the next kill follows."""
    names = [TopicPartition("flights", 0), TopicPartition("flights", 1)]
    for name in names:
        log = node.manager.create(name.topic, TOPIC_ID, name.partition, CONFIG)
        wait_until(lambda log=log: not log.unflushed_messages and log.last_flush_ms)
        append_values(log, b"a", b"b")
    node.kill()
    manager = node.start()
    for name in names:
        manager.create(name.topic, TOPIC_ID, name.partition, CONFIG)
    for directory in node.directories:
        points = directory / checkpoints.RECOVERY_POINTS
        wait_until(lambda file=points: set(checkpoints.read_offsets(file).values()) == {2})


def test_checkpoints_at_their_intervals(node: Node) -> None:
    log = node.manager.create("flights", TOPIC_ID, 0, CONFIG)
    directory = log.directory.parent
    append_values(log, b"a", b"b")
    log.delete_records_before(1)
    log.flush()
    node.marks = {log.name: 2}
    node.manager.tick(node.clock())
    node.manager.tick(node.clock() + 60_000)
    for name, offset in (
        (checkpoints.RECOVERY_POINTS, 2),
        (checkpoints.LOG_START_OFFSETS, 1),
        (checkpoints.HIGH_WATERMARKS, 2),
    ):
        wait_until(lambda n=name, o=offset: checkpoints.read_offsets(directory / n) == {log.name: o})


def test_a_roll_is_flushed_soon(node: Node) -> None:
    log = node.manager.create("flights", TOPIC_ID, 0, CONFIG)
    while len(log.segments) < 3:
        append_values(log, b"x" * 100)
    wait_until(lambda: log.recovery_point >= log.segments.active.base_offset)


def test_flush_ms(node: Node) -> None:
    log = node.manager.create("flights", TOPIC_ID, 0, LogConfig(flush_ms=2_000))
    append_values(log, b"x")
    node.manager.tick(node.clock())
    assert log.recovery_point == 0
    node.manager.tick(node.clock() + 2_000)
    wait_until(lambda: log.recovery_point == 1)


def test_delete_renames_at_once_and_removes_later(node: Node) -> None:
    log = node.manager.create("flights", TOPIC_ID, 0, CONFIG)
    append_values(log, b"kept by the reader")
    piece = log.read(0, 100)
    node.manager.delete("flights", 0)
    assert node.manager.get("flights", 0) is None
    renamed = [path for d in node.directories for path in d.glob("flights-0.*-delete")]
    assert len(renamed) == 1
    log.flush()
    new = node.manager.create("flights", bytes(16), 0, CONFIG)
    assert new.log_end_offset == 0
    assert new.topic_id == bytes(16)
    node.manager.remove_deleted_files(node.clock() + 59_999)
    assert renamed[0].exists()
    node.manager.remove_deleted_files(node.clock() + 60_000)
    assert not renamed[0].exists()
    assert piece is not None
    assert b"kept by the reader" in piece.read()


def test_a_topic_half_deleted_is_removed_after_the_start(node: Node) -> None:
    node.manager.create("flights", TOPIC_ID, 0, CONFIG)
    node.manager.delete("flights", 0)
    node.kill()
    manager = node.start()
    assert len(manager) == 0
    manager.remove_deleted_files(node.clock())
    assert not [path for d in node.directories for path in d.glob("*-delete")]


def test_another_topic_of_that_name_is_refused(node: Node) -> None:
    node.manager.create("flights", TOPIC_ID, 0, CONFIG)
    with pytest.raises(InconsistentTopicId):
        node.manager.create("flights", bytes(16), 0, CONFIG)


def test_a_second_node_is_refused_in_this_process_and_in_another(node: Node) -> None:
    with pytest.raises(LogDirectoryError, match=r"d1 is in use by another node"):
        LogManager([node.directories[0]], node_id=1, clock=node.clock)
    script = (
        "import sys, pathlib; from penstock.storage.directories.log_manager import LogManager\n"
        "LogManager([pathlib.Path(sys.argv[1])], node_id=1, clock=lambda: 0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(node.directories[1])], capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert "d2 is in use by another node; stop that one" in found.stderr
    node.manager.close()
    fd = os.open(node.directories[0] / ".lock", os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    node.start()


def test_a_directory_that_is_no_partition_is_named(node: Node) -> None:
    node.manager.close()
    (node.directories[0] / "holiday photos").mkdir()
    with pytest.raises(LogDirectoryError, match="holiday photos is not named"):
        node.start()


def test_the_metadata_log_is_left_to_the_controller(node: Node) -> None:
    node.manager.close()
    (node.directories[0] / "__cluster_metadata-0").mkdir()
    assert len(node.start()) == 0


def test_retention_runs_by_the_tick(node: Node) -> None:
    config = LogConfig(segment_bytes=300, retention_bytes=300, file_delete_delay_ms=0)
    log = node.manager.create("flights", TOPIC_ID, 0, config)
    for _ in range(6):
        append_values(log, b"x" * 150)
    node.marks = {log.name: 3}
    node.manager.tick(node.clock())
    node.manager.tick(node.clock() + 300_000)
    assert log.log_start_offset == 3
    wait_until(lambda: not list(log.directory.glob("*.deleted")))


def test_retention_reaches_every_log_however_short_the_interval(node: Node) -> None:
    node.manager.config = node.manager.config._replace(log_retention_check_interval_ms=1)
    config = LogConfig(segment_bytes=300, retention_bytes=300, file_delete_delay_ms=0)
    for partition in range(2 * log_manager._RETAINED_LOGS_PER_TICK):
        log = node.manager.create("many", TOPIC_ID, partition, config)
    for value in range(10):
        append_values(log, b"%d" % value)
    node.marks = {log.name: 10}
    for _ in range(3):
        node.clock.now_ms += 1000
        node.manager.tick(node.clock())
    assert log.log_start_offset > 0


@pytest.mark.parametrize("away", [0, 1], ids=["the first directory", "the second"])
@pytest.mark.parametrize("known", [LATER_TOPIC_ID, TOPIC_ID, None], ids=["later", "earlier", "neither"])
def test_a_disk_brings_back_a_log_of_an_earlier_topic_of_the_name(
    node: Node, tmp_path: Path, away: int, known: bytes | None
) -> None:
    append_values(node.manager.create("flights", TOPIC_ID, 0, CONFIG), b"earlier")
    node.manager.close()
    (found,) = tmp_path.glob("d?/flights-0")
    found.rename(tmp_path / "earlier")
    append_values(node.start().create("flights", LATER_TOPIC_ID, 0, CONFIG), b"later")
    node.manager.close()
    (found,) = tmp_path.glob("d?/flights-0")
    (tmp_path / "earlier").rename(node.directories[away] / "flights-0.back")
    found.rename(node.directories[1 - away] / "flights-0.back")
    for directory in node.directories:
        (directory / "flights-0.back").rename(directory / "flights-0")
    manager = node.start()
    manager.settle_rivals(lambda topic: known)
    (served,) = manager
    assert known in (None, served.topic_id)
    if known is not None:
        assert read_all(served) == [(0, b"later" if known == LATER_TOPIC_ID else b"earlier")]
    (stray,) = tmp_path.glob("d?/flights-0.*-stray")
    assert stray.parent != served.directory.parent
    manager.close()
    assert [log.topic_id for log in node.start()] == [served.topic_id], "once settled, for good"
