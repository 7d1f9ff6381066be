"""Run one seed: a cluster, its clients, a phase of faults, and a quiet phase in which all is checked."""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

from penstock.protocol.errors import KafkaError
from penstock.testing.crash_files import Died
from penstock.testing.simulator.access import GUESTS
from penstock.testing.simulator.clients.access_admin import AccessAdmin
from penstock.testing.simulator.clients.admin import Admin
from penstock.testing.simulator.clients.client import Client
from penstock.testing.simulator.clients.consumer import READ_COMMITTED, READ_UNCOMMITTED, Consumer
from penstock.testing.simulator.clients.guest import Guest
from penstock.testing.simulator.clients.member import Member
from penstock.testing.simulator.clients.producer import Producer
from penstock.testing.simulator.clients.topic_admin import TopicAdmin
from penstock.testing.simulator.clients.transactor import Transactor
from penstock.testing.simulator.clients.trimmer import Trimmer
from penstock.testing.simulator.cluster import SimulatedCluster
from penstock.testing.simulator.faults import Faults
from penstock.testing.simulator.history import Partition, Violation
from penstock.testing.simulator.loop import VirtualLoop
from penstock.testing.simulator.observer import Observer
from penstock.testing.simulator.scenario import Scenario

log = logging.getLogger(__name__)

START_S: Final = 30.0
RECOVERY_S: Final = 90.0
"""How long a cluster without faults may take to recover."""
FORESEEN: Final = (OSError, Died, KafkaError)
LOOK_EVERY_S: Final = 0.05
REPLICAS: Final = 3
TOPIC: Final = "records"
OTHER_TOPIC: Final = "more-records"


@dataclass
class Report:
    """The results of a seed."""

    seed: int
    scenario: Scenario
    trace: int = 0
    """A checksum of what happened, when and where; two runs of one seed have the same."""
    virtual_s: float = 0.0
    callbacks: int = 0
    batches: int = 0
    reads: int = 0
    transactions: int = 0
    generations: int = 0
    deleted_topics: int = 0
    added_partitions: int = 0
    deleted_records: int = 0
    """Requests to delete records."""
    access_changes: int = 0
    decisions: int = 0
    """Decisions about guests that could be checked."""
    lost_directories: int = 0
    """Lost directories that their nodes survived."""
    faults: dict[str, int] = field(default_factory=dict)
    failure: BaseException | None = None

    def __str__(self) -> str:
        outcome = "ok" if self.failure is None else f"FAILED {type(self.failure).__name__}: {self.failure}"
        return (
            f"seed {self.seed}: nodes={len(self.scenario.layout.nodes)} virtual_s={self.virtual_s:.1f} "
            f"callbacks={self.callbacks} batches={self.batches} reads={self.reads} "
            f"transactions={self.transactions} generations={self.generations} "
            f"topics={self.deleted_topics}/{self.added_partitions} trims={self.deleted_records} "
            f"access={self.access_changes}/{self.decisions} directories={self.lost_directories} "
            f"faults={sum(self.faults.values())} "
            f"trace={self.trace:08x} {outcome}"
        )

    def portable(self) -> Report:
        """The report for another process, without an exception that may refer to unpicklable objects."""
        if self.failure is None or type(self.failure) is Violation:
            return self
        return replace(self, failure=AssertionError(f"{type(self.failure).__name__}: {self.failure}"))


def simulate(seed: int, directory: Path | None = None, longer: float = 1.0) -> Report:
    """Run a seed, with a phase of faults ``longer`` times as long. An error is the report's `failure`."""
    rng = Random(seed)
    scenario = Scenario.of(rng)
    scenario = replace(scenario, duration_s=scenario.duration_s * longer)
    report = Report(seed, scenario)
    scratch = Path(tempfile.mkdtemp(prefix="penstock-simulator-", dir=directory))
    loop = VirtualLoop(Random(rng.getrandbits(64)))
    was_collecting = gc.isenabled()
    # The collector would run finalizers of dead machines at unpredictable times.
    gc.disable()
    run = None
    try:
        with loop.stopped_stopwatches():
            run = _Run(loop, scratch, scenario, rng, report)
            complaints = _Complaints(run.cluster.failures)
            logging.getLogger("penstock").addHandler(complaints)
            try:
                loop.run_until_complete(run.run())
            finally:
                logging.getLogger("penstock").removeHandler(complaints)
    except Exception as error:
        report.failure = error
    finally:
        if run is not None:
            run.count()
        report.trace, report.virtual_s, report.callbacks = loop.trace, loop.now_s, loop.callbacks
        loop.abandon()
        loop.close()
        shutil.rmtree(scratch)
        if was_collecting:
            gc.enable()
    return report


class _Complaints(logging.Handler):
    """Records each exception that nodes log as a failure, except those that disk faults may cause."""

    def __init__(self, failures: list[BaseException]) -> None:
        super().__init__(logging.ERROR)
        self._failures = failures

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, FORESEEN) or record.name.startswith(__package__):
            return
        self._failures.append(error)


