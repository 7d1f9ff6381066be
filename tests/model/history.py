"""A history: what concurrent clients asked for and what they were told, for `history_checker` to judge.

Every value is sent once only, so that a value names its send. An operation is one transaction, or sends and
polls without one.
"""

from dataclasses import dataclass
from enum import Enum

Partition = tuple[str, int]


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"  # surely without effect: aborted, or commit was never asked for
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Send:
    """A value sent; its offset where it was acknowledged with one."""

    partition: Partition
    value: str
    offset: int | None = None


@dataclass(frozen=True)
class Poll:
    """What one poll of one partition returned, in order."""

    partition: Partition
    records: tuple[tuple[int, str], ...]  # (offset, value)
    sought: bool = False  # it does not go on where this process's last poll ended


@dataclass(frozen=True)
class Operation:
    """What one process did, one after another; transactional ones have all sends take effect, or none."""

    process: int
    steps: tuple[Send | Poll, ...]
    outcome: Outcome = Outcome.OK
    transactional: bool = False

    def sends(self) -> list[Send]:
        return [step for step in self.steps if isinstance(step, Send)]

    def polls(self) -> list[Poll]:
        return [step for step in self.steps if isinstance(step, Poll)]
