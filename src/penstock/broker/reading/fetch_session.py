"""Incremental fetch sessions (KIP-227): requests and responses that name only changed partitions.

A full request (epoch 0) opens a session if the cache has room. Incremental requests name only the partitions
that changed. A response contains a partition only if it has records, an error, or a high watermark or log
start offset that the client does not have yet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from penstock.broker.partitions.fetch_target import FetchTarget, PartitionKey
from penstock.broker.reading.session_changes import SessionChanges
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest, FetchResponse

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
TOPIC_IDS_SINCE_VERSION = 13


class FetchSession:
    """The partitions of one client, in the order in which they are read next."""

    __slots__ = (
        "by_topic_id",
        "changes",
        "created_ms",
        "epoch",
        "last_used_ms",
        "session_id",
        "targets",
    )

    def __init__(
        self,
        session_id: int,
        targets: dict[PartitionKey, FetchTarget],
        by_topic_id: bool,
        now_ms: int,
        changes: SessionChanges | None = None,
    ) -> None:
        self.changes = changes
        """The changes to report in the session's partitions; None unless the client is a follower."""
        self.session_id = session_id
        self.targets = targets
        self.by_topic_id = by_topic_id
        self.epoch = 1
        self.created_ms = self.last_used_ms = now_ms

    def update(self, request: FetchRequest) -> None:
        for target in targets_of(request, self.by_topic_id, self.targets):
            self.targets[target.topic, target.partition] = target
            if self.changes is not None:
                self.changes.fresh[target] = None
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if self.by_topic_id else forgotten.topic
            for partition in forgotten.partitions:
                dropped = self.targets.pop((topic, partition), None)
                if dropped is not None and self.changes is not None:
                    self.changes.forget(dropped)

    @property
    def is_followers(self) -> bool:
        return self.changes is not None

    def close(self) -> None:
        """Stop watching partitions, because the session is over."""
        if self.changes is not None:
            self.changes.close()


class SessionError(Exception):
    """The request does not match its session; the response has this code and nothing else."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchPlan:
    """The partitions that one request fetches, and the session to update by its response, if any."""

    __slots__ = ("_cache", "_follower_id", "_session", "by_topic_id", "opens_session", "targets")

    def __init__(
        self,
        cache: FetchSessionCache,
        targets: list[FetchTarget],
        *,
        by_topic_id: bool,
        session: FetchSession | None = None,
        opens_session: bool = False,
        follower_id: int = -1,
    ) -> None:
        self._follower_id = follower_id
        self._cache = cache
        self._session = session
        self.targets = targets
        self.by_topic_id = by_topic_id
        self.opens_session = opens_session

    @property
    def changes(self) -> SessionChanges | None:
        """The changes to report in a follower's session."""
        return None if self._session is None else self._session.changes

    @property
    def is_empty(self) -> bool:
        """Whether no partition is requested."""
        return not self.targets and (self._session is None or not self._session.targets)

    @property
    def session_id(self) -> int:
        """The session that the request continues, if any."""
        return INVALID_SESSION_ID if self._session is None else self._session.session_id

    def preview(
        self, results: list[tuple[FetchTarget, FetchResponse.PartitionData]]
    ) -> list[tuple[FetchTarget, FetchResponse.PartitionData]]:
        """Return the partitions that `finish` would, and change nothing."""
        if self._session is None:
            return results
        return [(target, data) for target, data in results if target.is_new(data)]

    def finish(
        self, results: list[tuple[FetchTarget, FetchResponse.PartitionData]]
    ) -> tuple[int, list[tuple[FetchTarget, FetchResponse.PartitionData]]]:
        """Return the session id to answer with, and the partitions that belong in the answer."""
        if self._session is not None:
            return self._session.session_id, self._changes(self._session.targets, results)
        if not self.opens_session:
            return INVALID_SESSION_ID, results
        targets = {(target.topic, target.partition): target for target, _ in results}
        for target, data in results:
            target.heard(data)
        session = self._cache.open(targets, self.by_topic_id, self._follower_id)
        return (session.session_id if session else INVALID_SESSION_ID), results

    def _changes(
        self,
        targets: dict[PartitionKey, FetchTarget],
        results: list[tuple[FetchTarget, FetchResponse.PartitionData]],
    ) -> list[tuple[FetchTarget, FetchResponse.PartitionData]]:
        changes = []
        fresh = None if self.changes is None else self.changes.fresh
        for target, data in results:
            if not target.heard(data):
                continue
            changes.append((target, data))
            if data.records is not None and len(data.records):
                # A partition that was served moves to the end of the queue, or busy partitions would starve
                # others.
                key = (target.topic, target.partition)
                if targets.pop(key, None) is not None:
                    targets[key] = target
                if fresh is not None and target in fresh:
                    del fresh[target]
                    fresh[target] = None
        return changes