class _Run:
    def __init__(
        self, loop: VirtualLoop, scratch: Path, scenario: Scenario, rng: Random, report: Report
    ) -> None:
        self.loop = loop
        self.scenario = scenario
        self.rng = rng
        self.report = report
        self.cluster = SimulatedCluster(loop, scratch, scenario, Random(rng.getrandbits(64)))
        self.observer = Observer(self.cluster)
        self.topics = self.cluster.topics
        self.faults = Faults(
            self.cluster,
            Random(rng.getrandbits(64)),
            scenario.fault_pause_s,
            lambda: not scenario.layout.is_one_node and self.observer.is_whole(),
        )
        self.writers: list[Producer] = []
        self.clients: list[Client] = []
        self.guests: list[Guest] = []

    async def run(self) -> None:
        cluster, scenario = self.cluster, self.scenario
        first = list(cluster.nodes.values())
        if scenario.grows and len(scenario.layout.brokers) > REPLICAS:
            newcomer = first.pop(scenario.layout.nodes.index(scenario.layout.brokers[-1]))
            self.loop.at(self.rng.uniform(1, scenario.duration_s), lambda: self.faults.start(newcomer))
        for node in first:
            node.start()
        await cluster.until("every node is up", lambda: len(cluster.up) == len(first), START_S)
        looking = self.loop.create_task(self._look())
        partitions = self.topics.partitions
        admin = Admin(cluster.settings, "admin", self._new_rng(), partitions, 0.7, scenario.layout)
        replicas = min(REPLICAS, len(scenario.layout.brokers))
        configs = {
            "min.insync.replicas": str(max(1, replicas - 1)),
            "internal.segment.bytes": str(scenario.segment_bytes),
        }
        for topic in (TOPIC, OTHER_TOPIC):
            topic_id = await admin.create_topic(topic, scenario.partitions, replicas, configs)
            self.topics.has(topic, topic_id, scenario.partitions)
        self._make_clients(admin)
        self._make_administrators(admin, replicas, configs)
        for client in self.clients:
            client.start()
        striking = self.loop.create_task(self.faults.run())
        end_s = self.loop.now_s + scenario.duration_s
        while self.loop.now_s < end_s:
            await asyncio.sleep(0.2)
            self._check(looking)
        self.faults.mend()
        striking.cancel()
        await self._come_to_rest(looking)
        looking.cancel()

    def _make_clients(self, admin: Admin) -> None:
        scenario, settings = self.scenario, self.cluster.settings

        partitions, pause_s, rng = self.topics.partitions, scenario.pause_s, self._new_rng
        for number in range(scenario.producers):
            self.writers.append(Producer(settings, f"producer{number}", rng(), partitions, pause_s))
        for number in range(scenario.transactors):
            name, key = f"transactor{number}", f"id{0 if scenario.shares_id else number}"
            self.writers.append(Transactor(settings, name, rng(), partitions, pause_s, key))
        self.clients += self.writers
        for partition in partitions:
            self.clients.append(self._consumer_of(partition))
        self.topics.on_added = self._read_too
        for number in range(scenario.members):
            self.clients.append(Member(settings, f"member{number}", rng(), "group", partitions))

    def _make_administrators(self, admin: Admin, replicas: int, configs: dict[str, str]) -> None:
        scenario, settings, rng = self.scenario, self.cluster.settings, self._new_rng
        if not scenario.layout.is_one_node:
            self.clients.append(admin)
        if scenario.topics_change:
            self.clients.append(
                TopicAdmin(settings, "topic-admin", rng(), scenario.layout, replicas, configs, [OTHER_TOPIC])
            )
        if scenario.deletes_records:
            lasting = [found for found in self.topics.partitions if found.topic == TOPIC]
            self.clients.append(Trimmer(settings, "trimmer", rng(), lasting, self.observer.state_of))
        if scenario.has_guests:
            self._invite_guests()

    def _invite_guests(self) -> None:
        settings, rng, cluster = self.cluster.settings, self._new_rng, self.cluster
        lasting = [Partition(topic, 0, self._id_of(topic)) for topic in (TOPIC, OTHER_TOPIC)]
        self.guests = [
            Guest(settings, f"{user}.{number}", rng(), user, cluster.access, cluster.nodes, lasting)
            for user in GUESTS
            for number in range(2)
        ]
        hosts = [guest.machine.host for guest in self.guests]
        topics = [partition.topic for partition in lasting]
        admin = AccessAdmin(settings, "access-admin", rng(), cluster.access, topics, hosts)
        self.clients += [admin, *self.guests]

    def _id_of(self, topic: str) -> bytes:
        return next(found.topic_id for found in self.topics.partitions if found.topic == topic)

    def _new_rng(self) -> Random:
        return Random(self.rng.getrandbits(64))

    def _consumer_of(self, partition: Partition) -> Consumer:
        isolation = self.rng.choice((READ_UNCOMMITTED, READ_COMMITTED))
        name = f"consumer-{partition}-{partition.topic_id.hex()[:4]}"
        return Consumer(self.cluster.settings, name, self._new_rng(), partition, isolation)

    def _read_too(self, partition: Partition) -> None:
        """Start a consumer for a new partition."""
        consumer = self._consumer_of(partition)
        consumer.stopping = self.faults.stopping
        self.clients.append(consumer)
        consumer.start()

    async def _look(self) -> None:
        while True:
            self.observer.look()
            await asyncio.sleep(LOOK_EVERY_S)

    def _check(self, looking: asyncio.Task[None]) -> None:
        """Raise the first error so far."""
        if looking.done():
            looking.result()
        self.cluster.check()
        for client in self.clients:
            if client.task is not None and client.task.done():
                client.task.result()
        for node in self.cluster.nodes.values():
            if node.failure is not None and not node.may_fail:
                raise Violation(f"node {node.node_id} ended: {node.failure}")

    async def _come_to_rest(self, looking: asyncio.Task[None]) -> None:
        """After the faults: all requests must succeed in time, and every replica must have every record."""
        for client in self.clients:
            client.stopping = True

        await self._let_clients_finish(looking)
        for node in self.cluster.nodes.values():
            self.faults.directories.repair(node)
        await self._settle(looking)
        await self._read_all()
        await self._find_offsets()
        await self._settle(looking)
        await self._check_access(looking)
        self.observer.check_agreement()
        await self.cluster.until(
            lambda: "; ".join(self.observer.wrong_directories()),
            lambda: not self.observer.wrong_directories(),
            RECOVERY_S,
        )

    async def _let_clients_finish(self, looking: asyncio.Task[None]) -> None:
        def waiting() -> str:
            return (
                f"every client is done; still running: {', '.join(client.name for client in self._at_work())}"
            )

        def are_done() -> bool:
            self._check(looking)
            return not self._at_work()

        await self.cluster.until(waiting, are_done, RECOVERY_S)

    def _at_work(self) -> list[Client]:
        return [client for client in self.clients if client.task is None or not client.task.done()]

    async def _settle(self, looking: asyncio.Task[None]) -> None:
        def is_settled() -> bool:
            self._check(looking)
            return self.observer.is_settled()

        await self.cluster.until(
            lambda: f"every replica is in sync: {self.observer.describe()}", is_settled, RECOVERY_S
        )

    async def _read_all(self) -> None:
        """Read all partitions with both isolation levels and compare with all that clients have seen.

        The committed records come first: their end waits for open transactions and their markers.
        """
        committed: dict[Partition, set[bytes]] = {}
        for reader in await self._readers(READ_COMMITTED):
            committed[reader.partition] = set(reader.records.values())
        for reader in await self._readers(READ_UNCOMMITTED):
            self.cluster.history.check_whole(reader.partition, reader.records)
        self.cluster.history.check_transactions(committed)

    async def _readers(self, isolation: int) -> list[Consumer]:
        """A consumer for each partition, at its end."""
        readers = [
            Consumer(
                self.cluster.settings, f"last-{partition}-{isolation}", self._new_rng(), partition, isolation
            )
            for partition in self.topics.partitions
        ]
        readings = [self.loop.create_task(reader.read_to_end()) for reader in readers]
        await self.cluster.until(
            "all partitions are read to their end",
            lambda: all(reading.done() for reading in readings),
            RECOVERY_S,
        )
        for reading in readings:
            reading.result()
        return readers

    async def _find_offsets(self) -> None:
        """Check the offsets that transactions have committed for their groups."""
        for writer in self.writers:
            if isinstance(writer, Transactor) and not self.scenario.shares_id:
                asking = self.loop.create_task(writer.last_offset())
                await self.cluster.until(f"{writer.group_id} has a stable offset", asking.done, RECOVERY_S)
                self.cluster.history.check_offset(writer.own, asking.result())

    async def _check_access(self, looking: asyncio.Task[None]) -> None:
        """Check that every node has the ACLs and passwords of guests, and decides by them."""
        for node in self.cluster.up:
            assert node.broker is not None
            self.cluster.access.check(node.broker.image, node.node_id)
        for guest in self.guests:
            guest.start_last_visits()
        await self._let_clients_finish(looking)

    def count(self) -> None:
        """Write the counts into the report."""
        report = self.report
        report.batches = sum(writer.batches for writer in self.writers)
        report.reads = self.cluster.history.reads
        report.transactions = len(self.cluster.history.transactions)
        report.generations = sum(c.generations for c in self.clients if isinstance(c, Member))
        report.deleted_topics, report.added_partitions = self.topics.deletions, self.topics.growths
        report.deleted_records = sum(c.deletions for c in self.clients if isinstance(c, Trimmer))
        report.faults = dict(self.faults.counts)
        report.access_changes = self.cluster.access.changes
        report.decisions = sum(guest.decisions for guest in self.guests)
        report.lost_directories = self.faults.directories.survived
