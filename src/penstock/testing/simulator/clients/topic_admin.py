"""An administrator of topics: deletes, recreates and grows topics while other clients use them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.testing.simulator.clients.admin import ASK_AGAIN, TIMEOUT_MS, Admin
from penstock.testing.simulator.clients.client import ClientSettings, NoAnswer
from penstock.testing.simulator.history import Violation
from penstock.testing.simulator.layout import Layout

FIRST_PARTITIONS: Final = 2
"""The same for every creation: an abandoned request may still create the topic, or grow a later one."""
PARTITIONS_MAX: Final = 4
TRANSIENT: Final = "transient-records"
"""The topic that is repeatedly created and deleted."""


class TopicAdmin(Admin):
    """An administrator that finishes what it begins: it repeats requests that got no answer.

    `growing` names the permanent topics that get more partitions.
    """

    def __init__(
        self,
        settings: ClientSettings,
        name: str,
        rng: Random,
        layout: Layout,
        replicas: int,
        configs: Mapping[str, str],
        growing: list[str],
    ) -> None:
        super().__init__(settings, name, rng, settings.topics.partitions, 0.8, layout)
        self._replicas = replicas
        self._configs = configs
        self._growing = growing
        self._ids: list[bytes] = []
        """The ids of the transient topic, one for each creation."""

    async def run(self) -> None:
        while not self.stopping:
            await self.pause(self.pause_s)
            chance = self.rng.random()
            if chance < 0.3:
                await self._grow(self.rng.choice(self._growing))
            elif not self._exists:
                await self._create()
            elif chance < 0.5:
                await self._grow(TRANSIENT)
            elif chance < 0.8:
                await self._delete()
                if self.rng.random() < 0.5:
                    await self._create()

    @property
    def _exists(self) -> bool:
        return any(found.topic == TRANSIENT for found in self.partitions)

    async def _create(self) -> None:
        topic_id = await self.create_topic(TRANSIENT, FIRST_PARTITIONS, self._replicas, self._configs)
        if topic_id in self._ids:
            raise Violation(f"{TRANSIENT} was created with the id {topic_id.hex()} of one that was deleted")
        self._ids.append(topic_id)
        self.settings.topics.has(TRANSIENT, topic_id, FIRST_PARTITIONS)

    async def _delete(self) -> None:
        topic_id = self._ids[-1]
        self.settings.topics.doom(topic_id)
        self.settings.topics.deletions += 1
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=TIMEOUT_MS
        )
        while True:
            try:
                response = await self.ask(self._anybody(), request, DeleteTopicsResponse)
            except NoAnswer:
                await self.pause()
                continue
            code = ErrorCode.of(response.responses[0].error_code)
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
                return
            if not (code.retriable or code in ASK_AGAIN):
                raise self.unexpected(f"DeleteTopics {TRANSIENT}", code)
            await self.pause()

    async def _grow(self, topic: str) -> None:
        """Add one partition, unless the topic has the maximum."""
        topic_id = next(found.topic_id for found in self.partitions if found.topic == topic)
        count = self.settings.topics.count_of(topic_id) + 1
        if count > PARTITIONS_MAX:
            return
        self.settings.topics.growths += 1
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)],
            timeout_ms=TIMEOUT_MS,
        )
        while True:
            try:
                response = await self.ask(self._anybody(), request, CreatePartitionsResponse)
            except NoAnswer:
                await self.pause()
                continue
            code = ErrorCode.of(response.results[0].error_code)
            # An earlier request added the partitions, perhaps one that a node forwarded.
            if code in (ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS):
                self.settings.topics.has(topic, topic_id, count)
                return
            if not (code.retriable or code in ASK_AGAIN):
                raise self.unexpected(f"CreatePartitions {topic}", code)
            await self.pause()
