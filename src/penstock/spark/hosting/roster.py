"""The list of members: a file in the checkpoint that the host writes and the query's reader follows.

A member's state is kept under its number, which is never assigned to another member. ``starts`` counts how
often the member was set to the roster's position (``begin``) instead of the end of its last batch: when it
was added, and after each failure, because the batch planned for it must not run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, Final

from penstock.spark.hosting.groups import FIRST
from penstock.spark.sink.locations import Location
from penstock.spark.source.checkpointed import JsonOffsets

_FILE: Final = ("penstock", "roster.json")
_SEEN: Final = ("penstock", "roster-seen.json")
_VERSION: Final = 1
_REMOTE_MAX_AGE_S: Final = 1.0
"""How old the last read of a file may be if it isn't on a local disk, where a change is detected at once."""


class Standing(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Member:
    """One member. ``plan`` is its plan's file; ``groups`` are those that may hold its state."""

    number: int
    name: str
    plan: str
    standing: Standing
    begin: JsonOffsets
    groups: tuple[int, ...]
    starts: int = 1
    error: str = ""

    @property
    def is_running(self) -> bool:
        return self.standing is Standing.RUNNING


@dataclass(frozen=True, slots=True)
class Roster:
    """The members of a host; ``revision`` counts the writes."""

    members: tuple[Member, ...] = ()
    removed: tuple[Member, ...] = ()
    next_number: int = FIRST
    revision: int = 0

    @property
    def by_number(self) -> Mapping[int, Member]:
        return {member.number: member for member in self.members}

    def named(self, name: str) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def with_member(self, member: Member) -> Roster:
        """Replace the member of this number, or add it as the last."""
        others = [each for each in self.members if each.number != member.number]
        members = tuple(sorted([*others, member], key=lambda each: each.number))
        return replace(self, members=members, next_number=max(self.next_number, member.number + 1))

    def without(self, member: Member) -> Roster:
        members = tuple(each for each in self.members if each.number != member.number)
        return replace(self, members=members, removed=(*self.removed, member))

    def without_removed(self, numbers: set[int]) -> Roster:
        """Drop removed members once everything of them is deleted."""
        return replace(self, removed=tuple(each for each in self.removed if each.number not in numbers))

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": _VERSION,
                "next_number": self.next_number,
                "revision": self.revision,
                "members": [_fields(member) for member in self.members],
                "removed": [_fields(member) for member in self.removed],
            }
        ).encode()

    @classmethod
    def from_json(cls, data: bytes, uri: str) -> Roster:
        """Parse a roster. Raises RosterDamaged."""
        try:
            fields = json.loads(data)
            if fields["version"] > _VERSION:
                raise RosterDamaged(f"{uri} has version {fields['version']}, expected at most {_VERSION}")
            members, removed = (
                tuple(
                    Member(
                        **{
                            **each,
                            "standing": Standing(each["standing"]),
                            "groups": tuple(each["groups"]),
                        }
                    )
                    for each in fields[kind]
                )
                for kind in ("members", "removed")
            )
            return cls(members, removed, int(fields["next_number"]), int(fields.get("revision", 0)))
        except (ValueError, KeyError, TypeError):
            raise RosterDamaged(f"{uri} is damaged: {data[:80]!r}") from None


class RosterDamaged(RuntimeError):
    """The file does not hold a roster of this version."""


def _fields(member: Member) -> dict[str, Any]:
    return {**asdict(member), "standing": member.standing.value}


class RosterFile:
    """The roster's file in the checkpoint ``where``."""

    def __init__(self, where: Location) -> None:
        self._file = where.child(*_FILE)
        self._seen_file = where.child(*_SEEN)
        self._seen: object = None
        self._last = Roster()

    def write(self, roster: Roster) -> None:
        """Replace the file. Raises OSError."""
        self._file.write(roster.to_json())

    def read(self) -> Roster:
        """Return the roster, without members if there is no file. Raises RosterDamaged, OSError."""
        data = self._file.read()
        return Roster() if data is None else Roster.from_json(data, self._file.uri)

    def follow(self) -> Roster:
        """Return the same as `read`, cheaply enough to be called a hundred times a second."""
        now = self._state()
        if now != self._seen:
            self._last, self._seen = self.read(), now
        return self._last

    def acknowledge(self, roster: Roster) -> None:
        """Record that no batch follows an earlier roster any more. Raises OSError."""
        self._seen_file.write(json.dumps({"revision": roster.revision}).encode())

    def acknowledged(self) -> int:
        """The revision that batches follow, or -1 before the first one. Raises OSError."""
        data = self._seen_file.read()
        if data is None:
            return -1
        try:
            return int(json.loads(data)["revision"])
        except (ValueError, KeyError, TypeError):
            raise OSError(f"{self._seen_file.uri} is damaged: {data[:80]!r}") from None

    def _state(self) -> object:
        if not self._file.is_local:
            return int(time.monotonic() / _REMOTE_MAX_AGE_S)
        try:
            status = os.stat(self._file.path)
        except FileNotFoundError:
            return ()
        return status.st_mtime_ns, status.st_ino, status.st_size
