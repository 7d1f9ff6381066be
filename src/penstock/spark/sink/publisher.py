"""Publish a batch exactly once: everything that the driver does with the cluster, in one transaction.

    marker      stop if a later run has published, or if this batch was published already
    begin       InitProducerId: the cluster fences earlier producers and aborts what they left open
    marker      check it again, as nothing else can move it now
    transaction the new marker, the records, the offsets of the source's groups, EndTxn

A driver first takes over (`recover`): it enters itself into the marker, so that an earlier driver which is
still alive finds out that it was replaced even before the new one has published anything. Drivers of a
streams application share a transactional id, and check its owner (`penstock.spark.sink.ownership`) in
addition to the marker, which belongs to the query.

The new marker is written first, so that an open transaction is visible (as an unstable offset) and a fenced
producer fails before it has written anything. Whatever goes wrong, the transaction is either in the log as a
whole, marker included, or none of it counts. `begin` and a check of the marker therefore resolve any doubt.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import ClassVar, Final

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import (
    ClientError,
    DeliveryFailed,
    ServerError,
    TransactionLost,
    UnknownPartition,
)
from penstock.client.groups.consumer_group import EXACTLY_ONCE, NO_OFFSET, CommittedOffset, ConsumerGroup
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.client.producing.transactor import LOST, Transactor
from penstock.protocol.errors import ErrorCode
from penstock.spark.sink.encoding import EncodedBatch
from penstock.spark.sink.marker import GROUP_PREFIX, Marker
from penstock.spark.sink.ownership import Entry, Ownership
from penstock.spark.sink.ownership import RunFenced as RunFenced

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 5
"""How often a batch is attempted if its transaction is lost to a timeout or to another process."""


class Outcome(Enum):
    PUBLISHED = auto()
    WAS_PUBLISHED = auto()


class MarkerMissing(ClientError):
    """The cluster no longer holds the marker of the last published batch."""


class MarkerMismatch(ClientError):
    """The marker in the cluster does not come from this checkpoint."""


class TopicReplaced(ClientError):
    """A topic was deleted while tasks encoded records for its partitions. The batch can run again."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Content:
    """The content of one transaction.

    ``records`` may be called more than once. ``offsets`` and ``notes``, which are committed without an
    offset, are by group.
    """

    partitions: Collection[TopicPartition]
    records: Callable[[], Iterable[EncodedBatch]]
    offsets: Mapping[str, Mapping[TopicPartition, int]]
    notes: Mapping[str, Mapping[TopicPartition, str]] = field(default_factory=dict)

    @property
    def commits(self) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """The offsets and notes to commit, by group."""
        found: dict[str, dict[TopicPartition, CommittedOffset]] = defaultdict(dict)
        for group_id, notes in self.notes.items():
            found[group_id] |= {tp: CommittedOffset(NO_OFFSET, metadata=note) for tp, note in notes.items()}
        for group_id, offsets in self.offsets.items():
            found[group_id] |= {
                tp: CommittedOffset(offset, metadata=EXACTLY_ONCE) for tp, offset in offsets.items()
            }
        return found


@dataclass(frozen=True, slots=True)
class Publication:
    """One batch of one run.

    ``fingerprint`` identifies its entry in the offset log. With ``must_be_known``, an earlier batch was
    published, so the marker must exist.
    """

    batch_id: int
    run_id: str
    fingerprint: str
    must_be_known: bool
    content: Content


