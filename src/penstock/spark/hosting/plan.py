"""What the processes of a host's query know: of the host by the query's options, of its members by files."""

from __future__ import annotations

import base64
import pickle
import uuid
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from penstock.spark.hosting.groups import PASSING, member_group
from penstock.spark.sink.locations import Location
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.ownership import Driver
from penstock.spark.streams.plan import StreamsPlan, plan_from_text
from penstock.spark.streams.worker import Worker

_FOLDER: Final = ("penstock", "members")
#: Of how many plans a process keeps code and state in memory.
_WORKERS_MAX: Final = 512


@dataclass(frozen=True)
class MemberPlan(StreamsPlan):
    """One member's. ``number``: by which its state is told from that of others."""

    number: int = 0

    @cached_property
    def groups(self) -> tuple[int, ...]:
        number = self.number if self.has_shuffle else PASSING
        return tuple(member_group(number, p, self.shuffle_partitions) for p in range(self.partitions_max))


@dataclass(frozen=True)
class HostPlan:
    """``tasks_max``: that read at the same time."""

    checkpoint: str
    tasks_max: int
    sink: SinkOptions
    driver: Driver

    def to_text(self) -> str:
        return base64.b85encode(pickle.dumps(self)).decode()

    @property
    def location(self) -> Location:
        return Location.open(self.checkpoint, "checkpoint")


@lru_cache(maxsize=4)
def host_from_text(text: str) -> HostPlan:
    plan: HostPlan = pickle.loads(base64.b85decode(text))
    return plan


def plan_file(where: Location, name: str) -> Location:
    """Of a member's plan, which never changes under its name."""
    return where.child(*_FOLDER, name)


def plan_name(number: int) -> str:
    """Of a plan of this member that there has not been yet."""
    return f"{number}-{uuid.uuid4().hex[:12]}"


def number_in(name: str) -> int:
    """Whose plan has this name."""
    return int(name.partition("-")[0])


def delete_plans(where: Location, number: int) -> None:
    """All that this member has had. Raises OSError."""
    folder = where.child(*_FOLDER)
    for name in list(folder.names()):
        if name.startswith(f"{number}-"):
            folder.child(name).remove_file()


class MissingPlan(RuntimeError):
    """The file of a member's plan is gone from the checkpoint."""


def read_plan(where: Location, name: str) -> MemberPlan:
    """The same object each time in one process. Raises MissingPlan."""
    text = plan_file(where, name).read()
    if text is None:
        raise MissingPlan(f"{plan_file(where, name).uri} is missing: expected the plan of a member")
    plan = plan_from_text(text.decode())
    assert isinstance(plan, MemberPlan)
    return plan


_workers: dict[tuple[str, str], Worker] = {}


def worker_of(where: Location, name: str) -> Worker:
    """This process's part of a member, by the name of its plan. Raises MissingPlan."""
    known = where.uri, name
    worker = _workers.pop(known, None)
    if worker is None:
        plan = read_plan(where, name)
        for key, other in list(_workers.items()):
            assert isinstance(other.plan, MemberPlan)
            if key[0] == where.uri and other.plan.number == plan.number:
                del _workers[key]
        while len(_workers) >= _WORKERS_MAX:
            del _workers[next(iter(_workers))]
        worker = Worker(plan)
    _workers[known] = worker  # the one used last is the last
    return worker


def forget(where: Location, number: int) -> None:
    """What this process has in memory of a member that is gone."""
    for key, worker in list(_workers.items()):
        assert isinstance(worker.plan, MemberPlan)
        if key[0] == where.uri and worker.plan.number == number:
            del _workers[key]