class FetchSessionCache:
    """The cache of all sessions, at most `max.incremental.fetch.session.cache.slots`."""

    def __init__(self, slots: int, clock_ms: Callable[[], int], rng: random.Random | None = None) -> None:
        self._slots = slots
        self._rng = rng or random.SystemRandom()
        self._clock_ms = clock_ms
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, version: int) -> FetchPlan:
        """Determine what the request fetches. Raises SessionError."""
        by_topic_id = version >= TOPIC_IDS_SINCE_VERSION
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != INVALID_SESSION_ID:
                self._close(request.session_id)
            targets = list(targets_of(request, by_topic_id, {}))
            opens = request.session_epoch == INITIAL_EPOCH and version >= 7
            return FetchPlan(
                self,
                targets,
                by_topic_id=by_topic_id,
                opens_session=opens,
                follower_id=replica_id_of(request),
            )
        session = self._sessions.get(request.session_id)
        if session is None:
            raise SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise SessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            raise SessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        if not session.targets:
            self._close(session.session_id)
            return FetchPlan(self, [], by_topic_id=by_topic_id)
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used_ms = self._clock_ms()
        targets = list(session.targets.values() if session.changes is None else session.changes.fresh)
        return FetchPlan(self, targets, by_topic_id=by_topic_id, session=session)

    def answer_waiting(self, session_id: int) -> None:
        """Answer a follower's waiting request now, because its next request has arrived."""
        session = self._sessions.get(session_id)
        if session is not None and session.changes is not None:
            for waiter in list(session.changes.waiters.waiting):
                waiter.expire()

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def open(
        self, targets: dict[PartitionKey, FetchTarget], by_topic_id: bool, follower_id: int = -1
    ) -> FetchSession | None:
        """Open a session, or return None: a client without one sends full requests, which always work."""
        now_ms = self._clock_ms()
        if not targets:
            return None
        if len(self._sessions) >= self._slots and not self._evict(len(targets), follower_id >= 0, now_ms):
            return None
        session_id = INVALID_SESSION_ID
        while session_id == INVALID_SESSION_ID or session_id in self._sessions:
            session_id = self._rng.randrange(1, 2**31)
        changes = SessionChanges(follower_id) if follower_id >= 0 else None
        session = FetchSession(session_id, targets, by_topic_id, now_ms, changes)
        if changes is not None:
            changes.fresh.update(dict.fromkeys(targets.values()))
        self._sessions[session_id] = session
        return session

    def _evict(self, size: int, for_follower: bool, now_ms: int) -> bool:
        """Evict a session for one with `size` partitions: a stale one, else an old and smaller one.

        Followers' sessions are only evicted for followers, and consumers' sessions for either.
        """
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - oldest.last_used_ms <= EVICTION_MS:
            consumers = [session for session in self._sessions.values() if not session.is_followers]
            if for_follower and consumers:
                oldest = min(consumers, key=lambda session: session.last_used_ms)
            else:
                rivals = self._sessions.values() if for_follower else consumers
                settled = [session for session in rivals if now_ms - session.created_ms > EVICTION_MS]
                oldest = min(settled, key=lambda session: len(session.targets), default=oldest)
                if not settled or len(oldest.targets) >= size:
                    return False
        self._close(oldest.session_id)
        self.evictions += 1
        return True


def replica_id_of(request: FetchRequest) -> int:
    """The broker that fetches as a follower; -1 for a consumer."""
    return max(request.replica_state.replica_id, request.replica_id)


def targets_of(
    request: FetchRequest, by_topic_id: bool, known: dict[PartitionKey, FetchTarget]
) -> Iterable[FetchTarget]:
    """Find the partitions that a request names; known ones are updated in place."""
    for topic in request.topics:
        topic_key = topic.topic_id if by_topic_id else topic.topic
        for wanted in topic.partitions:
            target = known.get((topic_key, wanted.partition))
            if target is None:
                yield FetchTarget(topic_key, wanted)
            else:
                target.update(wanted)
                yield target
