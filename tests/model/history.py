"""A history: the requests of concurrent clients and the responses to them, for `history_checker` to judge.

Every value is sent only once, so that a value identifies its send. An operation is one transaction, or sends
and polls without one.
"""

from dataclasses import dataclass
from enum import Enum

Partition = tuple[str, int]


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"  # surely without effect: aborted, or its commit was never requested
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Send:
    """A value sent; its offset where it was acknowledged with one."""

    partition: Partition
    value: str
    offset: int | None = None


@dataclass(frozen=True)
class Poll:
    """The records that one poll of one partition returned, in order."""

    partition: Partition
    records: tuple[tuple[int, str], ...]  # (offset, value)
    sought: bool = False  # this poll does not continue where the process's last one ended


@dataclass(frozen=True)
class Operation:
    """The steps of one process, in order; of a transactional operation all sends take effect, or none."""

    process: int
    steps: tuple[Send | Poll, ...]
    outcome: Outcome = Outcome.OK
    transactional: bool = False

    def sends(self) -> list[Send]:
        return [step for step in self.steps if isinstance(step, Send)]

    def polls(self) -> list[Poll]:
        return [step for step in self.steps if isinstance(step, Poll)]
