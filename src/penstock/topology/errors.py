"""Errors in topologies, in records, and in user code that processes a record.

An error in user code, or bytes that a serde can't read, affect one record. `ErrorPolicy` decides what happens
to it: the application stops with a `RecordFailed` that names node and record, or the record goes to the
dead-letter topic, as read, with the header names of KIP-1034. No record is ever turned into a null. Another
policy may write something else for the record.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.topology.records import Headers, Input, Origin, Output

EXCEPTION_HEADER: Final = "__streams.errors.exception"
STACKTRACE_HEADER: Final = "__streams.errors.stacktrace"
MESSAGE_HEADER: Final = "__streams.errors.message"
TOPIC_HEADER: Final = "__streams.errors.topic"
PARTITION_HEADER: Final = "__streams.errors.partition"
OFFSET_HEADER: Final = "__streams.errors.offset"


class StreamsError(PenstockError):
    """The base class of all exceptions of penstock.streams."""


class TopologyError(StreamsError):
    """The topology can't be built or run: names clash, or serdes or topics are missing."""


class CoPartitioningError(TopologyError):
    """Joined topics differ in their number of partitions, so that equal keys would not meet."""


class SerdeError(StreamsError, ValueError):
    """A value doesn't fit its serde, or bytes aren't what the serde writes."""


class InvalidRecord(StreamsError, ValueError):
    """A record can't be processed: its timestamp is invalid, or a sink chose no topic or partition."""


class RecordFailed(StreamsError):
    """One record failed, and the policy is to stop. ``__cause__`` is the original exception."""

    def __init__(self, node: str, origin: Origin, error: BaseException) -> None:
        super().__init__(f"{node} failed on the record of {origin}: {type(error).__name__}: {error}")
        self.node = node
        self.origin = origin


class Failure(NamedTuple):
    """One failure: the error that ``node`` raised while it processed ``record``.

    ``place`` counts the failures of one task in one batch from 0; ``clock_ms`` is the batch's time of day.
    """

    node: str
    record: Input
    error: Exception
    place: int
    clock_ms: int

    @property
    def origin(self) -> Origin:
        topic, partition, offset, *_ = self.record
        return Origin(topic, partition, offset)


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The policy for records that fail: send them to ``dead_letter_topic`` or, if it is None, stop."""

    dead_letter_topic: str | None = None

    def letters(self, failure: Failure) -> list[Output] | None:
        """Return the outputs for a record that is skipped; None if the application must stop."""
        if self.dead_letter_topic is None:
            return None
        *_, timestamp_ms, key, value, headers = failure.record
        headers = dead_letter_headers(headers, failure.node, failure.origin, failure.error)
        return [(self.dead_letter_topic, None, key, value, timestamp_ms, headers)]

    def reports(self, failure: Failure) -> list[Output]:
        """Return the outputs for a record whose processing continues in spite of an error."""
        return []


def dead_letter_headers(headers: Headers, node: str, origin: Origin, error: BaseException) -> Headers:
    """Return the record's headers plus those of KIP-1034, with all values as UTF-8 text.

    The message begins with the node's name.
    """
    stack = "".join(traceback.format_exception(error))
    return (
        *headers,
        (EXCEPTION_HEADER, _exception_name(error).encode()),
        (MESSAGE_HEADER, f"{node}: {error}".encode(errors="backslashreplace")),
        (STACKTRACE_HEADER, stack.encode(errors="backslashreplace")),
        (TOPIC_HEADER, origin.topic.encode()),
        (PARTITION_HEADER, str(origin.partition).encode()),
        (OFFSET_HEADER, str(origin.offset).encode()),
    )


def _exception_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
