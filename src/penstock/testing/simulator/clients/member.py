"""A member of a consumer group (the classic protocol): it joins, owns partitions, commits, and leaves."""

from __future__ import annotations

import json
from random import Random
from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.testing.simulator.clients.client import GROUP, Client, ClientSettings, NoAnswer
from penstock.testing.simulator.clients.producer import GONE
from penstock.testing.simulator.history import Partition

SESSION_TIMEOUT_MS: Final = 3_000
REBALANCE_TIMEOUT_MS: Final = 2_000
JOIN_TIMEOUT_MS: Final = 5_000

ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)


class Rejoin(Exception):
    """The coordinator requires the member to rejoin."""


class Member(Client):
    """A member of a consumer group. The offsets that it commits for a partition only grow."""

    def __init__(
        self, settings: ClientSettings, name: str, rng: Random, group_id: str, partitions: list[Partition]
    ) -> None:
        super().__init__(settings, name, rng)
        self.group_id = group_id
        self.partitions = partitions
        self.generations = 0
        self.commits = 0
        self._member_id = ""
        self._generation = -1
        self._refresh = False

    async def run(self) -> None:
        while not self.stopping:
            try:
                owned = await self._join()
                self.generations += 1
                await self._work(owned)
            except NoAnswer:
                self._refresh = True
                await self.pause()
            except Rejoin:
                await self.pause()

    def _judge(self, what: str, error_code: int) -> None:
        """Raise NoAnswer, Rejoin or Violation for an error."""
        code = ErrorCode.of(error_code)
        if code is ErrorCode.NONE:
            return
        if code in ASK_AGAIN:
            raise NoAnswer(code.name)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if code in JOIN_AGAIN:
            raise Rejoin
        raise self.unexpected(what, error_code)

    def _judge_partition(self, what: str, partition: Partition, error_code: int) -> None:
        """Judge the error of one partition; the coordinator's node may not know a new partition yet."""
        if ErrorCode.of(error_code) not in GONE:
            self._judge(what, error_code)
        elif self.is_doomed(partition):
            raise Rejoin
        else:
            raise NoAnswer(f"{what}: {partition} is not known yet")

    async def _join(self) -> list[Partition]:
        address = await self.coordinator(GROUP, self.group_id, refresh=self._refresh)
        self._refresh = False
        joined = await self.ask(
            address,
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            JoinGroupResponse,
            JOIN_TIMEOUT_MS,
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise Rejoin
        self._judge("JoinGroup", joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        synced = await self.ask(
            address,
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=self._assign(joined) if joined.leader == self._member_id else [],
            ),
            SyncGroupResponse,
            JOIN_TIMEOUT_MS,
        )
        self._judge("SyncGroup", synced.error_code)
        owned = [
            Partition(topic, number, bytes.fromhex(topic_id))
            for topic, number, topic_id in json.loads(synced.assignment or b"[]")
        ]
        self.history.owns(self.group_id, self._generation, self._member_id, owned)
        return owned

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        members = [member.member_id for member in joined.members]
        shares: dict[str, list[tuple[str, int, str]]] = {member: [] for member in members}
        for at, (topic, number, topic_id) in enumerate(self.partitions):
            shares[members[at % len(members)]].append((topic, number, topic_id.hex()))
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member, assignment=json.dumps(share).encode()
            )
            for member, share in shares.items()
        ]

    async def _work(self, owned: list[Partition]) -> None:
        """Send heartbeats and commit offsets until the group rebalances."""
        owned = [partition for partition in owned if not self.is_doomed(partition)]
        positions = await self._committed(owned)
        known = list(self.partitions)
        while not self.stopping:
            await self.pause(0.3)
            address = await self.coordinator(GROUP, self.group_id, refresh=self._refresh)
            self._refresh = False
            beat = await self.ask(
                address,
                HeartbeatRequest(
                    group_id=self.group_id, generation_id=self._generation, member_id=self._member_id
                ),
                HeartbeatResponse,
            )
            self._judge("Heartbeat", beat.error_code)
            owned = [partition for partition in owned if not self.is_doomed(partition)]
            if self.partitions != known:
                raise Rejoin
            if owned:
                partition = self.rng.choice(owned)
                positions[partition] += self.rng.randint(1, 5)
                await self._commit(partition, positions[partition])

    async def _committed(self, owned: list[Partition]) -> dict[Partition, int]:
        """The offsets to continue from; acknowledged commits must still be there."""
        if not owned:
            return {}
        while True:
            address = await self.coordinator(GROUP, self.group_id, refresh=self._refresh)
            self._refresh = False
            topics: dict[tuple[str, bytes], list[int]] = {}
            for partition in owned:
                topics.setdefault((partition.topic, partition.topic_id), []).append(partition.number)
            known = self.history.committed_now(self.group_id)
            response = await self.ask(
                address,
                OffsetFetchRequest(
                    groups=[
                        OffsetFetchRequest.OffsetFetchRequestGroup(
                            group_id=self.group_id,
                            member_id=self._member_id,
                            member_epoch=self._generation,
                            topics=[
                                OffsetFetchRequest.OffsetFetchRequestTopics(
                                    name=topic, topic_id=topic_id, partition_indexes=numbers
                                )
                                for (topic, topic_id), numbers in topics.items()
                            ],
                        )
                    ],
                    require_stable=True,
                ),
                OffsetFetchResponse,
            )
            group = response.groups[0]
            self._judge("OffsetFetch", group.error_code)
            found: dict[Partition, int] = {}
            names = {topic_id: topic for topic, topic_id in topics}
            unstable = False
            for answered in group.topics:
                for each in answered.partitions:
                    partition = Partition(names[answered.topic_id], each.partition_index, answered.topic_id)
                    if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                        unstable = True
                        continue
                    self._judge_partition("OffsetFetch", partition, each.error_code)
                    found[partition] = max(each.committed_offset, 0)
            if unstable:
                await self.pause()
                continue
            self.history.fetched(self.group_id, known, found)
            return found

    async def _commit(self, partition: Partition, offset: int) -> None:
        address = await self.coordinator(GROUP, self.group_id, refresh=False)
        commit = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition.number, committed_offset=offset, committed_metadata=""
        )
        self.history.committing(self.group_id, partition, offset)
        response = await self.ask(
            address,
            OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=self._generation,
                member_id=self._member_id,
                topics=[
                    OffsetCommitRequest.OffsetCommitRequestTopic(
                        name=partition.topic,
                        topic_id=partition.topic_id,
                        partitions=[commit],
                    )
                ],
            ),
            OffsetCommitResponse,
        )
        self._judge_partition("OffsetCommit", partition, response.topics[0].partitions[0].error_code)
        self.commits += 1
        self.history.committed(self.group_id, partition, offset)
