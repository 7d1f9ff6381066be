"""Answer a follower's Fetch: read to the log's end, and take note of how far the follower is."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from penstock.broker.partitions.fetch_target import FetchTarget, TopicKey
from penstock.broker.partitions.leadership import no_replica
from penstock.broker.reading.consumer_fetch import NO_RECORDS, ConsumerFetch, PartitionData, Results
from penstock.broker.reading.fetch_session import FetchPlan, replica_id_of
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.leadership import Leadership
    from penstock.broker.partitions.purgatory import WaitList
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.reading.host import ReadingHost


class FollowerFetch(ConsumerFetch):
    """A follower's Fetch: it reads to the log's end, from the leader only, and reports the follower's end."""

    __slots__ = ("_broker_epoch", "_broker_id", "_changes", "_is_first_read")

    def __init__(
        self, host: ReadingHost, request: FetchRequest, context: RequestContext, plan: FetchPlan
    ) -> None:
        super().__init__(host, request, context, plan)
        self._broker_id = replica_id_of(request)
        self._broker_epoch = request.replica_state.replica_epoch
        self._find = host.replicas.leader
        self._read_committed = False
        self._rack = ""
        self._is_first_read = True
        self._changes = plan.changes
        if self._changes is not None:
            self._changes.fetched(host.replication.now_ms())

    def _meter(self) -> None:
        """Do nothing: no quota limits followers."""

    def _permitted_topics(self, *, is_first: bool) -> Container[TopicKey] | None:
        """All topics or none. The API has checked the permission before, but it may be revoked in a wait."""
        if is_first or self._context.permissions.allows(
            Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, logs_permission=False
        ):
            return None
        return ()

    def read(self) -> tuple[Results, int]:
        changes = self._changes
        if changes is None:
            found = super().read()
            self._is_first_read = False
            return found
        while True:
            count_before = changes.reported_count
            self._plan.targets = list(changes.fresh)
            found = super().read()
            self._is_first_read = False
            if changes.reported_count == count_before:
                return found
            # The follower's progress may have committed records, and requests that waited for that may have
            # appended more. This fetch does not wait yet, so it would not be woken: read again. The second
            # time no follower makes progress.
            self.keep_unsent(found[0])

    def _read_partition(
        self, place: int, replica: Replica, target: FetchTarget, left_bytes: int, may_exceed: bool
    ) -> PartitionData:
        """Read as for a consumer, and take note of how far the follower is before the fetch waits."""
        partition = replica.replicated
        if partition is None or partition.leading is None:
            raise no_replica(self._broker_id, target.current_leader_epoch)
        partition.leading.follower(self._broker_id, target.current_leader_epoch)
        end_offset = replica.log.log_end_offset
        data = super()._read_partition(place, replica, target, left_bytes, may_exceed)
        if self._is_first_read and data.diverging_epoch.end_offset < 0:
            partition.fetched(
                self._broker_id,
                target.fetch_offset,
                target.replica_log_start_offset,
                end_offset,
                self._broker_epoch,
            )
            data.high_watermark = replica.high_watermark
        if self._changes is not None:
            self._changes.watch(target, partition)
            is_settled = target.fetch_offset >= end_offset and self._broker_id in partition.leading.isr
            if is_settled and data.diverging_epoch.end_offset < 0:
                self._changes.fresh.pop(target, None)  # until the next change, once this answer is sent
        if self._must_pause(replica, partition.leading):
            data.records = NO_RECORDS
            if self.cold and self.cold[-1].place == place:
                self.cold.pop()
        return data

    def _must_pause(self, replica: Replica, leading: Leadership) -> bool:
        """Whether a throttled follower must wait (KIP-73); followers in sync never wait."""
        throttle = self._host.replication.leader_throttle
        return (
            not throttle.is_idle
            and self._broker_id not in leading.isr
            and throttle.is_throttled(replica.topic, replica.partition)
            and throttle.is_exceeded
        )

    def _end_of(self, replica: Replica, committed: int) -> int:
        return replica.log.log_end_offset

    def keep_unsent(self, results: Results) -> None:
        if self._changes is not None:
            self._changes.fresh.update({target: None for target, data in results if target.is_new(data)})

    def _wait_lists(self) -> list[WaitList]:
        if self._changes is not None:
            return [self._changes.waiters]
        return [replica.replicated.log_end_waiters for replica in self._replicas if replica.replicated]

    def respond(self, results: Results) -> FetchResponse:
        throttle = self._host.replication.leader_throttle
        if not throttle.is_idle:
            for target, data in results:
                replica = self._host.replicas.get(target.topic, target.partition)
                if replica is not None and throttle.is_throttled(replica.topic, replica.partition):
                    throttle.record(len(data.records or NO_RECORDS))
        if self._changes is not None:  # an error may have occurred after the partition was settled
            self._changes.fresh.update({target: None for target, data in results if data.error_code})
            self._changes.answered_ms = self._host.replication.now_ms()
        return self.respond_in_full(results)
