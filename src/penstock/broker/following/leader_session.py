"""A follower's fetch session with one leader (KIP-227): each request names only the partitions that changed.

Pure. The first request names every partition and opens a session, if the leader has room for one. Later
requests name the partitions whose position changed and those that are no longer wanted. After any error the
next request is a full one. Requests are numbered, because several may be in flight: an answer applies to what
the follower wanted up to its request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest

PartitionKey = tuple[bytes, int]
"""The topic id and the partition number."""

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """The position from which to fetch one partition, and the epochs and the limit to send with it."""

    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    current_leader_epoch: int
    max_bytes: int
    high_watermark: int
    """The high watermark known here (KIP-1166). If the follower discarded an answer, the leader thereby knows
    to send its high watermark again."""


class LeaderSession:
    """The follower's side of the session: what the leader knows that this follower wants."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        """The epoch of the next request."""
        self.is_refused = False
        """Whether the leader has no room for a session."""
        self.wanted: dict[PartitionKey, Wanted] = {}
        self._number = 0
        self._begun = 0
        """The number of the request that began the session."""
        self._asked_in: dict[PartitionKey, int] = {}
        """The number of the last request that named each partition."""
        self._changed: dict[PartitionKey, None] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    def want(self, key: PartitionKey, wanted: Wanted) -> None:
        """Fetch this from the next request on."""
        self.wanted[key] = wanted
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def forget(self, key: PartitionKey) -> None:
        """Stop fetching the partition."""
        if self.wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._asked_in.pop(key, None)
            self._forgotten[key] = None

    @property
    def has_changes(self) -> bool:
        """Whether the leader must be notified of a change."""
        return bool(self._changed) or (self.epoch != FIRST_EPOCH and bool(self._forgotten))

    @property
    def is_open(self) -> bool:
        """Whether another request may follow before the last one is answered."""
        return self.epoch != FIRST_EPOCH

    def fill(self, request: FetchRequest) -> int:
        """Name the changed partitions in `request` and return the request's number."""
        self._number += 1
        request.session_id, request.session_epoch = self.session_id, self.epoch
        named = self._changed
        if self.epoch == FIRST_EPOCH:
            self._begun = self._number
            named = dict.fromkeys(self.wanted)
        else:
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1
            request.forgotten_topics_data = _forgotten(self._forgotten)
        request.topics = _by_topic(self.wanted, named)
        self._asked_in.update(dict.fromkeys(named, self._number))
        self._changed, self._forgotten = {}, {}
        return self._number

    def answered(self, number: int, error: ErrorCode, session_id: int) -> bool:
        """Apply the leader's answer to request `number` to the session; return whether to use its content."""
        if number < self._begun or (number > self._begun and self.epoch == FIRST_EPOCH):
            return False  # the session of that request is over
        if error is not ErrorCode.NONE:
            # Naming the old session makes the leader drop it.
            self._restart(NO_SESSION if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self.session_id)
            return False
        if number == self._begun:
            self.is_refused = session_id == NO_SESSION
        if session_id == NO_SESSION:  # refused, or closed because it was empty
            self._restart(NO_SESSION)
        elif number == self._begun:
            self.session_id, self.epoch = session_id, 1
        return True

    def failed(self) -> None:
        """Start over with a full request, because without an answer the leader's state is unknown."""
        self._restart(self.session_id)

    def is_current(self, key: PartitionKey, number: int) -> bool:
        """Whether the partition is still wanted as in request `number` or an earlier one."""
        return key in self._asked_in and key not in self._changed and self._asked_in[key] <= number

    def _restart(self, session_id: int) -> None:
        self.session_id, self.epoch = session_id, FIRST_EPOCH


def _by_topic(
    wanted: dict[PartitionKey, Wanted], keys: Iterable[PartitionKey]
) -> list[FetchRequest.FetchTopic]:
    topics: dict[bytes, FetchRequest.FetchTopic] = {}
    for topic_id, partition in keys:
        place = wanted[topic_id, partition]
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchRequest.FetchTopic(topic_id=topic_id)
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition=partition,
                current_leader_epoch=place.current_leader_epoch,
                fetch_offset=place.fetch_offset,
                last_fetched_epoch=place.last_fetched_epoch,
                log_start_offset=place.log_start_offset,
                partition_max_bytes=place.max_bytes,
                high_watermark=place.high_watermark,
            )
        )
    return list(topics.values())


def _forgotten(keys: Iterable[PartitionKey]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[bytes, FetchRequest.ForgottenTopic] = {}
    for topic_id, partition in keys:
        topic = topics.setdefault(topic_id, FetchRequest.ForgottenTopic(topic_id=topic_id))
        topic.partitions.append(partition)
    return list(topics.values())
