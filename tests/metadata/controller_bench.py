"""A controller without a node: decisions are replayed at once, as if committed."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.features import SUPPORTED_FEATURES
from penstock.metadata.controller.registration import (
    CLEAN_SHUTDOWN_SINCE,
    fence_one_stale_broker,
    process_heartbeat,
    register_broker,
)
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.controller.topics import create_topics
from penstock.metadata.image import MetadataDelta, MetadataImage, PartitionRegistration
from penstock.protocol.messages import (
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    FeatureLevelRecord,
    Message,
)

R = TypeVar("R")

CLUSTER_ID = "a-cluster"
SESSION_MS = 9000


def directory_of(broker_id: int, number: int = 0) -> bytes:
    """The id of a broker's log directory."""
    return bytes([1, broker_id, number]) + bytes(12) + b"\xff"


DIRECTORY = directory_of(1)


class ControllerBench:
    """A controller with registered, unfenced brokers: number 1, or those in `brokers`, with racks if given.

    `now_ms` is the clock; `records` are all records written since.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        brokers: Sequence[int] = (1,),
        racks: Mapping[int, str] | None = None,
        elr: bool = False,
        metadata_version: int = 30,
        rng: random.Random | None = None,
    ) -> None:
        ids = (number.to_bytes(16, "big") for number in itertools.count(100))
        self.config = BrokerConfig.single_node({"log.dirs": "/data", **(properties or {})})
        self.now_ms = 1_000_000
        self.racks = racks or {}
        self.state = ControllerState(
            MetadataImage(), self.config, lambda: next(ids), rng or random.Random(1), cluster_id=CLUSTER_ID
        )
        self.records: list[Message] = []
        self.write(FeatureLevelRecord(name="metadata.version", feature_level=metadata_version))
        if elr:
            self.write(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
        for broker_id in brokers:
            self.start(broker_id)
        self.records.clear()

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    def do(self, decide: Callable[..., Decision[R]], *arguments: object) -> R:
        """Make a decision, replay its records and return the response."""
        return self.commit(decide(self.state, *arguments))

    def commit(self, decision: Decision[R]) -> R:
        self.write(*decision.records)
        return decision.response

    def write(self, *records: Message) -> None:
        self.state.replay(records)
        self.records += records

    # Brokers

    def register(
        self, broker_id: int, incarnation: int | None = None, previous_epoch: int = -1, **fields: object
    ) -> int:
        """Register a broker, by default as a new incarnation, and return its epoch."""
        feature, listener = BrokerRegistrationRequest.Feature, BrokerRegistrationRequest.Listener
        number = self.state.next_offset if incarnation is None else incarnation
        asked: dict[str, object] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": number.to_bytes(16, "big"),
            "listeners": [listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)],
            "features": [
                feature(name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level)
                for f in SUPPORTED_FEATURES
            ],
            "rack": self.racks.get(broker_id),
            "log_dirs": [directory_of(broker_id)],
            "previous_broker_epoch": previous_epoch,
        }
        request = BrokerRegistrationRequest(**{**asked, **fields})  # type: ignore[arg-type]
        return self.do(register_broker, request, CLEAN_SHUTDOWN_SINCE, self.now_ms).broker_epoch

    def heartbeat(self, broker_id: int, **fields: object) -> BrokerHeartbeatResponse:
        """Send a heartbeat of a broker that has read all metadata; ``fields`` replace its values."""
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch,
            current_metadata_offset=self.image.offset,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.do(process_heartbeat, request, self.now_ms)

    def start(self, broker_id: int, previous_epoch: int = -1) -> None:
        """Register and unfence a broker."""
        self.register(broker_id, previous_epoch=previous_epoch)
        self.heartbeat(broker_id)

    def kill(self, *broker_ids: int) -> None:
        """Stop the heartbeats of brokers until their sessions time out; the others continue."""
        for _ in range(2):
            self.now_ms += SESSION_MS // 2 + 1
            for broker_id, broker in self.image.brokers.items():
                if broker_id not in broker_ids and not broker.fenced:
                    self.heartbeat(broker_id)
        while self.do(fence_one_stale_broker, self.now_ms):
            pass

    def stop(self, broker_id: int) -> int:
        """Run a controlled shutdown while all others follow metadata; return the number of heartbeats."""
        for count in range(1, 10):
            if self.heartbeat(broker_id, want_shut_down=True).should_shut_down:
                return count
            for other, broker in self.image.brokers.items():
                if other != broker_id and not broker.fenced:
                    self.heartbeat(other)
        raise AssertionError(f"broker {broker_id} may not stop")

    # Topics

    def create(
        self, name: str, partitions: int = 1, replication_factor: int = 1, **configs: str
    ) -> CreateTopicsResponse.CreatableTopicResult:
        """Create one topic and return its result; names of configs have underscores for dots."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=_request_configs(configs),
        )
        return self.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]

    def place(self, name: str, *replicas: Sequence[int], **configs: str) -> None:
        """Create a topic whose partitions have these replicas."""
        assignment = CreateTopicsRequest.CreatableReplicaAssignment
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                assignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in enumerate(replicas)
            ],
            configs=_request_configs(configs),
        )
        result = self.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]
        assert result.error_code == 0, result.error_message

    def partition(self, topic: str = "t", partition_id: int = 0) -> PartitionRegistration:
        return self.image.topics.by_name[topic].partitions[partition_id]

    def isr_request(self, isr: Sequence[int], topic: str = "t", **fields: int) -> AlterPartitionRequest:
        """The leader's request for this ISR, by default with the current epochs."""
        partition = self.partition(topic)
        member = AlterPartitionRequest.BrokerState
        data = AlterPartitionRequest.PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                member(broker_id=replica, broker_epoch=self.image.brokers[replica].epoch) for replica in isr
            ],
        )
        leader = fields.pop("leader", partition.leader)
        for name, value in fields.items():
            setattr(data, name, value)
        return AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.image.brokers[leader].epoch,
            topics=[
                AlterPartitionRequest.TopicData(
                    topic_id=self.image.topics.by_name[topic].topic_id, partitions=[data]
                )
            ],
        )


def _request_configs(configs: Mapping[str, str]) -> list[CreateTopicsRequest.CreatableTopicConfig]:
    return [
        CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]


def replayed(records: Sequence[Message]) -> MetadataImage:
    """The image that results from the records on another node."""
    image = MetadataImage()
    for record in records:
        image.replay(record, MetadataDelta())
    return image
