"""The consumer group that follows a query: its committed offsets are those of the last completed batch.

Spark asks for the offset after X once the batch that ended at X is in its commit log, and not before, so that
is when X is committed. A separate thread commits it over its own connections while Spark plans the next
batch. The commit succeeds, or is postponed, before that plan is returned: from then on an exactly-once sink
may commit the end of the new batch in its transaction, and this thread must not undo that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicMetadata, TopicPartition
from penstock.client.errors import ClientError, ServerError
from penstock.client.groups.consumer_group import EXACTLY_ONCE, CommittedOffset, ConsumerGroup
from penstock.protocol.errors import ErrorCode
from penstock.spark.source.checkpointed import Checkpointed, GroupRef
from penstock.spark.source.offsets import Offsets

log = logging.getLogger(__name__)

MEMBER_CHECK_S: Final = 5.0
"""The interval of checks for live members.

A commit from here would reveal them too, but not if a sink commits the offsets.
"""
WARN_AGAIN_S: Final = 60.0
"""The shortest time between two warnings that another query or tool commits to the group."""
_CLOSE_S: Final = 1.0


def offsets_to_commit(
    completed: Offsets, found: Mapping[TopicPartition, CommittedOffset], *, renew: bool
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets to commit so that a group stands at ``completed``. Pure.

    An offset that is already there is committed again, as it was found, only with ``renew``, so that it does
    not expire. An exactly-once sink takes precedence: an offset of its own beyond ``completed`` is that of a
    later batch.
    """
    wanted: dict[TopicPartition, CommittedOffset] = {}
    for tp, offset in completed.items():
        known = found.get(tp)
        if known is None:
            wanted[tp] = CommittedOffset(offset)
        elif known.offset == offset:
            if renew:
                wanted[tp] = known
        elif known.offset < offset or known.metadata != EXACTLY_ONCE:
            wanted[tp] = CommittedOffset(offset)
    return wanted


