"""What every decision of the controller starts from, and what it ends in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final, Generic, NamedTuple, TypeVar

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


class Decision(NamedTuple, Generic[R]):
    """Records to append and the response once they are committed.

    All records are one batch, or they are not appended at all; unless ``is_atomic`` is False: then they may
    be several batches, in order, and whatever prefix of them survives a crash is a sound state.
    """

    records: list[Message]
    response: R
    is_atomic: bool = True


class Refusal(Exception):
    """A request, or part of one, cannot be done; the response carries the code and the message."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.default_message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class ControllerState:
    """The image with every record written so far, committed or not, and what else decisions depend on.

    ``new_uuid`` is the source of topic ids and ``random`` that of where placement begins: random in a node,
    seeded in tests. ``controller_ids`` are the voters of the quorum, as far as they are known.
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
    """Makes the quorum finalize a level, or only asks whether it would (True); says why it doesn't."""

    @property
    def next_offset(self) -> int:
        """The offset that the next record will have."""
        return self.image.offset + 1

    def replay(self, records: Iterable[Message]) -> None:
        """Take up records that are being appended at `next_offset`, before they are committed."""
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
        """The value in force of a config that topics and brokers know by the same name, as text."""
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
        """``min.insync.replicas``, or the number of replicas where that is lower."""
        partitions = self.image.topics.by_name[topic].partitions
        return min(int(self.topic_config(topic, "min.insync.replicas")), len(partitions[0].replicas))

    def allows_unclean_election(self, topic: str) -> bool:
        """``unclean.leader.election.enable``: rather lose records than have no leader."""
        return self.topic_config(topic, "unclean.leader.election.enable").lower() == "true"

    @property
    def elr_enabled(self) -> bool:
        """KIP-966: whether replicas that left the ISR with all committed records are kept in mind."""
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    def default_directory(self, broker_id: int) -> bytes:
        """Where a new replica on this broker goes, as far as the controller can say (KIP-858)."""
        if self.image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
            return MIGRATING_DIRECTORY
        broker = self.image.brokers.get(broker_id)
        return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory


def repeated(items: Iterable[R]) -> Iterator[R]:
    """Each item that occurs more than once, once."""
    seen: dict[R, int] = {}
    for item in items:
        seen[item] = seen.get(item, 0) + 1
    return (item for item, count in seen.items() if count > 1)
