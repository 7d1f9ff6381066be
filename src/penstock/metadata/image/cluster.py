"""The registered brokers and controllers of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.metadata.image.topics import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
)
from penstock.protocol.messages import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)


class Endpoint(NamedTuple):
    """An address of a node; ``security_protocol`` is Kafka's number."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    """The levels of a feature that a node supports, both ends inclusive."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker's registration. A fenced broker leads no partition and is hidden from clients."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    cordoned_log_dirs: tuple[bytes, ...] | None

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        return cls(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=tuple(
                FeatureRange(f.name, f.min_supported_version, f.max_supported_version)
                for f in record.features
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def to_record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            broker_epoch=self.epoch,
            incarnation_id=self.incarnation_id,
            end_points=[
                RegisterBrokerRecord.BrokerEndpoint(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in self.endpoints
            ],
            features=[
                RegisterBrokerRecord.BrokerFeature(
                    name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level
                )
                for f in self.features
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.log_dirs),
            cordoned_log_dirs=None if self.cordoned_log_dirs is None else list(self.cordoned_log_dirs),
        )

    def merge(self, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """Apply a change: 1 sets fenced or controlled shutdown, -1 clears it, and 0 leaves it."""
        return replace(
            self,
            fenced=self.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=(
                self.in_controlled_shutdown
                if record.in_controlled_shutdown == 0
                else record.in_controlled_shutdown > 0
            ),
            log_dirs=tuple(record.log_dirs) or self.log_dirs,
            cordoned_log_dirs=(
                self.cordoned_log_dirs
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs)
            ),
        )

    @property
    def active(self) -> bool:
        """Whether the broker may lead and be in sync: it is unfenced and not shutting down."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def default_directory(self) -> bytes:
        """The directory of a new replica: the only one, or else the broker has to choose (KIP-858)."""
        if not self.log_dirs:
            return MIGRATING_DIRECTORY
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIRECTORY

    @property
    def has_uncordoned_directory(self) -> bool:
        """Whether the broker takes new replicas, because not all log directories are cordoned (KIP-1066)."""
        if not self.log_dirs or self.cordoned_log_dirs is None:
            return True
        return not set(self.log_dirs) <= set(self.cordoned_log_dirs)

    def has_online_directory(self, directory_id: bytes) -> bool:
        """Whether a replica in this directory is usable; brokers older than KIP-858 report no directories."""
        if directory_id in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        if directory_id == LOST_DIRECTORY:
            return False
        return not self.log_dirs or directory_id in self.log_dirs

    def endpoint(self, listener_name: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener_name), None)


class ClusterImage:
    """The brokers and controllers by node id; a controller is stored as its record."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}

    def copy(self) -> ClusterImage:
        twin = ClusterImage()
        twin.brokers, twin.controllers = dict(self.brokers), dict(self.controllers)
        return twin

    def unfenced_brokers(self) -> list[BrokerRegistration]:
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.fenced]

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker is registered, unfenced and not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def set_fenced(self, broker_id: int, fenced: bool) -> None:
        self.brokers[broker_id] = replace(self.brokers[broker_id], fenced=fenced)

    def records(self) -> Iterator[RegisterBrokerRecord | RegisterControllerRecord]:
        for _, controller in sorted(self.controllers.items()):
            yield controller
        for _, broker in sorted(self.brokers.items()):
            yield broker.to_record()
