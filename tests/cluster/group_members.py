"""Members of a consumer group with three client libraries, in threads, with static membership (KIP-345).

confluent-kafka and kafka-python have the cooperative assignor (KIP-429); aiokafka has none, and is sticky.
"""

import asyncio
import threading
from typing import ClassVar

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AioListener
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from confluent_kafka import Consumer, KafkaError
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

HEARTBEAT_MS = 500
SESSION_MS = 20_000
COMMIT_MS = 500
DISCONNECTED = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class Member(threading.Thread):
    """A member that polls continuously and records its reads, its partitions and the number of changes."""

    is_cooperative: ClassVar[bool] = True

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str, instance: str) -> None:
        super().__init__(name=f"{group_id} {instance}", daemon=True)
        self.bootstrap_servers, self.group_id, self.topic = bootstrap_servers, group_id, topic
        self.instance = instance
        self.values: list[int] = []
        self.owned: set[int] = set()
        self.rebalances = 0
        self.failure: BaseException | None = None
        self._running = threading.Event()
        self._running.set()

    @property
    def is_running(self) -> bool:
        return self._running.is_set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error
            raise

    def work(self) -> None:
        """Poll until `finish`, then close, which commits. A static member stays in the group by that."""
        raise NotImplementedError

    def came(self, partitions: set[int]) -> None:
        self.rebalances += 1
        self.owned |= partitions

    def went(self, partitions: set[int]) -> None:
        self.rebalances += 1
        self.owned -= partitions

    def finish(self) -> None:
        self._running.clear()
        self.join(60)
        assert not self.is_alive(), f"{self.name} hangs"
        assert self.failure is None, f"{self.name}: {self.failure}"


class ConfluentMember(Member):
    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": self.group_id,
                "group.instance.id": self.instance,
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "session.timeout.ms": SESSION_MS,
                "auto.commit.interval.ms": COMMIT_MS,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self.came({at.partition for at in partitions}),
            on_revoke=lambda _, partitions: self.went({at.partition for at in partitions}),
        )
        while self.is_running:
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.values.append(int(message.value()))
            else:
                assert error.retriable() or error.code() in DISCONNECTED, error
        consumer.close()


class KafkaPythonMember(Member):
    def work(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers.split(","),
            group_id=self.group_id,
            group_instance_id=self.instance,
            partition_assignment_strategy=[CooperativeStickyAssignor],
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            auto_commit_interval_ms=COMMIT_MS,
        )
        member = self

        class Ownership(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked) -> None:
                member.went({at.partition for at in revoked})

            def on_partitions_assigned(self, assigned) -> None:
                member.came({at.partition for at in assigned})

        consumer.subscribe([self.topic], listener=Ownership())
        while self.is_running:
            # kafka-python 3.0.12 loses an assignment that arrives in the moment in which a poll times out,
            # so polls outlast a rebalance.
            for records in consumer.poll(timeout_ms=3_000).values():
                self.values += [int(record.value) for record in records]
        consumer.close()


class AioKafkaMember(Member):
    is_cooperative = False  # a restarted instance does not remember its partitions either

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            group_id=self.group_id,
            group_instance_id=self.instance,
            partition_assignment_strategy=[StickyPartitionAssignor],
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            auto_commit_interval_ms=COMMIT_MS,
        )
        member = self

        class Ownership(AioListener):
            async def on_partitions_revoked(self, revoked) -> None:
                member.went({at.partition for at in revoked})

            async def on_partitions_assigned(self, assigned) -> None:
                member.came({at.partition for at in assigned})

        consumer.subscribe([self.topic], listener=Ownership())
        await consumer.start()
        while self.is_running:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                self.values += [int(record.value) for record in records]
        await consumer.stop()
