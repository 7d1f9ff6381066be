"""Ownership of an application: the driver that started last owns it, whatever the drivers' checkpoints.

The marker (`penstock.spark.sink.marker`) distinguishes drivers of one checkpoint. All drivers of an
application share a transactional id, ``penstock-sink-<application>``, so that they fence each other as
instances of Kafka Streams do. They also share an entry that names the owner: the offset of a group of the
same name, committed under that id:

    claim    when a driver starts: InitProducerId, and a transaction that holds nothing but its entry
    check    before each batch, and again in its transaction, when InitProducerId has fenced all others

An earlier driver that is still alive therefore either publishes before the later one's claim, or finds that
it was replaced. The entry also names the query that published last, so that an application cannot return to a
checkpoint that it has left for another: that would write everything since then again.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, TransactionLost
from penstock.client.groups.consumer_group import CommittedOffset, ConsumerGroup
from penstock.client.producing.transactor import Transactor
from penstock.spark.sink.marker import GROUP_PREFIX, MarkerDamaged

RENEW_MS: Final = 3_600_000
"""The age from which a batch writes the entry again, since groups expire offsets after some time."""
_ATTEMPTS_MAX: Final = 8
# Two drivers that claim at once fence each other. The random pause doubles until one has time to finish.
_PAUSE_S: Final = 0.05
# An offset's metadata may have 4096 bytes (offset.metadata.max.bytes).
_SHOWN_MAX: Final = 400


class RunFenced(ClientError):
    """A later run of the query, or a later driver, has taken over, so this one must not write any more."""


class CheckpointOutdated(ClientError):
    """The application has since continued with another checkpoint."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One start of an application, identified by ``start_id``.

    The entry is an offset of partition 0 of ``topic``. The other fields are for error messages.
    """

    application: str
    start_id: str
    topic: str
    host: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The owner, identified by its start, and the query that published last ("" before the first batch).

    ``claims`` counts how often the application has been claimed; it is stored as the offset.
    """

    claims: int
    start_id: str
    host: str
    checkpoint: str
    claimed_ms: int
    query_id: str = ""
    query_checkpoint: str = ""
    written_ms: int = field(default=0, compare=False)

    def __str__(self) -> str:
        claimed = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.claimed_ms / 1000))
        return f"started {claimed} UTC on {self.host} with the checkpoint {self.checkpoint}"

    def of_query(self, query_id: str) -> Entry:
        """Return the entry for a batch of this query, which its owner publishes."""
        return replace(self, query_id=query_id, query_checkpoint=self.checkpoint)

    def to_offset(self) -> CommittedOffset:
        fields = {
            "start": self.start_id,
            "host": self.host,
            "checkpoint": self.checkpoint,
            "claimed": self.claimed_ms,
            "query": self.query_id,
            "query_checkpoint": self.query_checkpoint,
            "written": _now_ms(),
        }
        return CommittedOffset(
            self.claims, metadata=json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        )

    @classmethod
    def from_offset(cls, committed: CommittedOffset, group_id: str) -> Entry:
        """Parse a committed entry. Raises MarkerDamaged."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            fields = json.loads(committed.metadata)
            return cls(
                committed.offset,
                str(fields["start"]),
                str(fields["host"]),
                str(fields["checkpoint"]),
                int(fields["claimed"]),
                str(fields["query"]),
                str(fields["query_checkpoint"]),
                int(fields["written"]),
            )
        raise MarkerDamaged(
            f"the group '{group_id}' names the owner of a streams application, but its offset "
            f"{committed.offset} was committed by another program: found the metadata "
            f"{committed.metadata[:80]!r}"
        )


class Ownership:
    """The ownership of an application from the view of one of its drivers."""

    def __init__(self, cluster: Cluster, driver: Driver, transaction_timeout_ms: int) -> None:
        self.driver = driver
        self.group_id = self.transactional_id = f"{GROUP_PREFIX}{driver.application}"
        self.partition = TopicPartition(driver.topic, 0)
        self._timeout_ms = transaction_timeout_ms
        self._cluster = cluster
        self._group = ConsumerGroup(cluster, self.group_id)

    def claim(self, query_id: str | None) -> Entry:
        """Become the owner, and abort a transaction that an earlier owner has left open.

        ``query_id`` is that of the checkpoint to continue with, or None for a new one. Raises ClientError,
        and CheckpointOutdated before any other driver is disturbed.
        """
        transactor = Transactor(self._cluster, self.transactional_id, self._timeout_ms)
        self._successor(self.owner(require_stable=False), query_id)
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            transactor.begin()
            entry = self._successor(self.owner(), query_id)
            try:
                transactor.commit_offsets(self.group_id, self.offsets(entry))
                transactor.end(commit=True)
            except TransactionLost:
                if attempt == _ATTEMPTS_MAX:
                    raise
                time.sleep(random.uniform(0, _PAUSE_S * 2**attempt))
            else:
                break
        # EndTxn may be answered before the entry is visible, and every later check has to see it.
        self._cluster.retry(lambda: self._group.committed([self.partition]))
        return entry

    def _successor(self, before: Entry | None, query_id: str | None) -> Entry:
        driver = self.driver
        mine = Entry(1, driver.start_id, _shown(driver.host), _shown(driver.checkpoint), _now_ms())
        if before is None:
            return mine
        if query_id is not None and before.query_id not in ("", query_id):
            raise CheckpointOutdated(
                f"the application {driver.application} has continued with another checkpoint since it used "
                f"{driver.checkpoint}: {before.query_checkpoint}. What was read since then would be read and "
                "written again. Start with that checkpoint, or with a new one: the application continues "
                "from its group's offsets, and rebuilds its stores from their changelogs"
            )
        claims = before.claims + 1
        return replace(
            mine, claims=claims, query_id=before.query_id, query_checkpoint=before.query_checkpoint
        )

    def require(self, *, require_stable: bool = True) -> Entry | None:
        """Return this driver's entry, or None if it has expired. Raises RunFenced, ClientError."""
        owner = self.owner(require_stable=require_stable)
        if owner is not None and owner.start_id != self.driver.start_id:
            raise RunFenced(
                f"this driver of the application {self.driver.application}, on {self.driver.host} with the "
                f"checkpoint {self.driver.checkpoint}, was replaced by a later one, {owner}: this one no "
                "longer writes"
            )
        return owner

    def to_write(self, found: Entry | None, query_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return the entry if a batch of this query has to commit it, because it is new or old."""
        entry = found or self._successor(None, None)
        if entry is found and entry.query_id == query_id and _now_ms() - entry.written_ms < RENEW_MS:
            return {}
        return self.offsets(entry.of_query(query_id))

    def offsets(self, entry: Entry) -> Mapping[TopicPartition, CommittedOffset]:
        return {self.partition: entry.to_offset()}

    def owner(self, *, require_stable: bool = True) -> Entry | None:
        """The current owner's entry, if there is one. Raises MarkerDamaged, ServerError."""
        found = self._cluster.retry(lambda: self._group.all_committed(require_stable=require_stable))
        # If the topology reads other topics than before, its entry may be an offset of another topic.
        entries = [Entry.from_offset(committed, self.group_id) for committed in found.values()]
        return max(entries, key=lambda entry: entry.claims, default=None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
