"""The input and the output of the controller's decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.features import DIRECTORY_ASSIGNMENT_LEVEL, ELIGIBLE_LEADER_REPLICAS_VERSION
from penstock.metadata.controller.heartbeats import BrokerHeartbeats
from penstock.metadata.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    MetadataDelta,
    MetadataImage,
    ResourceType,
)
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import Message

R = TypeVar("R")

DEFAULT_SESSION_TIMEOUT_MS: Final = 9000

MAX_RECORDS_PER_REQUEST: Final = 10_000
"""As in Kafka: all records of a request form one batch, and this limits the batch's size."""


Charge: TypeAlias = Callable[[int], None]
"""Charges the client of a request for partitions to create or delete; raises Refusal if it may not now."""


def free_of_charge(_partitions: int) -> None:
    """Charge nobody: the `Charge` of requests without a quota."""


class Decision(NamedTuple, Generic[R]):
    """The records to append, and the response to send once they are committed.

    The records are appended as one batch, all or none. If ``is_atomic`` is False, they may be several
    batches, in order, and every prefix of them that survives a crash is a valid state.
    """

    records: list[Message]
    response: R
    is_atomic: bool = True


class Refusal(Exception):
    """A request, or a part of it, is refused; the response carries the code and the message."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.default_message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class ControllerState:
    """The image with every record appended so far, committed or not, and other inputs to decisions.

    ``new_uuid`` creates topic ids, and ``random`` selects where placement begins: random in a node, seeded in
    tests. ``controller_ids`` are the known voters of the quorum.
    """

    image: MetadataImage
    static_config: BrokerConfig
    new_uuid: Callable[[], bytes]
    random: Random
    cluster_id: str = ""
    heartbeats: BrokerHeartbeats = field(default_factory=lambda: BrokerHeartbeats(DEFAULT_SESSION_TIMEOUT_MS))
    controller_ids: frozenset[int] = frozenset()
    kraft_version: int = 0
    upgrade_kraft_version: Callable[[int, bool], str | None] | None = None
    """Finalizes a level in the quorum, or only checks it (True); returns why it refuses, or None."""

    @property
    def next_offset(self) -> int:
        """The offset that the next record will have."""
        return self.image.offset + 1

    def replay(self, records: Iterable[Message]) -> None:
        """Apply records that are being appended at `next_offset`, before they are committed."""
        ignored = MetadataDelta()
        for record in records:
            self.image.offset += 1
            self._follow_broker(record)
            self.image.replay(record, ignored)

    def _follow_broker(self, record: Message) -> None:
        match record:
            case m.RegisterBrokerRecord():
                self.heartbeats.registered(record.broker_id, self.image.offset)
            case m.BrokerRegistrationChangeRecord():
                self.heartbeats.registration_changed(record.broker_id)
            case m.UnregisterBrokerRecord():
                self.heartbeats.unregistered(record.broker_id)

    def config(self) -> BrokerConfig:
        """The node's configuration with the dynamic configs of the image."""
        configs, broker = self.image.configs, str(self.static_config.node_id)
        return self.static_config.with_dynamic(
            configs.of(ResourceType.BROKER, ""), configs.of(ResourceType.BROKER, broker)
        )

    def topic_config(self, topic: str, name: str) -> str:
        """The current value, as text, of a config that has the same name for topics and brokers."""
        configs = self.image.configs
        for type_, resource in (
            (ResourceType.TOPIC, topic),
            (ResourceType.BROKER, str(self.static_config.node_id)),
            (ResourceType.BROKER, ""),
        ):
            value = configs.of(type_, resource).get(name)
            if value is not None:
                return value
        return str(self.static_config[name])

    def min_isr(self, topic: str) -> int:
        """The topic's ``min.insync.replicas``, or its number of replicas if that is lower."""
        partitions = self.image.topics.by_name[topic].partitions
        return min(int(self.topic_config(topic, "min.insync.replicas")), len(partitions[0].replicas))

    def allows_unclean_election(self, topic: str) -> bool:
        """``unclean.leader.election.enable``: whether to lose records rather than have no leader."""
        return self.topic_config(topic, "unclean.leader.election.enable").lower() == "true"

    @property
    def elr_enabled(self) -> bool:
        """Whether replicas that left the ISR with all committed records stay eligible leaders (KIP-966)."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    def default_directory(self, broker_id: int) -> bytes:
        """The directory of a new replica on this broker, as far as the controller knows it (KIP-858)."""
        if self.image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
            return MIGRATING_DIRECTORY
        broker = self.image.brokers.get(broker_id)
        return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory


def repeated(items: Iterable[R]) -> Iterator[R]:
    """Return each item that occurs more than once, one time."""
    seen: dict[R, int] = {}
    for item in items:
        seen[item] = seen.get(item, 0) + 1
    return (item for item, count in seen.items() if count > 1)