def committed_elsewhere(
    left: Mapping[TopicPartition, CommittedOffset], found: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets that someone else has committed since this query left the group at ``left``. Pure.

    A sink of the same query commits only offsets ahead.
    """
    return {
        tp: offset
        for tp, offset in found.items()
        if tp in left
        and (offset.offset < left[tp].offset or offset.metadata != EXACTLY_ONCE)
        and offset.offset != left[tp].offset
    }


class GroupFollower:
    """Commits offsets to one group, in a thread of its own. Only one other thread may call its methods."""

    def __init__(
        self,
        config: ClientConfig,
        group_id: str,
        recommit_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = Cluster(config)
        self._group = ConsumerGroup(self._cluster, group_id)
        self._recommit_s = recommit_ms / 1000
        self._patience_s = config.api_timeout_ms / 1000
        self._clock = clock
        self._members_checked_s = 0.0
        self._left: dict[TopicPartition, CommittedOffset] = {}
        """The group's offsets after the last commit from here. Only the thread uses it."""
        self._warned_s = -WARN_AGAIN_S
        self._changed = threading.Condition()
        # Guarded by _changed.
        self._wanted: Checkpointed | None = None  # the next offsets to commit to the group
        self._done: Checkpointed | None = None  # the offsets last committed, at _done_s
        self._done_s = 0.0
        self._busy = False
        self._attempts_failed = 0
        self._failing_since_s: float | None = None
        self._failure: Exception | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def open(self) -> GroupRef:
        """Connect, and reject a group that has live members. Raises GroupInUse, ServerError."""
        self._cluster.retry(self._group.require_no_members)
        self._members_checked_s = self._clock()
        return GroupRef(self._group.group_id, self._cluster.metadata.cluster_id or "")

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        self._cluster.close()

    def completed(self, at: Checkpointed) -> None:
        """Start to commit the end of a completed batch; does not wait. Raises an error of the thread."""
        with self._changed:
            self._raise_failure()
            if at == self._wanted or (at == self._done and not self._is_due()):
                return
            self._wanted = at
            self._attempts_failed = 0
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-group", daemon=True)
            self._thread.start()

    def settle(self, timeout_s: float) -> bool:
        """Wait for the commit, and return whether it has succeeded. Raises an error of the thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted is None or self._failure is not None, timeout_s)
            self._raise_failure()
            return self._wanted is None

    def require_settled(self) -> None:
        """Wait like `settle`, but as long as ``default.api.timeout.ms`` allows. Raises ClientError."""
        if not self.settle(self._patience_s):
            raise ClientError(
                f"the offsets of the last batch could not be committed to group '{self._group.group_id}' "
                f"within {self._patience_s:.0f} s, because of an open transaction or a coordinator that does "
                "not answer. The batch itself is complete: start the query again to commit them"
            )

    def pause(self) -> None:
        """Wait for a first attempt that is due or running, then stop retrying until `completed`."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._wanted is None or (self._attempts_failed > 0 and not self._busy)
            )
            self._wanted = None
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _is_due(self) -> bool:
        return self._clock() - self._done_s >= self._recommit_s

    # Code that runs in the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wanted is not None)
                if self._closed or self._wanted is None:
                    return
                wanted = self._wanted
                renew = self._is_due()
                self._busy = True
            failure: Exception | None = None
            try:
                self._bring_to(wanted, renew)
            except Exception as error:  # raised again in the thread that calls the methods
                failure = error
            with self._changed:
                self._busy = False
                if failure is None:
                    self._take_note_of_success(wanted)
                else:
                    self._take_note_of(failure)
                self._changed.notify_all()
                if failure is not None:
                    self._changed.wait_for(
                        lambda: self._closed or self._wanted is None,
                        self._cluster.policy.backoff_s(self._attempts_failed),
                    )

    def _bring_to(self, wanted: Checkpointed, renew: bool) -> None:
        now = self._clock()
        if now - self._members_checked_s >= MEMBER_CHECK_S:
            self._group.require_no_members()
            self._members_checked_s = now
        offsets = self._of_topics_still_there(wanted)
        found = self._group.committed(offsets)
        self._report(committed_elsewhere(self._left, found))
        changes = offsets_to_commit(offsets, found, renew=renew)
        self._group.commit(changes)
        self._left = {**found, **changes}

    def _report(self, elsewhere: Mapping[TopicPartition, CommittedOffset]) -> None:
        if elsewhere and self._clock() - self._warned_s >= WARN_AGAIN_S:
            self._warned_s = self._clock()
            tp, found = min(elsewhere.items())
            log.warning(
                "group has another writer group=%s partition=%s found=%d expected=%d advice=%r",
                self._group.group_id,
                tp,
                found.offset,
                self._left[tp].offset,
                "give each query a group.id of its own",
            )

    def _of_topics_still_there(self, wanted: Checkpointed) -> Offsets:
        """The offsets of topics that still exist; a topic created again only has the same name."""
        names = {tp.topic for tp in wanted.offsets}
        same = _same_topics(self._cluster.topics(names), wanted)
        if same != names:  # what is known may be older than the topic
            self._cluster.forget(names - same)
            same = _same_topics(self._cluster.topics(names), wanted)
        return {tp: offset for tp, offset in wanted.offsets.items() if tp.topic in same}

    def _take_note_of_success(self, wanted: Checkpointed) -> None:
        self._failing_since_s = None
        self._done, self._done_s = wanted, self._clock()
        if wanted is self._wanted:
            self._wanted = None

    def _take_note_of(self, failure: Exception) -> None:
        """Count a failed attempt, and set `_failure` if no retry can help."""
        now = self._clock()
        self._attempts_failed += 1
        if self._failing_since_s is None:
            self._failing_since_s = now
        is_over = now - self._failing_since_s > self._patience_s and not _is_unstable(failure)
        if is_over or not (isinstance(failure, ClientError) and failure.retriable):
            self._failure = failure
            self._wanted = None
        elif self._attempts_failed == 1:
            log.warning("offsets not committed yet, retrying error=%s", failure)


def _same_topics(known: Mapping[str, TopicMetadata], wanted: Checkpointed) -> set[str]:
    return {name for name, topic in known.items() if wanted.topic_id(name) in (None, topic.topic_id)}


def _is_unstable(failure: Exception) -> bool:
    """Whether a transaction has offsets of the group pending; it ends at its timeout at the latest."""
    return isinstance(failure, ServerError) and failure.code is ErrorCode.UNSTABLE_OFFSET_COMMIT
