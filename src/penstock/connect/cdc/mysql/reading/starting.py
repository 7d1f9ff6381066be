"""Decides how a task starts: with a snapshot or without, and where the stream resumes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.connect.cdc.mysql.positions import ResumePoint, is_in_snapshot
from penstock.connect.cdc.mysql.reading.settings import SnapshotMode
from penstock.connect.errors import ChangesLost


class Start(NamedTuple):
    """Whether to take a snapshot, and where the stream starts; None stands for the end of the log."""

    takes_snapshot: bool
    resume: ResumePoint | None


def decide_start(mode: SnapshotMode, offset: Mapping[str, Any] | None, lost: str | None) -> Start:
    """Decide by the stored offset, and the reason why changes after it are lost, if they are.

    Raises:
        ChangesLost: the mode does not allow another snapshot.
    """
    if mode is SnapshotMode.ALWAYS:
        return Start(True, None)
    if offset is None or is_in_snapshot(offset):
        return Start(mode.reads_rows, None)
    if lost is None or mode is SnapshotMode.INITIAL_ONLY:
        return Start(False, ResumePoint.of(offset))
    if mode is SnapshotMode.WHEN_NEEDED:
        return Start(True, None)
    raise ChangesLost(
        f"{lost}, so changes after the stored offset are lost; take a new snapshot with "
        "snapshot.mode=when_needed, or delete the connector's offsets"
    )
