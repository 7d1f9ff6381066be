"""The plans of a host, passed in the query's options, and of its members, kept in files of the checkpoint."""

from __future__ import annotations

import base64
import pickle
import uuid
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from penstock.registry.client.config import RegistryConfig
from penstock.spark.hosting import credentials
from penstock.spark.hosting.credentials import Credentials
from penstock.spark.hosting.groups import PASSING, member_group
from penstock.spark.sink.locations import Location
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.ownership import Driver
from penstock.spark.streams.planning.plan import StreamsPlan, pickled_in, text_of
from penstock.spark.streams.tasks.worker import Worker

_FOLDER: Final = ("penstock", "members")
_WORKERS_MAX: Final = 512
"""The number of plans whose code and state a process keeps in memory."""


@dataclass(frozen=True)
class MemberPlan(StreamsPlan):
    """The plan of one member, whose state is kept under ``number``."""

    number: int = 0

    @cached_property
    def groups(self) -> tuple[int, ...]:
        number = self.number if self.has_shuffle else PASSING
        return tuple(member_group(number, p, self.shuffle_partitions) for p in range(self.partitions_max))

    def stored(self) -> bytes:
        """The content of the plan's file, without credentials."""
        return text_of(credentials.dumps(self)).encode()


@dataclass(frozen=True)
class HostPlan:
    """The plan of a host.

    ``tasks_max`` is the number of tasks that read at the same time. ``registry`` has the credentials for the
    schema registry that members use.
    """

    checkpoint: str
    tasks_max: int
    sink: SinkOptions
    driver: Driver
    registry: RegistryConfig | None = None

    @property
    def credentials(self) -> Credentials:
        """The credentials that its members' stored plans do not have."""
        return Credentials(self.sink.client, self.registry)

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
    """Return the file of a member's plan; the content under one name never changes."""
    return where.child(*_FOLDER, name)


def plan_name(number: int) -> str:
    """Return a new name for a plan of this member."""
    return f"{number}-{uuid.uuid4().hex[:12]}"


def number_in(name: str) -> int:
    """Return the number of the member whose plan has this name."""
    return int(name.partition("-")[0])


def delete_plans(where: Location, number: int) -> None:
    """Delete all plans that this member has had. Raises OSError."""
    folder = where.child(*_FOLDER)
    for name in list(folder.names()):
        if name.startswith(f"{number}-"):
            folder.child(name).remove_file()


class MissingPlan(RuntimeError):
    """The checkpoint no longer has the file of a member's plan."""


def read_plan(where: Location, name: str, own: Credentials) -> MemberPlan:
    """Read a member's plan; one process gets the same object each time.

    Raises MissingPlan, MissingCredentials.
    """
    stored = plan_file(where, name).read()
    if stored is None:
        raise MissingPlan(f"{plan_file(where, name).uri} is missing: expected the plan of a member")
    return _restored(stored, own)


@lru_cache(maxsize=4)
def _restored(stored: bytes, own: Credentials) -> MemberPlan:
    plan = credentials.loads(pickled_in(stored.decode()), own)
    assert isinstance(plan, MemberPlan)
    return plan


_workers: dict[tuple[str, str, Credentials], Worker] = {}


def worker_of(host: HostPlan, name: str) -> Worker:
    """Return this process's worker for a member, by the name of its plan.

    Raises MissingPlan, MissingCredentials.
    """
    known = host.checkpoint, name, host.credentials
    worker = _workers.pop(known, None)
    if worker is None:
        plan = read_plan(host.location, name, host.credentials)
        for key, other in list(_workers.items()):
            assert isinstance(other.plan, MemberPlan)
            if key[0] == host.checkpoint and other.plan.number == plan.number:
                del _workers[key]
        while len(_workers) >= _WORKERS_MAX:
            del _workers[next(iter(_workers))]
        worker = Worker(plan)
    _workers[known] = worker  # the most recently used worker is the last
    return worker


def forget(host: HostPlan, number: int) -> None:
    """Drop this process's memory of a member that was removed."""
    for key, worker in list(_workers.items()):
        assert isinstance(worker.plan, MemberPlan)
        if key[0] == host.checkpoint and worker.plan.number == number:
            del _workers[key]
