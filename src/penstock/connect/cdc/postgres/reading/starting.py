"""Decides how a task starts: with a snapshot or without, and where the stream resumes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from penstock.connect.cdc.postgres.framing import format_lsn
from penstock.connect.cdc.postgres.reading.resuming import SLOT_POSITION, ResumePoint
from penstock.connect.cdc.postgres.reading.slots import SlotState
from penstock.connect.errors import ChangesLost, ConfigInvalid


class SnapshotMode(Enum):
    """``snapshot.mode``: when rows are read, before changes are streamed or without."""

    ALWAYS = "always"
    INITIAL = "initial"
    INITIAL_ONLY = "initial_only"
    NO_DATA = "no_data"
    WHEN_NEEDED = "when_needed"

    @staticmethod
    def of(text: str) -> SnapshotMode:
        """Read Debezium's property; `never` is an old name of `no_data`. Raises ConfigInvalid."""
        name = text.strip().lower()
        for mode in SnapshotMode:
            if name in (mode.value, "never" if mode is SnapshotMode.NO_DATA else mode.value):
                return mode
        allowed = ", ".join(mode.value for mode in SnapshotMode)
        raise ConfigInvalid(f"snapshot.mode is {text!r}; expected one of {allowed}")


class Start(NamedTuple):
    """Whether to take a snapshot, and where the stream starts.

    Without a place to resume, the stream starts at the snapshot, or at the slot's own position.
    """

    takes_snapshot: bool
    resume: ResumePoint | None


def decide_start(
    mode: SnapshotMode, offset: Mapping[str, Any] | None, slot: SlotState | None, slot_name: str, end: int
) -> Start:
    """Decide by the stored offset, the slot and the end of the server's WAL.

    Raises:
        ChangesLost: changes after the offset are gone, and the mode does not allow another snapshot.
    """
    if mode is SnapshotMode.ALWAYS:
        return Start(True, None)
    if offset is None or _is_in_snapshot(offset):
        if slot is not None and slot.is_lost and mode is SnapshotMode.NO_DATA:
            raise ChangesLost(f"the server has discarded the WAL of the slot {slot_name}; drop the slot")
        return Start(mode is not SnapshotMode.NO_DATA, _after_snapshot(mode, slot))
    resume = ResumePoint.of(offset)
    if mode is SnapshotMode.INITIAL_ONLY:
        return Start(False, resume)
    problem = _problem(resume, slot, slot_name, end) or _moved(offset, slot, slot_name)
    if problem is None:
        return Start(False, resume)
    if mode is SnapshotMode.WHEN_NEEDED:
        return Start(True, None)
    raise ChangesLost(
        f"{problem}, so changes after the stored offset are lost; take a new snapshot with "
        "snapshot.mode=when_needed, or delete the connector's offsets"
    )


def _after_snapshot(mode: SnapshotMode, slot: SlotState | None) -> ResumePoint | None:
    """Return where the stream starts after a snapshot that may be a repeated one.

    An earlier snapshot that was cut off may have left rows in the topics. A row that was deleted since then
    is not in the new snapshot, so its delete must come from the stream. The slot still has it, because
    nothing is confirmed while a snapshot is read.
    """
    if mode is SnapshotMode.NO_DATA or slot is None or slot.is_lost:
        return None
    return ResumePoint(slot.confirmed)


def _is_in_snapshot(offset: Mapping[str, Any]) -> bool:
    """Whether the offset is of a record in the middle of a snapshot, which has to begin again."""
    is_snapshot = bool(offset.get("snapshot")) and not offset.get("messageType")
    return is_snapshot and not (offset.get("snapshot_completed") or offset.get("last_snapshot_record"))


def _moved(offset: Mapping[str, Any], slot: SlotState | None, slot_name: str) -> str | None:
    """Whether the slot is beyond the stored offset, if offsets tell how far it may be."""
    allowed = offset.get(SLOT_POSITION)
    if slot is None or allowed is None or slot.confirmed <= allowed:
        return None
    return (
        f"the slot {slot_name} is at {format_lsn(slot.confirmed)}, beyond {format_lsn(allowed)} of the "
        "stored offset: someone else moved it, or it was created again"
    )


def _problem(resume: ResumePoint, slot: SlotState | None, slot_name: str, end: int) -> str | None:
    if slot is None:
        return f"the slot {slot_name} does not exist"
    if slot.is_lost:
        return f"the server has discarded the WAL of the slot {slot_name}"
    if resume.start > end:
        return (
            f"the stored offset {format_lsn(resume.start)} is beyond the end of the server's WAL, "
            f"{format_lsn(end)}, which is another server or an older state of it"
        )
    return None
