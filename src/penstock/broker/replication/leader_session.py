"""A follower's fetch session with one leader (KIP-227): requests that name only what has changed.

Pure. The first request names every partition and opens a session, if the leader has room for one. Those that
follow name partitions whose position changed and such as are no longer wanted. Whatever goes wrong, the next
request is a full one. Requests have numbers: several may be under way, and an answer counts for what was
asked until its request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest

PartitionKey = tuple[bytes, int]
"""Topic id and partition."""

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """What is fetched of one partition."""

    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    current_leader_epoch: int
    max_bytes: int
    high_watermark: int
    """As it is known here (KIP-1166): what an answer told that was passed over, the leader tells again."""


class LeaderSession:
    """What the leader knows of this follower's wishes."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        """Of the next request."""
        self.is_refused = False
        """Whether the leader has no room for a session."""
        self.wanted: dict[PartitionKey, Wanted] = {}
        self._number = 0
        self._begun = 0
        """The request that began the session."""
        self._asked_in: dict[PartitionKey, int] = {}
        """Which request named each partition last."""
        self._changed: dict[PartitionKey, None] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    def want(self, key: PartitionKey, wanted: Wanted) -> None:
        """Fetch this from the next request on."""
        self.wanted[key] = wanted
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def forget(self, key: PartitionKey) -> None:
        """Fetch it no longer."""
        if self.wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._asked_in.pop(key, None)
            self._forgotten[key] = None

    @property
    def has_news(self) -> bool:
        """Whether the leader has to hear of something."""
        return bool(self._changed) or (self.epoch != FIRST_EPOCH and bool(self._forgotten))

    @property
    def is_open(self) -> bool:
        """Whether another request may follow before the last one is answered."""
        return self.epoch != FIRST_EPOCH

    def fill(self, request: FetchRequest) -> int:
        """Name in `request` what the leader has to hear; the request's number."""
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
        """Go on as the leader's answer to that request says; whether there is anything in it."""
        if number < self._begun or (number > self._begun and self.epoch == FIRST_EPOCH):
            return False  # the session it was asked in is over
        if error is not ErrorCode.NONE:
            # naming the old session has the leader drop it
            self._begin_anew(NO_SESSION if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND else self.session_id)
            return False
        if number == self._begun:
            self.is_refused = session_id == NO_SESSION
        if session_id == NO_SESSION:  # refused, or over as nothing was left in it
            self._begin_anew(NO_SESSION)
        elif number == self._begun:
            self.session_id, self.epoch = session_id, 1
        return True

    def failed(self) -> None:
        """There is no answer: what the leader knows now is not known here."""
        self._begin_anew(self.session_id)

    def is_current(self, key: PartitionKey, number: int) -> bool:
        """Whether the partition is wanted as that request said, or one before; else it answers old wishes."""
        return key in self._asked_in and key not in self._changed and self._asked_in[key] <= number

    def _begin_anew(self, session_id: int) -> None:
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
