"""The reason why records are not acknowledged, which librdkafka does not pass on.

While a partition has no leader or too few replicas are in sync, librdkafka retries until the delivery timeout
without a message, and then reports only the timeout. So this module asks the brokers for the state of the
topic. It asks through librdkafka, which understands all settings of `--command-config`, and by a client of
its own that begins at the addresses of `--bootstrap`: the producer knows no others than the advertised ones
after a while, and these may be those that cannot be reached.
"""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, PartitionMetadata

from penstock.cli.connection import (
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    REQUEST_TIMEOUT_S,
    Settings,
    connect_failure,
    meaning,
)
from penstock.cli.output import print_note
from penstock.cli.similar_names import topics_like

SILENCE_S: Final = 3.0
"""The brokers are asked when no record was acknowledged or failed for this long, which is rare otherwise."""

_NO_LEADER: Final = -1
_MIN_ISR: Final = "min.insync.replicas"


class Obstacle(NamedTuple):
    """A reason why records are not acknowledged, and the exit code of a command that ends with it."""

    reason: str
    exit_code: int = EXIT_REFUSED


class Unacknowledged:
    """The records of one topic that wait for their acknowledgement, and the reason why they wait.

    Args:
        producer: the producer of the records.
        settings: of the client that asks the brokers for the state of the topic.
        topic: the name of the topic.
        needs_isr: whether records wait for all replicas in sync (acks=all).
    """

    def __init__(self, producer: Producer, settings: Settings, topic: str, *, needs_isr: bool) -> None:
        self._producer = producer
        self._settings = settings
        self._topic = topic
        self._needs_isr = needs_isr
        self._finished = 0
        self._ask_at_s = time.monotonic() + SILENCE_S
        self._reported: Obstacle | None = None
        self._printed: set[str] = set()

    def report(self, finished: int, partition: int | None) -> None:
        """Print the reason, each one once, if no record has finished for a while. Call it after each poll.

        *finished* counts the records that were acknowledged or failed; *partition* is None if the records go
        to any partition.
        """
        now_s = time.monotonic()
        if finished != self._finished or not len(self._producer):
            self._finished = finished
            self._ask_at_s = now_s + SILENCE_S
        elif now_s >= self._ask_at_s:
            note = f"no acknowledgement yet, retrying{self._shown_reason(partition)}"
            if note not in self._printed:
                self._printed.add(note)
                print_note(note)
            self._ask_at_s = time.monotonic() + SILENCE_S

    def obstacle(self, partition: int | None) -> Obstacle | None:
        """The reason why a record has failed: the present one, or else the last that was reported.

        Raises KafkaException if no broker answers.
        """
        return self._present_obstacle(partition) or self._reported

    def _shown_reason(self, partition: int | None) -> str:
        try:
            found = self._present_obstacle(partition)
        except KafkaException as error:
            return f": no broker answers ({meaning(error.args[0])})"
        if found is None:
            return ""
        self._reported = found
        return f": {found.reason}"

    def _present_obstacle(self, partition: int | None) -> Obstacle | None:
        client = AdminClient(self._settings)  # type: ignore[arg-type]  # it takes callbacks, too
        cluster = client.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S)
        topic = cluster.topics[self._topic]
        if topic.error is not None:
            return Obstacle(meaning(topic.error) + topics_like(client, self._topic))
        addresses = {broker.id: (str(broker.host), broker.port) for broker in cluster.brokers.values()}
        chosen = [p for number, p in sorted(topic.partitions.items()) if partition in (None, number)]
        found = list(self._obstacles(client, chosen, addresses))
        if len(found) > 1:
            return found[0]._replace(reason=f"{found[0].reason} (and {len(found) - 1} more partitions)")
        return found[0] if found else None

    def _obstacles(
        self, client: AdminClient, partitions: list[PartitionMetadata], addresses: dict[int, tuple[str, int]]
    ) -> Iterator[Obstacle]:
        """One reason for each of the partitions that cannot acknowledge records."""
        leaders = {partition.leader for partition in partitions} & addresses.keys()
        failures = {leader: connect_failure(*addresses[leader]) for leader in leaders}
        minimum = 0
        if self._needs_isr and any(len(p.isrs) < len(p.replicas) for p in partitions):
            minimum = self._min_isr(client)
        for partition in partitions:
            name = f"{self._topic}-{partition.id}"
            replicas = ",".join(map(str, partition.replicas))
            if partition.leader == _NO_LEADER:
                yield Obstacle(f"LEADER_NOT_AVAILABLE: {name} has no leader; its replicas: {replicas}")
            elif failure := failures.get(partition.leader):
                host, port = addresses[partition.leader]
                yield Obstacle(
                    f"the leader of {name}, broker {partition.leader}, cannot be reached at {host}:{port}: "
                    f"{failure}",
                    EXIT_UNREACHABLE,
                )
            # A broker requires no more replicas than a partition has.
            elif len(partition.isrs) < min(minimum, len(partition.replicas)):
                yield Obstacle(
                    f"NOT_ENOUGH_REPLICAS: {name} has {_MIN_ISR}={minimum}, in sync: {len(partition.isrs)} "
                    f"of its replicas {replicas}"
                )

    def _min_isr(self, client: AdminClient) -> int:
        """The topic's min.insync.replicas; 0 if the user may not read it."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        future = client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
        try:
            return int(future.result(REQUEST_TIMEOUT_S)[_MIN_ISR].value)
        except (KafkaException, TimeoutError):
            return 0