class Publisher:
    """The publisher of one query.

    The marker is an offset of partition 0 of ``marker_topic``. ``driver_id`` is that of the Spark driver that
    this process belongs to, "" if it is unknown. ``ownership`` is that of the streams application which the
    query runs, if any.
    """

    id_prefix: ClassVar[str] = GROUP_PREFIX
    """The start of the ids of its group and its transactions."""

    def __init__(
        self,
        cluster: Cluster,
        producer: ProducerConfig,
        query_id: str,
        marker_topic: str,
        transaction_timeout_ms: int,
        driver_id: str = "",
        ownership: Ownership | None = None,
    ) -> None:
        self.group_id = f"{self.id_prefix}{query_id}"
        self._query_id = query_id
        self._cluster = cluster
        self._producer = producer
        self._marker_partition = TopicPartition(marker_topic, 0)
        self._group = ConsumerGroup(cluster, self.group_id)
        of_the_query = Transactor(cluster, self.group_id, transaction_timeout_ms)
        self._driver_id = driver_id
        self._ownership = ownership
        # Applications wrote under the query's id until they got their own.
        self._former: Transactor | None = None
        self._transactor = of_the_query
        if ownership is not None:
            self._former = of_the_query
            self._transactor = Transactor(cluster, ownership.transactional_id, transaction_timeout_ms)

    def publish(self, batch: Publication) -> Outcome:
        """Publish the batch, or find that it was already published, and return.

        Raises RunFenced, MarkerMissing, MarkerMismatch; ClientError if the cluster does not answer or
        rejects a request. After an error the batch may or may not be published; another `publish` finds out.
        """
        lost: list[TransactionLost] = []
        while True:
            self._first_look(batch)
            self._transactor.begin()
            owner = None if self._ownership is None else self._ownership.require()
            marker = self.marker()
            self._refuse_leftovers(marker, batch.run_id)
            if self._was_published(marker, batch):
                return Outcome.WAS_PUBLISHED
            successor = self._successor(marker, batch)
            try:
                self._write(batch.content, successor, owner)
            except TransactionLost as error:
                lost.append(error)
                if len(lost) == ATTEMPTS_MAX:
                    error.add_note(
                        f"batch {batch.batch_id} was attempted {ATTEMPTS_MAX} times: does publishing take "
                        f"longer than 'kafka.transaction.timeout.ms' ({self._transactor.timeout_ms} ms)?"
                    )
                    raise
                log.warning("transaction lost, retrying batch=%d error=%s", batch.batch_id, error)
            else:
                return Outcome.PUBLISHED

    def _successor(self, marker: Marker | None, batch: Publication) -> Marker:
        if marker is None:
            return Marker(batch.batch_id, batch.fingerprint, batch.run_id, driver_id=self._driver_id)
        past = marker.past_of(batch.run_id)
        new = replace(
            marker, batch_id=batch.batch_id, fingerprint=batch.fingerprint, run_id=batch.run_id, past=past
        )
        return new.of_driver(self._driver_id)

    def recover(self) -> bool:
        """Take over from the previous driver and end the transaction that it left open, if there is one.

        An open transaction would hold back readers. Returns whether there was anything to do. A driver that
        is publishing at this moment has to retry. Raises RunFenced if this driver itself was replaced.
        """
        found = False
        for _ in range(ATTEMPTS_MAX):
            if self._ownership is not None:
                self._ownership.require(require_stable=False)
            is_open, marker = self._cluster.retry(self._look)
            self._refuse_leftovers(marker)
            if not is_open and not self._is_new(marker):
                return found
            found = True
            former = self._former if marker is None or self._is_new(marker) else None
            self._transactor.begin()
            if former is not None:
                former.begin()
            try:
                self._take_over()
            except TransactionLost as error:
                log.warning("another driver takes over at the same time error=%s", error)
                continue
            if former is None:
                return True
            # A driver that has begun under the former id since then may not have seen the new marker. This
            # ends its transaction, and the loop checks the marker again.
            former.begin()
        return found  # several drivers start at once; publishing determines the last one

    def _take_over(self) -> None:
        _, marker = self._cluster.retry(self._look)
        self._refuse_leftovers(marker)
        if marker is None or not self._is_new(marker):
            return
        entry = marker.of_driver(self._driver_id).to_offset()
        self._transactor.commit_offsets(self.group_id, {self._marker_partition: entry})
        self._transactor.end(commit=True)

    def _is_new(self, marker: Marker | None) -> bool:
        return marker is not None and self._driver_id not in ("", marker.driver_id)

    def _look(self) -> tuple[bool, Marker | None]:
        """Return whether a transaction is open, and the marker before it."""
        try:
            return False, self._committed_marker(require_stable=True)
        except ServerError as error:
            if error.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                raise
        return True, self._committed_marker(require_stable=False)

    def marker(self, *, require_stable: bool = True) -> Marker | None:
        """Return the marker, if there is one. Raises UnknownPartition, MarkerDamaged, ServerError."""
        # A topic that is not known (yet) has no known offset either: that must not look like a first batch.
        self._cluster.require_topics([self._marker_partition.topic])
        return self._cluster.retry(lambda: self._committed_marker(require_stable=require_stable))

    def _committed_marker(self, *, require_stable: bool) -> Marker | None:
        committed = self._group.committed([self._marker_partition], require_stable=require_stable)
        found = committed.get(self._marker_partition)
        return None if found is None else Marker.from_offset(found, self.group_id)

    def _first_look(self, batch: Publication) -> None:
        """Check for a later run or driver before disturbing one that is publishing. Raises RunFenced."""
        if self._ownership is not None:
            self._ownership.require(require_stable=False)
        try:
            self._refuse_leftovers(self.marker(require_stable=False), batch.run_id)
        except UnknownPartition as error:
            if batch.must_be_known:
                raise self._missing(batch) from error
            raise

    def _missing(self, batch: Publication) -> MarkerMissing:
        return MarkerMissing(
            "the cluster no longer knows which batch the query published last: the group "
            f"'{self.group_id}' has no offset for {self._marker_partition}. The topic was deleted, or the "
            "group was removed or has expired (offsets.retention.minutes). Check whether the output ends "
            f"with batch {batch.batch_id - 1} of the query; if so, remove the file penstock/sink.json from "
            "the checkpoint to continue with this batch"
        )

    def _refuse_leftovers(self, marker: Marker | None, run_id: str | None = None) -> None:
        if marker is None:
            return
        if run_id is not None and run_id in marker.past:
            raise RunFenced(
                f"run {run_id} of the query was replaced by run {marker.run_id}, which has published batch "
                f"{marker.batch_id}: the earlier run no longer writes"
            )
        if self._driver_id and self._driver_id in marker.past_drivers:
            raise RunFenced(
                f"this driver ({self._driver_id}) of the query was replaced by a later one "
                f"({marker.driver_id}), which continues after batch {marker.batch_id}: this one no longer "
                "writes"
            )

    def _was_published(self, marker: Marker | None, batch: Publication) -> bool:
        if marker is None:
            if batch.must_be_known:
                raise self._missing(batch)
            return False
        if marker.batch_id < batch.batch_id:
            return False
        if (marker.batch_id, marker.fingerprint) == (batch.batch_id, batch.fingerprint):
            return True
        raise MarkerMismatch(
            f"batch {batch.batch_id} was to be written, but the cluster has batch {marker.batch_id} of run "
            f"{marker.run_id} with other input offsets: the checkpoint is an older copy, entries were "
            "removed from it, or another driver still uses it. To write the input again, start "
            "with a new checkpoint"
        )

    def _write(self, content: Content, marker: Marker, owner: Entry | None) -> None:
        try:
            if self._ownership is not None:
                entry = self._ownership.to_write(owner, self._query_id)
                if entry:
                    self._transactor.commit_offsets(self._ownership.group_id, entry)
            self._transactor.commit_offsets(self.group_id, {self._marker_partition: marker.to_offset()})
            write_content(self._cluster, self._producer, self._transactor, content)
        except TransactionLost:
            raise
        except BaseException:
            abort_quietly(self._transactor)
            raise
        self._transactor.end(commit=True)


