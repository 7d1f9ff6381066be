"""One Fetch request: read its partitions, wait if needed, and answer.

Partitions are read at once, up to the committed end, and again if the request had to wait. Data that the loop
cannot read without waiting for the disk is left to a worker (`cold_reads`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, TypeAlias

from penstock.broker.network.answers import Answer
from penstock.broker.network.sized_response import SizedResponse
from penstock.broker.partitions.fetch_target import FetchTarget, TopicKey
from penstock.broker.partitions.leader_hints import LeaderHints
from penstock.broker.partitions.purgatory import DelayedFetch, WaitList
from penstock.broker.reading.cold_reads import ColdRead
from penstock.broker.reading.fetch_session import FetchPlan
from penstock.broker.reading.nearest_replica import nearest_replica
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.security.acls import Operation, ResourceType
from penstock.storage.segments.file_slice import FileSlice

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.reading.host import ReadingHost
    from penstock.storage.segments.transaction_index import AbortedTransaction

READ_COMMITTED = 1
NEAREST_SINCE_VERSION = 11
LEADER_HINTS_SINCE_VERSION = 12
ENDPOINTS_SINCE_VERSION = 16
FRAME_SIZE_BYTES = 4
NO_RECORDS = b""
HINTED_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

TopicResponse = FetchResponse.FetchableTopicResponse
PartitionData = FetchResponse.PartitionData
Results = list[tuple[FetchTarget, PartitionData]]
Fetched: TypeAlias = "FetchResponse | MeteredResponse"


class ConsumerFetch:
    """A consumer's Fetch, which is read at once, and again if it had to wait."""

    __slots__ = (
        "_context",
        "_find",
        "_host",
        "_is_metered",
        "_max_bytes",
        "_min_bytes",
        "_now_s",
        "_permitted",
        "_plan",
        "_rack",
        "_read_committed",
        "_replicas",
        "cold",
    )

    def __init__(
        self, host: ReadingHost, request: FetchRequest, context: RequestContext, plan: FetchPlan
    ) -> None:
        self._host = host
        self._context = context
        self._plan = plan
        self._max_bytes = min(request.max_bytes, host.fetch_max_bytes)
        self._is_metered = False
        if host.quotas.is_active:
            self._meter()
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._read_committed = request.isolation_level == READ_COMMITTED
        replicas = host.replicas
        self._find = replicas.readable if context.api_version >= NEAREST_SINCE_VERSION else replicas.leader
        self._rack = request.rack_id if host.replication.sends_to_nearest else ""
        self._replicas: list[Replica] = []
        self._now_s = 0.0
        self._permitted = self._permitted_topics(is_first=True)
        self.cold: list[ColdRead] = []
        """The reads that the last `read` left to a worker."""

    def _meter(self) -> None:
        """Limit the fetch to what the client's quota allows, and have its response charged."""
        metered = self._context.metered
        if metered is not None:
            self._is_metered = True
            self._max_bytes = min(self._max_bytes, self._host.quotas.fetch_bytes_max(metered))

    def _permitted_topics(self, *, is_first: bool) -> Container[TopicKey] | None:
        """The topics that this client may read, and unknown ids; None stands for all.

        The audit log has a permission once (``is_first``), even if the fetch waits and reads again.
        """
        permissions = self._context.permissions
        if permissions.is_unrestricted:
            return None
        names = {target: self._name_of(target.topic) for target in self._plan.targets}
        permitted = permissions.allowed(
            Operation.READ,
            ResourceType.TOPIC,
            (name for name in names.values() if name is not None),
            logs_permission=is_first,
        )
        return {target.topic for target, name in names.items() if name is None or name in permitted}

    def _name_of(self, topic: TopicKey) -> str | None:
        if isinstance(topic, str):
            return topic
        image = self._host.image.topics.by_id.get(topic)
        return None if image is None else image.name

    def read(self) -> tuple[Results, int]:
        """Read each partition; return the results and the number of missing bytes.

        The number is 0 or less if the request must be answered now, for example because of an error.
        """
        left_bytes = self._max_bytes
        found_bytes = 0
        readable_bytes = 0
        urgent = False
        results: Results = []
        self._replicas = []
        self._now_s = self._host.loop.time()
        cold = self.cold = []
        permitted = self._permitted
        for target in self._plan.targets:
            if permitted is not None and target.topic not in permitted:
                results.append((target, refusal(target, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
                continue
            try:
                replica = self._find(target.topic, target.partition, target.current_leader_epoch)
                data = self._read_partition(len(results), replica, target, left_bytes, found_bytes == 0)
            except KafkaError as error:
                data = refusal(target, error.code)
                urgent = True
            else:
                self._replicas.append(replica)
                if data.diverging_epoch.end_offset >= 0 or data.preferred_read_replica >= 0:
                    urgent = True
                size_bytes = len(data.records or NO_RECORDS)
                if cold and cold[-1].place == len(results) and cold[-1].found is None:
                    size_bytes = cold[-1].size_bytes_max
                    urgent = True
                found_bytes += size_bytes
                readable_bytes += size_bytes
                if isinstance(data.records, FileSlice):
                    if data.records.is_old:
                        urgent = True
                    elif data.records.is_cut:
                        # Count the requested size although a whole batch ends below it: waiting would add
                        # nothing.
                        readable_bytes += max(0, min(target.max_bytes, left_bytes) - size_bytes)
                left_bytes -= size_bytes
            results.append((target, data))
        if permitted is not None and not self._replicas:
            urgent = True  # no topic is left to wait for
        return results, 0 if urgent else self._min_bytes - readable_bytes

    def _read_partition(
        self, place: int, replica: Replica, target: FetchTarget, left_bytes: int, may_exceed: bool
    ) -> PartitionData:
        """Read the partition at index `place`. Raises KafkaError, OFFSET_OUT_OF_RANGE among others."""
        log = replica.log
        high_watermark = replica.high_watermark
        stable = replica.last_stable_offset
        data = PartitionData(
            partition_index=target.partition,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._read_committed else None,
            records=NO_RECORDS,
        )
        offset = target.fetch_offset
        if target.last_fetched_epoch >= 0 and _diverges(replica, target, data):
            if offset < log.log_start_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            return data
        if self._rack and (nearest := self._nearest(replica, offset)) is not None:
            data.preferred_read_replica = nearest
            return data
        end_offset = self._end_of(replica, stable if self._read_committed else high_watermark)
        limit_bytes = min(target.max_bytes, left_bytes)
        if log.log_start_offset <= offset < end_offset:
            if limit_bytes > 0 or may_exceed:
                try:
                    found = log.read(
                        offset, limit_bytes, min_one_batch=may_exceed, up_to_offset=end_offset, wait=False
                    )
                    is_ready = found is None or found.is_ready(self._now_s)
                except BlockingIOError:
                    found, is_ready = None, False
                if found is not None:
                    data.records = found
                if not is_ready:
                    read = ColdRead(
                        place,
                        log,
                        offset,
                        limit_bytes=limit_bytes,
                        min_one_batch=may_exceed,
                        up_to_offset=end_offset,
                        read_committed=self._read_committed,
                        found=found,
                    )
                    self.cold.append(read)
                elif found is not None and self._read_committed:
                    data.aborted_transactions = _aborted(log.aborted_transactions(offset, end_offset, found))
        elif offset < log.log_start_offset or offset > log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return data

    def _nearest(self, replica: Replica, offset: int) -> int | None:
        """Choose the replica in the consumer's own rack to read from, if it is not this node (KIP-392)."""
        leading = None if replica.replicated is None else replica.replicated.leading
        if leading is None:
            return None
        brokers = self._host.replication.brokers
        own_rack = brokers.rack_of(self._host.node_id)
        return nearest_replica(leading, self._rack, own_rack, brokers.rack_of, offset)

    def keep_unsent(self, results: Results) -> None:
        """Note that these results are not sent, because the request will wait."""

    def _end_of(self, replica: Replica, committed: int) -> int:
        """The offset up to which this client reads."""
        return committed

    def _wait_lists(self) -> list[WaitList]:
        """The wait lists that report new data to read."""
        if self._read_committed:
            return [replica.stable_waiters for replica in self._replicas]
        return [replica.waiters for replica in self._replicas]

    def answer_now(self, results: Results) -> Answer[Fetched]:
        """Answer with these results, perhaps after a worker has completed them."""
        if not self.cold:
            return Answer.of(self.respond(results))
        answer: Answer[Fetched] = Answer.later(blocks=False)
        self._read_cold(results, answer)
        return answer

    def wait(self, missing_bytes: int, max_wait_ms: int) -> Answer[Fetched]:
        """Answer once there are so many more bytes, or the time is over."""
        answer: Answer[Fetched] = Answer.later(blocks=False)
        delayed = DelayedFetch(
            self._host.purgatory,
            self._wait_lists(),
            missing_bytes,
            max_wait_ms,
            lambda: self._answer(answer),
        )
        answer.on_abandon = delayed.cancel
        return answer

    def _answer(self, answer: Answer[Fetched]) -> None:
        """Answer with the data that is available at the end of the wait, and still permitted."""
        self._permitted = self._permitted_topics(is_first=False)
        results, _ = self.read()
        if self.cold:
            self._read_cold(results, answer)
        else:
            answer.complete(self.respond(results))

    def _read_cold(self, results: Results, answer: Answer[Fetched]) -> None:
        """Have a worker read and check the data that the loop could not, then answer."""
        cold = self.cold

        def done() -> None:
            for read in cold:
                target, data = results[read.place]
                if read.error is not None:
                    results[read.place] = (target, refusal(target, read.error.code))
                    continue
                data.records = read.found or NO_RECORDS
                if self._read_committed:
                    data.aborted_transactions = _aborted(read.aborted)
            answer.complete(self.respond(results))

        self._host.cold_reads.submit(cold, done)

    def respond(self, results: Results) -> Fetched:
        """Respond with these results, or have the client's quota decide on that."""
        if self._is_metered:
            return MeteredResponse(self, results)
        return self._response(*self._plan.finish(results))

    def respond_in_full(self, results: Results) -> FetchResponse:
        """Respond with these results, within all quotas."""
        return self._response(*self._plan.finish(results))

    def respond_empty(self) -> FetchResponse:
        """Respond without partitions. A session stays as it was before the fetch, and none is opened."""
        return FetchResponse(session_id=self._plan.session_id)

    def size_bytes(self, results: Results) -> int:
        """The size of the response with these results, as Kafka counts it: with the size of the frame."""
        response = self._response(self._plan.session_id, self._plan.preview(results))
        return FRAME_SIZE_BYTES + sum(map(len, response.encode_parts(self._context.api_version)))

    def _response(self, session_id: int, results: Results) -> FetchResponse:
        response = FetchResponse(session_id=session_id, responses=by_topic(results, self._plan.by_topic_id))
        if any(data.error_code in HINTED_ERRORS for _, data in results):
            self._add_leader_hints(response, results)
        return response

    def _add_leader_hints(self, response: FetchResponse, results: Results) -> None:
        """Add each failed partition's leader and its address to the response (KIP-951)."""
        if self._context.api_version < LEADER_HINTS_SINCE_VERSION:
            return
        hints = LeaderHints(self._host.image, self._context.listener_name)
        for target, data in results:
            if data.error_code in HINTED_ERRORS:
                leader = hints.leader_of(target.topic, target.partition)
                data.current_leader = FetchResponse.LeaderIdAndEpoch(
                    leader_id=leader.node_id, leader_epoch=leader.epoch
                )
        if self._context.api_version >= ENDPOINTS_SINCE_VERSION:
            response.node_endpoints = [
                FetchResponse.NodeEndpoint(
                    node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
                )
                for node in hints.endpoints()
            ]


class MeteredResponse(SizedResponse):
    """The response to a consumer's Fetch, unless the consumer exceeds a quota."""

    __slots__ = ("_fetch", "_results")

    def __init__(self, fetch: ConsumerFetch, results: Results) -> None:
        self._fetch = fetch
        self._results = results

    def size_bytes(self) -> int:
        return self._fetch.size_bytes(self._results)

    def in_full(self) -> FetchResponse:
        return self._fetch.respond_in_full(self._results)

    def emptied(self) -> FetchResponse:
        return self._fetch.respond_empty()


def _diverges(replica: Replica, target: FetchTarget, data: PartitionData) -> bool:
    """Whether the epoch of the client's last record ended earlier here (KIP-595); if so, set that end."""
    epoch, end_offset = replica.end_offset_for_epoch(target.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch >= target.last_fetched_epoch and end_offset >= target.fetch_offset:
        return False
    data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return True


def _aborted(found: list[AbortedTransaction]) -> list[FetchResponse.AbortedTransaction]:
    return [
        FetchResponse.AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in found
    ]


def refusal(target: FetchTarget, code: ErrorCode) -> PartitionData:
    """The answer for a partition that is not read."""
    return PartitionData(
        partition_index=target.partition,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=NO_RECORDS,
    )


def by_topic(results: Results, by_topic_id: bool) -> list[TopicResponse]:
    """Group the partitions by topic in the order of reading; neighbors of one topic share an entry."""
    topics: list[TopicResponse] = []
    previous: TopicKey | None = None
    for target, data in results:
        topic = target.topic
        if topic == previous:
            topics[-1].partitions.append(data)
            continue
        previous = topic
        if by_topic_id:
            topics.append(TopicResponse(topic_id=topic, partitions=[data]))  # type: ignore[arg-type]
        else:
            topics.append(TopicResponse(topic=topic, partitions=[data]))  # type: ignore[arg-type]
    return topics
