"""An administrator: creates topics, and while the cluster runs moves partitions and elects leaders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from penstock.protocol.uuids import uuid_from_text
from penstock.storage.names import CLUSTER_METADATA_TOPIC
from penstock.testing.simulator.clients.client import Address, Client, ClientSettings, NoAnswer
from penstock.testing.simulator.history import Partition
from penstock.testing.simulator.layout import (
    CONTROLLER_PORT,
    Layout,
    directory_id_of,
    host_of,
)

TIMEOUT_MS: Final = 2_000
PREFERRED: Final = 0
ASK_AGAIN: Final = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.UNKNOWN_SERVER_ERROR})
"""Errors to retry: there are not enough brokers, or the controller's disk has failed."""


class Admin(Client):
    """An administrator, which sends its requests to any node, as the protocol allows."""

    def __init__(
        self,
        settings: ClientSettings,
        name: str,
        rng: Random,
        partitions: list[Partition],
        pause_s: float,
        layout: Layout,
    ) -> None:
        super().__init__(settings, name, rng)
        self.partitions = partitions
        self.pause_s = pause_s
        self.moves = 0
        self.elections = 0
        self.voter_changes = 0
        self.layout = layout

    async def run(self) -> None:
        while not self.stopping:
            await self.pause(self.pause_s)
            chance = self.rng.random()
            try:
                if chance < 0.4:
                    await self.move(self.rng.choice(self.partitions))
                elif chance < 0.7 or not self.layout.first_voters:
                    await self.elect(self.rng.choice(self.partitions))
                else:
                    await self.change_voters()
            except NoAnswer:
                continue

    async def create_topic(
        self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
    ) -> bytes:
        """Create a topic and return its id."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replicas,
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                        for key, value in configs.items()
                    ],
                )
            ],
            timeout_ms=TIMEOUT_MS,
        )
        while True:
            try:
                response = await self.ask(self._anybody(), request, CreateTopicsResponse)
            except NoAnswer:
                await self.pause()
                continue
            code = ErrorCode.of(response.topics[0].error_code)
            if code is ErrorCode.NONE:
                return response.topics[0].topic_id
            if code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return await self._id_of(name)
            if not (code.retriable or code in ASK_AGAIN):
                raise self.unexpected(f"CreateTopics {name}", code)
            await self.pause()

    async def _id_of(self, name: str) -> bytes:
        """The id of a topic that an earlier request created; lagging nodes may still know its predecessor."""
        while True:
            with suppress(NoAnswer):
                await self.refresh(name)
            for partition in self.leaders:
                if partition.topic == name and not self.is_doomed(partition):
                    return partition.topic_id
            await self.pause()

    async def move(self, partition: Partition) -> None:
        """Move a partition to other nodes, or cancel its move. Raises NoAnswer."""
        nodes = list(self.settings.bootstrap)
        count = min(3, len(nodes))
        replicas = self.rng.sample(nodes, count) if self.rng.random() < 0.8 else None
        response = await self.ask(
            self._anybody(),
            AlterPartitionReassignmentsRequest(
                timeout_ms=TIMEOUT_MS,
                topics=[
                    AlterPartitionReassignmentsRequest.ReassignableTopic(
                        name=partition.topic,
                        partitions=[
                            AlterPartitionReassignmentsRequest.ReassignablePartition(
                                partition_index=partition.number, replicas=replicas
                            )
                        ],
                    )
                ],
            ),
            AlterPartitionReassignmentsResponse,
        )
        if not response.error_code:
            self.moves += 1

    async def elect(self, partition: Partition) -> None:
        """Elect the preferred leader. Raises NoAnswer."""
        response = await self.ask(
            self._anybody(),
            ElectLeadersRequest(
                election_type=PREFERRED,
                topic_partitions=[
                    ElectLeadersRequest.TopicPartitions(topic=partition.topic, partitions=[partition.number])
                ],
                timeout_ms=TIMEOUT_MS,
            ),
            ElectLeadersResponse,
        )
        if not response.error_code:
            self.elections += 1

    async def change_voters(self) -> None:
        """Add or remove one voter of the metadata quorum, which keeps at least two. Raises NoAnswer."""
        response = await self.ask(
            self._anybody(),
            DescribeQuorumRequest(
                topics=[
                    DescribeQuorumRequest.TopicData(
                        topic_name=CLUSTER_METADATA_TOPIC,
                        partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)],
                    )
                ]
            ),
            DescribeQuorumResponse,
        )
        if response.error_code or response.topics[0].partitions[0].error_code:
            return
        voters = {voter.replica_id for voter in response.topics[0].partitions[0].current_voters}
        others = [node_id for node_id in self.layout.controllers if node_id not in voters]
        if others and (len(voters) < 3 or self.rng.random() < 0.5):
            node_id = self.rng.choice(others)
            added = await self.ask(
                self._anybody(),
                AddRaftVoterRequest(
                    timeout_ms=TIMEOUT_MS,
                    voter_id=node_id,
                    voter_directory_id=uuid_from_text(directory_id_of(node_id)),
                    listeners=[
                        AddRaftVoterRequest.Listener(
                            name="CONTROLLER", host=host_of(node_id), port=CONTROLLER_PORT
                        )
                    ],
                ),
                AddRaftVoterResponse,
            )
            self.voter_changes += not added.error_code
        elif len(voters) > 2:
            node_id = self.rng.choice(sorted(voters))
            removed = await self.ask(
                self._anybody(),
                RemoveRaftVoterRequest(
                    voter_id=node_id, voter_directory_id=uuid_from_text(directory_id_of(node_id))
                ),
                RemoveRaftVoterResponse,
            )
            self.voter_changes += not removed.error_code

    def _anybody(self) -> Address:
        return self.rng.choice(list(self.settings.bootstrap.values()))
