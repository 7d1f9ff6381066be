"""A controller without a node: decisions are replayed at once, as if committed."""

import itertools
from collections.abc import Callable, Mapping
from typing import TypeVar

from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.brokers import register_broker, unfence_broker
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.controller.topics import create_topics
from penstock.metadata.image import Endpoint, MetadataDelta, MetadataImage
from penstock.protocol.messages import CreateTopicsRequest, CreateTopicsResponse, Message

R = TypeVar("R")

DIRECTORY = bytes(range(16))


class ControllerBench:
    """Broker 1 is registered and serves; `brokers` registers more, with ids of their own."""

    def __init__(self, properties: Mapping[str, str] | None = None, brokers: tuple[int, ...] = (1,)) -> None:
        ids = (number.to_bytes(16, "big") for number in itertools.count(100))
        self.config = BrokerConfig.single_node({"log.dirs": "/data", **(properties or {})})
        self.state = ControllerState(MetadataImage(), self.config, lambda: next(ids))
        self.records: list[Message] = []
        for broker_id in brokers:
            self.register(broker_id)
            self.do(unfence_broker, broker_id)
        self.records.clear()

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    def register(self, broker_id: int) -> None:
        decision = register_broker(
            self.state,
            broker_id=broker_id,
            epoch=broker_id * 10,
            incarnation_id=bytes(16),
            endpoints=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
            rack=None,
            log_dirs=[DIRECTORY],
        )
        self.commit(decision)

    def do(self, decide: Callable[..., Decision[R]], *arguments: object) -> R:
        """Make a decision and replay its records; the response."""
        return self.commit(decide(self.state, *arguments))

    def commit(self, decision: Decision[R]) -> R:
        for record in decision.records:
            self.image.replay(record, MetadataDelta())
        self.records += decision.records
        return decision.response

    def create(
        self, name: str, partitions: int = 1, replication_factor: int = 1, **configs: str
    ) -> CreateTopicsResponse.CreatableTopicResult:
        """Create one topic, configs with underscores for dots; its result."""
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        return self.do(create_topics, CreateTopicsRequest(topics=[topic])).topics[0]
