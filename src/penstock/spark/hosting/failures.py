"""Whose fault it is that a batch failed: the error says so, since Spark passes on nothing but its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from penstock.client.errors import ClientError
from penstock.spark.sink.ownership import RunFenced
from penstock.spark.streams.failures import failure_of

_MEMBER: Final = re.compile(r"MemberFailed: member (\d+): (.*)", re.DOTALL)


class MemberFailed(RuntimeError):
    """What one member met; the others could go on."""

    def __init__(self, number: int, error: BaseException) -> None:
        super().__init__(f"member {number}: {type(error).__name__}: {error}")


@contextmanager
def blaming(number: int) -> Iterator[None]:
    """What is raised inside is this member's fault, unless brokers don't answer, which they would to nobody.

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
    """Why the host's query ended. ``number``: whose fault it is, None: nobody's alone. ``is_fenced``: another
    host has taken over."""

    number: int | None
    message: str
    is_fenced: bool


def read_failure(text: str) -> Failure:
    """From what Spark tells."""
    message = str(failure_of(text))
    found = _MEMBER.search(message)
    if found is not None:
        return Failure(int(found[1]), found[2], False)
    return Failure(None, message, RunFenced.__name__ in message)
