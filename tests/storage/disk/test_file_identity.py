"""The identity of a file: the same for every open, different for every copy, mount and restart."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import failing_disk
import pytest

from penstock.storage.disk import file_identity


def identity(path: Path) -> str | None:
    fd = os.open(path, os.O_RDONLY)
    try:
        return file_identity.identity(fd)
    finally:
        os.close(fd)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("content")
    return path


@pytest.fixture
def known(file: Path) -> str:
    found = identity(file)
    if found is None:
        pytest.skip("temporary files lie neither on ext4 nor on XFS, or not on a block device")
    return found


def test_it_belongs_to_the_file(file: Path, known: str) -> None:
    file.write_text("other content")
    assert identity(file) == known
    renamed = file.rename(file.with_name("renamed"))
    assert identity(renamed) == known
    assert identity(Path(shutil.copy(renamed, file))) != known
    renamed.unlink()
    file.write_text("content")
    assert identity(file) != known


def test_a_restart_changes_it(
    file: Path, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("another\n")
    monkeypatch.setattr(file_identity, "BOOT_ID", boot_id)
    changed = identity(file)
    assert changed is not None
    assert changed.startswith("boot another ")
    boot_id.unlink()
    assert identity(file) is None


def test_a_mount_changes_it(file: Path, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test simulates mounts by directories of sysfs."""
    device = os.stat(file).st_dev
    block = tmp_path / "sys" / "dev" / "block"
    block.mkdir(parents=True)
    (block / f"{os.major(device)}:{os.minor(device)}").symlink_to("../../devices/disk/sda1")
    monkeypatch.setattr(file_identity, "SYSFS", tmp_path / "sys")
    assert identity(file) is None, "of a kind that isn't known"
    (tmp_path / "sys" / "fs" / "xfs" / "before").mkdir(parents=True)
    mounted = (tmp_path / "sys" / "fs" / "xfs" / "before").rename(tmp_path / "sys" / "fs" / "xfs" / "sda1")
    first = identity(file)
    assert first is not None
    assert " xfs sda1 " in first
    (tmp_path / "sys" / "fs" / "xfs" / "after").mkdir()
    mounted.rmdir()
    (tmp_path / "sys" / "fs" / "xfs" / "after").rename(mounted)
    assert identity(file) not in (None, first)


def test_what_is_on_no_disk_of_its_own_has_none() -> None:
    assert identity(Path("/proc/self/status")) is None


def test_a_real_mount_changes_it_and_a_write_that_failed_behind_everybody_s_back_is_told(
    tmp_path: Path,
) -> None:
    """The writer closed the file without a sync; the next process that opens it gets the error, once."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root, to mount a disk of its own")
    command = ["unshare", "-m", sys.executable, failing_disk.__file__, str(tmp_path)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    if "losetup" in ended.stderr:
        pytest.skip(f"needs loop devices: {ended.stderr.splitlines()[-1]}")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    before, after = found["identities"]
    assert before is not None
    assert before != after
    assert before.split(" mount ")[0] == after.split(" mount ")[0], "the same run of the kernel"
    assert before.split(" inode ")[1] == after.split(" inode ")[1], "the same file"
    assert (found["before"], found["again"]) == (None, None)
    assert found["told"] is not None
