"""The time in which a consumer group becomes stable: members that start at once, and one that dies."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer

from penstock.bench.process import process_cost
from side_by_side.session import Measurement, RunFailed, Session

PARTITIONS = 100
TIMEOUT_S = 120.0
QUIET_S = 2.5
"""A group counts as stable once nothing has changed for this long, as a heartbeat notices a new round."""
SETTINGS = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000, "log_level": 0}


@dataclass(frozen=True)
class StableGroup:
    """librdkafka consumers that start at once; the time until the last of them has its last assignment."""

    members: int

    def run(self, session: Session) -> Measurement:
        topic = session.create_topic(PARTITIONS)
        before = process_cost(session.broker.pid)
        started_s = time.monotonic()
        with Members(session.broker.bootstrap, topic, self.members) as group:
            group.wait(lambda: group.is_whole() and time.monotonic() - group.changed_s > QUIET_S)
        after = process_cost(session.broker.pid)
        session.delete_topic(topic)
        return Measurement(group.changed_s - started_s, broker_cpu_s=after.cpu_seconds - before.cpu_seconds)


@dataclass(frozen=True)
class LostMember:
    """One of four members is killed; the time until the others have all partitions."""

    def run(self, session: Session) -> Measurement:
        topic = session.create_topic(PARTITIONS)
        with Members(session.broker.bootstrap, topic, 3) as group:
            words = [sys.executable, "-m", __name__, session.broker.bootstrap, topic]
            lost = subprocess.Popen(words)
            try:
                group.wait(lambda: group.counts() == [PARTITIONS // 4] * 3)
            finally:
                lost.kill()
                lost.wait()
            killed_s = time.monotonic()
            group.wait(group.is_whole)
        session.delete_topic(topic)
        return Measurement(group.changed_s - killed_s)


@dataclass
class Members:
    """Consumers of one group, each in a thread of its own; all of them leave at the end of the block."""

    bootstrap: str
    topic: str
    count: int
    changed_s: float = 0.0
    """When an assignment changed last (monotonic)."""
    _owned: dict[int, int] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Members":
        self._threads = [threading.Thread(target=self._consume, args=(n,)) for n in range(self.count)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def counts(self) -> list[int]:
        """The number of partitions of each member that has been assigned some or none."""
        return list(self._owned.values())

    def is_whole(self) -> bool:
        return len(self._owned) == self.count and sum(self._owned.values()) == PARTITIONS

    def wait(self, condition: Callable[[], bool]) -> None:
        """Raise RunFailed if the condition does not hold in time."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise RunFailed(f"the group of {self.count} members did not become stable: {self._owned}")
            time.sleep(0.005)

    def _consume(self, number: int) -> None:
        def changed(count: int) -> None:
            self._owned[number] = count
            self.changed_s = time.monotonic()

        consume(self.bootstrap, self.topic, self._ended.is_set, changed)


def consume(bootstrap: str, topic: str, is_ended: Callable[[], bool], changed: Callable[[int], None]) -> None:
    """Be a member of the topic's group; ``changed`` receives the number of partitions that it has now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-{topic}", **SETTINGS})
    consumer.subscribe(
        [topic],
        on_assign=lambda _consumer, partitions: changed(len(partitions)),
        on_revoke=lambda _consumer, _partitions: changed(0),
    )
    while not is_ended():
        consumer.poll(0.05)
    consumer.close()


if __name__ == "__main__":
    consume(sys.argv[1], sys.argv[2], lambda: False, lambda count: None)
