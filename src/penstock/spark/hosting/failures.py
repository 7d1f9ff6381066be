"""Attribute a failed batch to a member: the error's text names it, since Spark passes on nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from penstock.client.errors import ClientError
from penstock.spark.sink.ownership import RunFenced
from penstock.spark.streams.running.failures import failure_of

_MEMBER: Final = re.compile(r"MemberFailed: member (\d+): (.*)", re.DOTALL)


class MemberFailed(RuntimeError):
    """An error that concerns one member only; the others could continue."""

    def __init__(self, number: int, error: BaseException) -> None:
        super().__init__(f"member {number}: {type(error).__name__}: {error}")


@contextmanager
def blaming(number: int) -> Iterator[None]:
    """Attribute an error raised inside to this member, unless brokers fail to answer, which affects all.

    Raises MemberFailed.
    """
    try:
        yield
    except MemberFailed:
        raise
    except ClientError as error:
        if error.retriable:
            raise
        raise MemberFailed(number, error) from error
    except Exception as error:
        raise MemberFailed(number, error) from error


class Failure(NamedTuple):
    """The reason why the host's query ended.

    ``number`` is the member that caused it, or None if no single member did. ``is_fenced`` is set if another
    host has taken over.
    """

    number: int | None
    message: str
    is_fenced: bool


def read_failure(text: str) -> Failure:
    """Parse a failure from the text of Spark's exception."""
    message = str(failure_of(text))
    found = _MEMBER.search(message)
    if found is not None:
        return Failure(int(found[1]), found[2], False)
    return Failure(None, message, RunFenced.__name__ in message)
