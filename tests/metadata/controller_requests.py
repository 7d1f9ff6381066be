"""Random requests to a controller, mostly valid ones that brokers and administrators might send next."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from controller_bench import CLUSTER_ID, ControllerBench, directory_of

from penstock.metadata.controller.alter_partition import alter_partition
from penstock.metadata.controller.directories import assign_replicas_to_dirs
from penstock.metadata.controller.elections import elect_leaders
from penstock.metadata.controller.features import SUPPORTED_FEATURES
from penstock.metadata.controller.partitions import create_partitions
from penstock.metadata.controller.producer_ids import allocate_producer_ids
from penstock.metadata.controller.reassignment import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from penstock.metadata.controller.reassignment_state import begin_reassignment
from penstock.metadata.controller.registration import process_heartbeat, register_broker, unregister_broker
from penstock.metadata.controller.state import Decision
from penstock.metadata.controller.topics import create_topics, delete_topics
from penstock.metadata.image import PartitionRegistration, TopicImage
from penstock.protocol import messages as m
from penstock.protocol.codec import Message

BROKERS = range(1, 7)
DIRECTORIES = 2
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: None}
TOPICS_MAX = 6

Made = tuple[Message, int, Callable[..., Decision[Any]]]


class RequestMaker:
    """A generator of requests that fit the bench's image."""

    def __init__(self, bench: ControllerBench, rng: random.Random, *, as_kafka: bool = False) -> None:
        """``as_kafka``: make no requests whose answers differ from Kafka on purpose."""
        self._as_kafka = as_kafka
        self._bench = bench
        self._rng = rng
        self._incarnations: dict[int, int] = {}
        self._names = 0
        self._makers = (
            (self.registration, 4),
            (self.heartbeat, 30),
            (self.creation, 4),
            (self.deletion, 1),
            (self.more_partitions, 1),
            (self.isr_change, 25),
            (self.election, 4),
            (self.reassignment, 8),
            (self.listing, 1),
            (self.directories, 3),
            (self.unregistration, 0.4),
            (self.producer_ids, 1),
        )

    def make(self) -> Made:
        makers, weights = zip(*self._makers, strict=True)
        while True:
            made = self._rng.choices(makers, weights)[0]()
            if made is not None:
                return made

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    @property
    def _image(self) -> Any:
        return self._bench.image

    def _epoch_of(self, broker_id: int) -> int:
        broker = self._image.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch - self._chance(0.02)

    # Brokers

    def registration(self) -> Made:
        broker_id = self._rng.choice(BROKERS)
        existing = self._image.brokers.get(broker_id)
        incarnation = self._incarnations.get(broker_id, 0) + (existing is None or self._chance(0.85))
        self._incarnations[broker_id] = incarnation
        feature, listener = m.BrokerRegistrationRequest.Feature, m.BrokerRegistrationRequest.Listener
        directories = [directory_of(broker_id, number) for number in range(1 + broker_id % DIRECTORIES)]
        request = m.BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID if self._chance(0.98) else "other",
            incarnation_id=bytes([broker_id]) + incarnation.to_bytes(15, "big"),
            listeners=[listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
            features=[
                feature(name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level)
                for f in SUPPORTED_FEATURES
            ],
            rack=RACKS[broker_id],
            log_dirs=directories if self._chance(0.98) else [directory_of(1)],
            previous_broker_epoch=self._epoch_of(broker_id) if self._chance(0.5) else -1,
        )
        version = self._rng.choice((2, 3, 4, 4, 4))
        return (
            request,
            version,
            partial(register_broker, request=request, api_version=version, now_ms=self._bench.now_ms),
        )

    def heartbeat(self) -> Made:
        broker_id = self._rng.choice([*self._image.brokers] or [1])
        broker = self._image.brokers.get(broker_id)
        behind = self._chance(0.1)
        stopping = broker is not None and broker.in_controlled_shutdown
        failed = broker is not None and len(broker.log_dirs) > 1 and self._chance(0.02)
        request = m.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self._epoch_of(broker_id),
            current_metadata_offset=-1 if behind else self._image.offset,
            want_fence=self._chance(0.02),
            want_shut_down=self._chance(0.8 if stopping else 0.02),
            offline_log_dirs=[self._rng.choice(broker.log_dirs)] if failed and broker is not None else [],
            cordoned_log_dirs=None,
        )
        if self._chance(0.03) and broker is not None:
            request.cordoned_log_dirs = list(broker.log_dirs)[: self._rng.randrange(3)]
        return request, 2, partial(process_heartbeat, request=request, now_ms=self._bench.now_ms)

    def unregistration(self) -> Made:
        request = m.UnregisterBrokerRequest(broker_id=self._rng.choice(BROKERS))
        return request, 0, partial(unregister_broker, request=request)

    def producer_ids(self) -> Made:
        broker_id = self._rng.choice(BROKERS)
        request = m.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=self._epoch_of(broker_id))
        return request, 0, partial(allocate_producer_ids, request=request)

    # Topics

    def creation(self) -> Made | None:
        if len(self._image.topics) >= TOPICS_MAX:
            return None
        create = m.CreateTopicsRequest
        self._names += 1
        configs = []
        if self._chance(0.4):
            configs.append(
                create.CreatableTopicConfig(name="min.insync.replicas", value=str(self._rng.randint(1, 3)))
            )
        if self._chance(0.3):
            configs.append(create.CreatableTopicConfig(name="unclean.leader.election.enable", value="true"))
        topic = create.CreatableTopic(
            name=f"t{self._names}", num_partitions=-1, replication_factor=-1, configs=configs
        )
        if self._chance(0.5):
            topic.num_partitions = self._rng.randint(1, 7)
            topic.replication_factor = self._rng.choice((1, 2, 3, 3, 3, 4, 6, 0))
        else:
            assignment = create.CreatableReplicaAssignment
            size = self._rng.randint(1, 4)
            topic.assignments = [
                assignment(partition_index=index, broker_ids=self._some_brokers(size))
                for index in range(self._rng.randint(1, 3))
            ]
        request = create(topics=[topic])
        return request, 7, partial(create_topics, request=request)

    def _some_brokers(self, size: int) -> list[int]:
        known = [*self._image.brokers] or [1]
        chosen = self._rng.sample(known, min(size, len(known)))
        if self._chance(0.03):
            chosen.append(self._rng.choice((*BROKERS, 99)))
        return chosen

    def deletion(self) -> Made | None:
        topic = self._some_topic()
        if topic is None or not self._chance(0.3):
            return None
        if self._as_kafka and any(not partition.isr for partition in topic.partitions.values()):
            return None  # Kafka leaves such a partition in its table of directories and fails on it later
        # The oracle gets only the id, as from Kafka's own request handler.
        state = m.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic.topic_id)
        request = m.DeleteTopicsRequest(topics=[state])
        return request, 6, partial(delete_topics, request=request)

    def more_partitions(self) -> Made | None:
        topic = self._some_topic()
        if topic is None or len(topic.partitions) > 8:
            return None
        if self._as_kafka and len({len(p.replicas) for p in topic.partitions.values()}) > 1:
            return None  # a hash table decides which of them defines the topic's replication factor
        if self._as_kafka and any(broker.in_controlled_shutdown for broker in self._image.brokers.values()):
            return None  # if a partition can't be placed, Kafka creates those before it and returns an error
        create = m.CreatePartitionsRequest
        asked = create.CreatePartitionsTopic(
            name=topic.name, count=len(topic.partitions) + self._rng.randint(-1, 3), assignments=None
        )
        more = asked.count - len(topic.partitions)
        if more > 0 and self._chance(0.3):
            size = len(topic.partitions[0].replicas)
            asked.assignments = [
                create.CreatePartitionsAssignment(broker_ids=self._some_brokers(size)) for _ in range(more)
            ]
        request = create(topics=[asked])
        return request, 3, partial(create_partitions, request=request)

    def _some_topic(self) -> TopicImage | None:
        topics: list[TopicImage] = [*self._image.topics]
        return self._rng.choice(topics) if topics else None

    def _some_partition(self) -> tuple[TopicImage, int, PartitionRegistration] | None:
        topic = self._some_topic()
        if topic is None:
            return None
        partition_id = self._rng.choice([*topic.partitions])
        return topic, partition_id, topic.partitions[partition_id]

    # Leaders

    def isr_change(self) -> Made | None:
        chosen = self._some_partition()
        if chosen is None:
            return None
        topic, partition_id, partition = chosen
        isr = self._wanted_isr(partition)
        leader = (
            partition.leader if self._chance(0.97) and partition.leader >= 0 else self._rng.choice(BROKERS)
        )
        state = m.AlterPartitionRequest.BrokerState
        version = self._rng.choice((2, 3, 3, 3))
        data = m.AlterPartitionRequest.PartitionData(
            partition_index=partition_id if self._chance(0.99) else 50,
            leader_epoch=partition.leader_epoch + self._rng.choice((0,) * 40 + (1, -1)),
            partition_epoch=partition.partition_epoch + self._rng.choice((0,) * 40 + (1, -1)),
            leader_recovery_state=self._rng.choice((0, 0, partition.leader_recovery_state, 0, 1)),
        )
        if version >= 3:
            data.new_isr_with_epochs = [
                state(broker_id=replica, broker_epoch=self._epoch_of(replica)) for replica in isr
            ]
        else:
            data.new_isr = isr
        request = m.AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self._epoch_of(leader),
            topics=[
                m.AlterPartitionRequest.TopicData(
                    topic_id=topic.topic_id if self._chance(0.99) else bytes(15) + b"\x09", partitions=[data]
                )
            ],
        )
        return request, version, partial(alter_partition, request=request, api_version=version)

    def _wanted_isr(self, partition: PartitionRegistration) -> list[int]:
        """The wanted ISR: more often replicas that are or may come in sync than invalid ones."""
        active = [replica for replica in partition.replicas if self._image.cluster.is_active(replica)]
        if self._chance(0.03):
            active = [*partition.replicas]
        if self._chance(0.5):
            return self._shuffled(active)
        some = [replica for replica in active if replica == partition.leader or self._chance(0.6)]
        if self._chance(0.02):
            some.append(self._rng.choice(BROKERS))
        return self._shuffled(some)

    def _shuffled(self, items: Sequence[int]) -> list[int]:
        return self._rng.sample(items, len(items))

    def election(self) -> Made | None:
        elect = m.ElectLeadersRequest
        topics = None
        if self._chance(0.8):
            chosen = self._some_partition()
            if chosen is None:
                return None
            name = chosen[0].name if self._chance(0.95) else "no-such-topic"
            topics = [elect.TopicPartitions(topic=name, partitions=[chosen[1], 40])]
        request = elect(election_type=self._rng.choice((0, 0, 1)), topic_partitions=topics)
        return request, 2, partial(elect_leaders, request=request)

    # Moves

    def reassignment(self) -> Made | None:
        chosen = self._some_partition()
        if chosen is None:
            return None
        topic, partition_id, partition = chosen
        if self._as_kafka and partition.last_known_elr:
            return None  # Kafka fails once the last leader is no longer a replica
        move = m.AlterPartitionReassignmentsRequest
        factor = len(set(partition.replicas) - set(partition.removing_replicas))
        replicas: list[int] | None = self._some_brokers(factor)
        if self._chance(0.2):
            replicas = self._some_brokers(self._rng.randint(1, 4))
        if self._chance(0.3 if partition.is_reassigning else 0.05):
            replicas = None
        if self._as_kafka and replicas is not None and self._replaces_by_less(partition, replicas):
            replicas = None
        asked = move.ReassignablePartition(
            partition_index=partition_id if self._chance(0.98) else 60, replicas=replicas
        )
        request = move(
            topics=[move.ReassignableTopic(name=topic.name, partitions=[asked])],
            allow_replication_factor_change=self._chance(0.7),
        )
        return request, 1, partial(alter_partition_reassignments, request=request)

    def _replaces_by_less(self, partition: PartitionRegistration, replicas: list[int]) -> bool:
        """Whether a reassignment replaces another and adds or removes no replicas where that one did."""
        began = begin_reassignment(partition.replicas, replicas)
        return bool(
            (partition.adding_replicas and not began.adding)
            or (partition.removing_replicas and not began.removing)
        )

    def listing(self) -> Made:
        request = m.ListPartitionReassignmentsRequest(topics=None)
        return request, 0, partial(list_partition_reassignments, request=request)

    def directories(self) -> Made | None:
        chosen = self._some_partition()
        if chosen is None:
            return None
        topic, partition_id, partition = chosen
        assign = m.AssignReplicasToDirsRequest
        broker_id = self._rng.choice((*partition.replicas, *partition.replicas, *BROKERS))
        number = self._rng.choice((0, 0, 1, 1, 1, 7))
        partitions = [assign.PartitionData(partition_index=partition_id)]
        if self._chance(0.1):
            partitions.append(assign.PartitionData(partition_index=30))
        request = assign(
            broker_id=broker_id,
            broker_epoch=self._epoch_of(broker_id),
            directories=[
                assign.DirectoryData(
                    id=directory_of(broker_id, number),
                    topics=[assign.TopicData(topic_id=topic.topic_id, partitions=partitions)],
                )
            ],
        )
        return request, 0, partial(assign_replicas_to_dirs, request=request)
