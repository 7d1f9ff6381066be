"""A consumer of one partition from its beginning, which reports to the history what it reads."""

from __future__ import annotations

from random import Random
from typing import Final

from penstock.protocol.batch import iter_headers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from penstock.protocol.records import decode_records, records_section
from penstock.testing.simulator.clients.client import Address, Client, ClientSettings, Gone, Leader, NoAnswer
from penstock.testing.simulator.history import CONTROL, Partition

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
MAX_WAIT_MS: Final = 500
EARLIEST: Final = -2

EXPECTED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)


class Consumer(Client):
    """A consumer of one partition.

    `records` holds what it has read, by offset; with READ_UNCOMMITTED that includes control records.
    """

    def __init__(
        self, settings: ClientSettings, name: str, rng: Random, partition: Partition, isolation: int
    ) -> None:
        super().__init__(settings, name, rng)
        self.partition = partition
        self.isolation = isolation
        self.position = 0
        self.records: dict[int, bytes] = {}
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.rack_id = f"rack{rng.randrange(3)}" if rng.random() < 0.5 else ""
        """The consumer's rack, if any; it fetches from the replica in its rack (KIP-392)."""
        self._nearest: Address | None = None
        self._aborting: dict[int, int] = {}
        self.max_wait_ms = MAX_WAIT_MS
        self.is_gone = False
        """Whether its topic was deleted, so that there is nothing to read."""

    async def run(self) -> None:
        refresh = False
        while not (self.stopping or self.is_gone):
            refresh = not await self.poll(refresh=refresh)
            await self.pause(0.01 if not refresh else 0.1)

    async def poll(self, *, refresh: bool = False) -> bool:
        """Fetch once and return whether there was an answer."""
        try:
            leader = await self.leader(self.partition, refresh=refresh)
            address = self._nearest or leader.address
            floor = self.history.of(self.partition).deleted_before
            response = await self.ask(address, self._request(leader), FetchResponse)
        except NoAnswer:
            self._nearest = None
            return False
        except Gone:
            self.is_gone = True
            return False
        if response.error_code:
            return False
        for topic in response.responses:
            for answer in topic.partitions:
                code = ErrorCode.of(answer.error_code)
                is_follower = address is self._nearest
                if code is not ErrorCode.NONE:
                    self._nearest = None
                if code in EXPECTED or (is_follower and code is ErrorCode.OFFSET_OUT_OF_RANGE):
                    return False
                if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._may_be_deleted():
                    return await self._go_to_start(leader)
                if code is not ErrorCode.NONE:
                    raise self.unexpected(f"a fetch of {self.partition} at {self.position}", code)
                self._take(leader, address, answer, floor)
        return True

    def _request(self, leader: Leader) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self.isolation,
            session_id=0,
            session_epoch=-1,
            rack_id=self.rack_id,
            topics=[
                FetchRequest.FetchTopic(
                    topic=self.partition.topic,
                    topic_id=self.partition.topic_id,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=self.partition.number,
                            current_leader_epoch=leader.epoch,
                            fetch_offset=self.position,
                            partition_max_bytes=1 << 18,
                        )
                    ],
                )
            ],
        )

    def _may_be_deleted(self) -> bool:
        return self.position < self.history.of(self.partition).asked_before

    async def _go_to_start(self, leader: Leader) -> bool:
        """Skip deleted records: continue at the log's new start. Returns whether there was an answer."""
        floor = self.history.of(self.partition).deleted_before
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=self.partition.topic,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsPartition(
                            partition_index=self.partition.number,
                            current_leader_epoch=leader.epoch,
                            timestamp=EARLIEST,
                        )
                    ],
                )
            ],
        )
        try:
            response = await self.ask(leader.address, request, ListOffsetsResponse)
        except NoAnswer:
            return False
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            return False
        self.history.log_start(self.partition, answer.offset, floor)
        self.position = max(self.position, answer.offset)
        return True

    def _take(
        self, leader: Leader, address: Address, answer: FetchResponse.PartitionData, floor: int
    ) -> None:
        """Process an answer for the partition; records below `floor` were deleted before the request."""
        if answer.preferred_read_replica >= 0:
            self._nearest = self.settings.bootstrap[answer.preferred_read_replica]
            return
        self.high_watermark = answer.high_watermark
        self.last_stable_offset = answer.last_stable_offset
        # A follower that was killed restarts with the high watermark of its last checkpoint.
        if address == leader.address:
            self.history.high_watermark(self.partition, self.name, leader.epoch, answer.high_watermark)
            self.history.log_start(self.partition, answer.log_start_offset, floor)
        data = bytes(answer.records or b"")
        if not data:
            return
        aborted = sorted(
            (found.first_offset, found.producer_id) for found in answer.aborted_transactions or ()
        )
        for position, header in iter_headers(data):
            last_offset = header.base_offset + header.last_offset_delta
            if last_offset < self.position:
                continue
            while aborted and aborted[0][0] <= last_offset:
                self._aborting[aborted.pop(0)[1]] = 1
            is_aborted = header.is_transactional and header.producer_id in self._aborting
            for record in decode_records(header, records_section(data, header, position)):
                if record.offset < self.position:
                    continue
                value = CONTROL if header.is_control else record.value or b""
                self.history.read(self.partition, record.offset, value)
                if not (is_aborted or header.is_control) or self.isolation == READ_UNCOMMITTED:
                    self.records[record.offset] = value
            if header.is_control:
                self._aborting.pop(header.producer_id, None)
            self.position = last_offset + 1

    async def read_to_end(self) -> None:
        """Read until no record is left below the high watermark, or below the last stable offset."""
        self.max_wait_ms = 0
        refresh = True
        while True:
            answered = await self.poll(refresh=refresh)
            refresh = not answered
            end = self.last_stable_offset if self.isolation else self.high_watermark
            if answered and self.position >= end >= 0 and self.position >= self.high_watermark:
                return
            await self.pause(0.05)
