"""The members of a host and their state: changes to the roster, which the host's batches follow."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.spark.hosting.burial import delete_internals, delete_plans_of, to_bury
from penstock.spark.hosting.counting import WrittenFile
from penstock.spark.hosting.credentials import Credentials
from penstock.spark.hosting.plan import MemberPlan, plan_file, plan_name
from penstock.spark.hosting.positions import last_completed, position_in
from penstock.spark.hosting.roster import Member, Roster, RosterFile, Standing
from penstock.spark.hosting.troubles import Trouble, Troubles
from penstock.spark.sink.locations import Location
from penstock.spark.source.checkpointed import JsonOffsets
from penstock.spark.source.offsets import from_json

log = logging.getLogger(__name__)


class MemberState(NamedTuple):
    """The state of one member.

    ``error`` is the reason of its last failure, "" while it runs. ``troubles`` are the failures of the last
    hour since the host was started, the latest at the end.
    """

    standing: Standing
    error: str
    troubles: tuple[Trouble, ...] = ()


class Activity(NamedTuple):
    """The work of one member.

    ``read``: its position in each topic, as the sum of its offsets. ``written``: how many records it has
    written to each topic since it was added, including dead letters. ``dropped``: how many records each node
    has dropped by rule since then, such as late ones.
    """

    read: Mapping[str, int]
    written: Mapping[str, int]
    dropped: Mapping[str, int]


class UnknownMember(KeyError):
    """The error for a name that no member has."""

    def __str__(self) -> str:
        return str(self.args[0])


class Membership:
    """The members that the checkpoint ``where`` holds. Thread safe.

    A caller that makes several changes in one holds ``changing``.

    ``retry_s``: returns how long a member pauses after this many failures in a row.
    """

    def __init__(self, where: Location, retry_s: Callable[[int], float]) -> None:
        self.changing = threading.RLock()
        self._where = where
        self._file = RosterFile(where)
        self._roster = self._file.read()
        self._written = WrittenFile(where)
        self._troubles = Troubles(retry_s)

    # Changes; each one raises OSError.

    def add(
        self, name: str, prepared: Callable[[int], tuple[MemberPlan, JsonOffsets]], standing: Standing
    ) -> None:
        """Add a member, or give the member of this name a new plan; it then continues at its position.

        ``prepared`` returns the plan for a member's number, and the position where a new member begins.
        """
        with self.changing:
            known = self._roster.named(name)
            number = self._roster.next_number if known is None else known.number
            plan, begin = prepared(number)
            file = plan_name(number)
            plan_file(self._where, file).write(plan.stored())
            groups = plan.groups if plan.has_shuffle else ()
            if known is None:
                member = Member(number, name, file, standing, begin, groups)
            else:
                groups = tuple(dict.fromkeys((*known.groups, *groups)))
                member = replace(known, plan=file, standing=standing, groups=groups, error="")
            self._set(self._roster.with_member(member))
            self._troubles.settle(name)
            self._troubles.reset(name)

    def stand(self, name: str, standing: Standing) -> None:
        """Set a member's standing. Raises UnknownMember."""
        with self.changing:
            member = self._named(name)
            self._troubles.settle(name)
            if member.standing is not standing:
                self._set(self._roster.with_member(replace(member, standing=standing, error="")))

    def remove(self, name: str) -> None:
        """Move a member to the removed ones. Raises UnknownMember."""
        with self.changing:
            self._set(self._roster.without(self._named(name)))
            self._troubles.forget(name)

    def take_out(self, number: int, message: str) -> None:
        """Mark a member as failed at the start of its failed batch, which then runs again without it."""
        with self.changing:
            member = self._roster.by_number.get(number)
            if member is None:
                return
            begin = position_in(last_completed(self._where), member)
            failed = replace(
                member, standing=Standing.FAILED, begin=begin, starts=member.starts + 1, error=message
            )
            self._set(self._roster.with_member(failed))
            self._troubles.add(member.name, message)
            log.error("member failed and is paused member=%s error=%s", member.name, message)

    def retry(self) -> None:
        """Resume the failed members whose pause is over."""
        with self.changing:
            for name in self._troubles.due():
                self.stand(name, Standing.RUNNING)

    def bury(self, own: Credentials) -> None:
        """Delete the remains of removed members that no batch refers to.

        Raises ClientError, MissingPlan, MissingCredentials.
        """
        done = to_bury(self._where, self._file, self._roster)
        if not done:
            return
        delete_internals(self._where, own, done)
        with self.changing:
            self._set(self._roster.without_removed({member.number for member in done}))
        delete_plans_of(self._where, done)

    def _set(self, roster: Roster) -> None:
        roster = replace(roster, revision=self._roster.revision + 1)
        self._file.write(roster)
        self._roster = roster

    def _named(self, name: str) -> Member:
        found = self._roster.named(name)
        if found is None:
            known = ", ".join(sorted(member.name for member in self._roster.members)) or "none"
            raise UnknownMember(f"no member is named {name}, expected one of: {known}")
        return found

    # Queries

    @property
    def removed(self) -> tuple[str, ...]:
        """The names of removed members that are not yet deleted."""
        return tuple(member.name for member in self._roster.removed)

    def is_followed(self) -> bool:
        """Whether every batch planned before the last change has ended. Raises OSError."""
        return self._file.acknowledged() >= self._roster.revision

    def states(self) -> Mapping[str, MemberState]:
        with self.changing:
            return {
                member.name: MemberState(member.standing, member.error, self._troubles.of(member.name))
                for member in self._roster.members
            }

    def activity(self) -> Mapping[str, Activity]:
        """Return the activity of each member. Raises OSError."""
        completed, (written, dropped) = last_completed(self._where), self._written.read()
        with self.changing:
            members = self._roster.members
        found: dict[str, Activity] = {}
        for member in members:
            read: Counter[str] = Counter()
            for tp, offset in from_json(position_in(completed, member)).items():
                read[tp.topic] += offset
            number = member.number
            found[member.name] = Activity(read, written.get(number, {}), dropped.get(number, {}))
        return found