def publish_once(
    cluster: Cluster, producer: ProducerConfig, transactional_id: str, timeout_ms: int, content: Content
) -> None:
    """Publish the content in one transaction under an id of its own: all of it or nothing.

    Raises TransactionLost or another ClientError. The outcome is unknown only if the response to EndTxn did
    not arrive in time; the error then says so.
    """
    transactor = Transactor(cluster, transactional_id, timeout_ms)
    transactor.begin()
    try:
        write_content(cluster, producer, transactor, content)
    except BaseException:
        abort_quietly(transactor)
        raise
    try:
        transactor.end(commit=True)
    except TransactionLost:
        raise
    except ClientError as error:
        error.add_note(
            f"it is unknown whether transaction '{transactional_id}' was committed: all of the write is in "
            f"its topics, or nothing. Find out with 'penstock txn describe {transactional_id}'"
        )
        raise


def write_content(cluster: Cluster, config: ProducerConfig, transactor: Transactor, content: Content) -> None:
    """Write records and offsets to the current transaction and wait for all responses. Raises ClientError."""
    transactor.add_partitions(content.partitions)
    producer = Producer(cluster, config, create_topics=False, transaction=transactor.transaction)
    try:
        for batch in content.records():
            producer.send(batch.topic, batch.partition, batch.data)
        producer.flush()
    except DeliveryFailed as error:
        cause = error.__cause__
        if isinstance(cause, ServerError) and cause.code in LOST:
            raise TransactionLost(cause.code, str(cause)) from error
        raise
    finally:
        producer.close()
    for group_id, commits in content.commits.items():
        there = cluster.existing(commits.keys())
        if there:
            transactor.commit_offsets(group_id, {tp: commits[tp] for tp in there})


def abort_quietly(transactor: Transactor) -> None:
    """Abort, so that readers need not wait for the timeout. A failure is only logged: an error led here."""
    try:
        transactor.end(commit=False)
    except ClientError as error:
        log.warning("transaction not aborted, so it stays open until its timeout error=%s", error)
