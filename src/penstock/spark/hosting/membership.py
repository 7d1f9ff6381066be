"""Who belongs to a host, and how each stands: changes of the roster, which the host's batches follow."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.client.config import ClientConfig
from penstock.spark.hosting.burial import delete_internals, delete_plans_of, to_bury
from penstock.spark.hosting.counting import WrittenFile
from penstock.spark.hosting.plan import MemberPlan, plan_file, plan_name
from penstock.spark.hosting.positions import last_completed, position_in
from penstock.spark.hosting.roster import Member, Roster, RosterFile, Standing
from penstock.spark.hosting.troubles import Trouble, Troubles
from penstock.spark.sink.locations import Location
from penstock.spark.source.checkpointed import JsonOffsets
from penstock.spark.source.offsets import from_json

_log = logging.getLogger(__name__)


class MemberState(NamedTuple):
    """``error``: why it failed last, "" while it runs. ``troubles``: of the last hour, since the host was
    started; the latest at the end.
    """

    standing: Standing
    error: str
    troubles: tuple[Trouble, ...] = ()


class Activity(NamedTuple):
    """What a member has done. ``read``: how many offsets of each topic it is past; ``written``: how many
    records it has written to each since it was added, dead letters among them.
    """

    read: Mapping[str, int]
    written: Mapping[str, int]


class UnknownMember(KeyError):
    """No member has the name."""

    def __str__(self) -> str:
        return str(self.args[0])


class Membership:
    """As the checkpoint ``where`` keeps it. Thread safe; who does several things in one holds ``changing``.

    ``retry_s``: how long a member that has failed so many times in a row rests before it runs again.
    """

    def __init__(self, where: Location, retry_s: Callable[[int], float]) -> None:
        self.changing = threading.RLock()
        self._where = where
        self._file = RosterFile(where)
        self._roster = self._file.read()
        self._written = WrittenFile(where)
        self._troubles = Troubles(retry_s)

    # Changes. Each raises OSError.

    def add(
        self, name: str, prepared: Callable[[int], tuple[MemberPlan, JsonOffsets]], standing: Standing
    ) -> None:
        """``prepared`` gives the plan for a number, and where a new member begins; one of this name goes on
        where it was.
        """
        with self.changing:
            known = self._roster.named(name)
            number = self._roster.next_number if known is None else known.number
            plan, begin = prepared(number)
            file = plan_name(number)
            plan_file(self._where, file).write(plan.to_text().encode())
            groups = plan.groups if plan.has_shuffle else ()
            if known is None:
                member = Member(number, name, file, standing, begin, groups)
            else:
                groups = tuple(dict.fromkeys((*known.groups, *groups)))
                member = replace(known, plan=file, standing=standing, groups=groups, error="")
            self._set(self._roster.with_member(member))
            self._troubles.settle(name)
            self._troubles.begin_anew(name)

    def stand(self, name: str, standing: Standing) -> None:
        """Raises UnknownMember."""
        with self.changing:
            member = self._named(name)
            self._troubles.settle(name)
            if member.standing is not standing:
                self._set(self._roster.with_member(replace(member, standing=standing, error="")))

    def remove(self, name: str) -> None:
        """Raises UnknownMember."""
        with self.changing:
            self._set(self._roster.without(self._named(name)))
            self._troubles.forget(name)

    def take_out(self, number: int, message: str) -> None:
        """The batch that failed runs once more without this member, which goes back to where it began."""
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
            _log.error("%s failed and rests: %s", member.name, message)

    def retry(self) -> None:
        """Let those run that failed and have rested."""
        with self.changing:
            for name in self._troubles.due():
                self.stand(name, Standing.RUNNING)

    def bury(self, client: ClientConfig) -> None:
        """Delete what is left of members that no batch knows any more. Raises ClientError, MissingPlan."""
        done = to_bury(self._where, self._file, self._roster)
        if not done:
            return
        delete_internals(self._where, client, done)
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
            raise UnknownMember(f"found no member {name}, expected one of those that run: {known}")
        return found

    # Questions

    @property
    def removed(self) -> tuple[str, ...]:
        """The names of those of which something is left."""
        return tuple(member.name for member in self._roster.removed)

    def is_followed(self) -> bool:
        """Whether no batch is under way that was planned before the last change. Raises OSError."""
        return self._file.acknowledged() >= self._roster.revision

    def states(self) -> Mapping[str, MemberState]:
        with self.changing:
            return {
                member.name: MemberState(member.standing, member.error, self._troubles.of(member.name))
                for member in self._roster.members
            }

    def activity(self) -> Mapping[str, Activity]:
        """Of each member. Raises OSError."""
        completed, written = last_completed(self._where), self._written.read()
        with self.changing:
            members = self._roster.members
        found: dict[str, Activity] = {}
        for member in members:
            read: Counter[str] = Counter()
            for tp, offset in from_json(position_in(completed, member)).items():
                read[tp.topic] += offset
            found[member.name] = Activity(read, written.get(member.number, {}))
        return found
