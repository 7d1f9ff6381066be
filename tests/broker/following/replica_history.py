"""Random histories of three replicas of one partition on disks that fail, replayed from a seed.

It runs real logs on the crashing file system, the leader's and the follower's real code, and a controller of
the tests. The network loses requests and responses, metadata arrives late, and processes and machines die in
the middle of any call. A machine loses unsynced data, but only one at a time of the replicas that have all
committed records. Invariants:

- a record below any replica's high watermark is the same on every replica that has its high watermark there;
- an elected leader has all records ever committed, and no record acknowledged with acks=all is missing;
- no replica's high watermark decreases while its process lives;
- at the end, when all faults are healed, all logs are the same, including producers and transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace

from history_controller import MIN_ISR, NODES, Controller, Metadata

from penstock.broker.api import fetch, list_offsets
from penstock.broker.following.following import Following, OffsetsAtLeader, Place
from penstock.broker.following.throttle import ReplicationThrottle
from penstock.broker.network.context import RequestContext
from penstock.broker.network.turns import Steps
from penstock.broker.partitions.leadership import IsrProposal
from penstock.broker.partitions.replica import Replica
from penstock.broker.partitions.replicated_partition import ReplicatedPartition
from penstock.broker.partitions.topic_settings import TopicSettings
from penstock.broker.quotas.client_quotas import UNLIMITED
from penstock.broker.reading.cold_reads import ColdRead
from penstock.broker.reading.fetch_session import FetchSessionCache
from penstock.metadata.image import MetadataImage
from penstock.protocol import batch
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.security.permissions import UNRESTRICTED
from penstock.storage.config import LogConfig
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.names import TopicPartition
from penstock.storage.partition.log import Log
from penstock.storage.producers.verification import NOT_REQUIRED
from penstock.testing.crash_files import CrashFiles, Died

TOPIC, PARTITION, TOPIC_ID = "flights", 0, b"\x07" * 16
KEY = (TOPIC_ID, PARTITION)
FETCH_VERSION, LIST_OFFSETS_VERSION = 17, 11
LAG_MS = 400
BACKOFF_MS = 50
START_MS = 1_700_000_000_000


class Violation(AssertionError):
    """An invariant does not hold."""


class Workers:
    """An executor that runs each task at once instead of in a thread."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        from concurrent.futures import Future

        future: Future[object] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: there are no threads."""


class ReadsAtOnce:
    """Reads in place what workers would read."""

    def submit(self, reads: Sequence[ColdRead], done: Callable[[], None]) -> None:
        for read in reads:
            read.plan(0)
            read.run()
        done()


@dataclass
class Brokers:
    """The brokers as a node sees them in its part of the metadata log."""

    node: Node

    @property
    def own_epoch(self) -> int:
        return self.node.epoch

    def live_epoch(self, broker_id: int) -> int | None:
        metadata = self.node.metadata
        return None if broker_id in metadata.fenced else metadata.epochs.get(broker_id)

    def is_leaving(self, broker_id: int) -> bool:
        return False


class Node:
    """One broker with its replica. Handlers use it as their broker, replicas as their context."""

    def __init__(self, node_id: int, history: History) -> None:
        self.node_id = node_id
        self.history = history
        root = history.root / str(node_id)
        root.mkdir()
        self.files = CrashFiles(root, history.rng)
        self.directory = root / "disk"
        self.manager: LogManager | None = None
        self.epoch = -1
        self.seen = 0
        self.stopped_clean = True
        self.high_watermark_before = 0
        self.checked_to = 0
        self.proposals: list[tuple[ReplicatedPartition, IsrProposal]] = []
        # as the leader's context
        self.brokers = Brokers(self)
        self.lag_time_max_ms = LAG_MS
        # as a handler's broker
        self.fetch_max_bytes = 1 << 20
        self.quotas = UNLIMITED
        self.cold_reads = ReadsAtOnce()
        self.image = MetadataImage()
        self.loop = SimpleNamespace(time=self.now_s)
        self.replicas = self
        self.throttle = ReplicationThrottle(3, 1000, self.now_ms)
        self.replication = SimpleNamespace(
            leader_throttle=self.throttle, sends_to_nearest=False, now_ms=self.now_ms
        )

    # --- start and stop

    @property
    def is_alive(self) -> bool:
        return self.manager is not None

    def start(self, *, clean: bool) -> None:
        history = self.history
        self.manager = LogManager(
            [self.directory],
            node_id=self.node_id,
            cluster_id="replicas",
            clock=history.clock_ms,
            files=self.files,
            rng=history.rng,
            workers=lambda count: Workers(),  # type: ignore[arg-type,return-value]
        )
        self.manager.load(lambda topic: history.config)
        log = self.manager.create(TOPIC, TOPIC_ID, PARTITION, history.config)
        high_watermark = self.manager.checkpointed_high_watermark(TOPIC, PARTITION) or 0
        settings = TopicSettings(history.config, {})
        self.replica = Replica(
            TOPIC, TOPIC_ID, PARTITION, log, settings, history.clock_ms, None, high_watermark
        )
        self.manager.high_watermarks = lambda: {TopicPartition(TOPIC, PARTITION): self.replica.high_watermark}
        self.fetch_sessions = FetchSessionCache(10, history.clock_ms, history.rng)
        self.following: Following | None = None
        self.proposals = []
        self.high_watermark_before = self.checked_to = 0
        self.epoch = history.controller.register(self.node_id, clean=clean)
        self.seen = len(history.controller.log) - 1  # a broker catches up before it serves requests
        self.obey()
        history.controller.unfence(self.node_id)

    def release(self) -> None:
        if self.manager is not None:
            for directory in self.manager.directories:
                directory.release()
        self.manager = None

    # --- the metadata log

    @property
    def metadata(self) -> Metadata:
        return self.history.controller.log[self.seen]

    def obey(self) -> None:
        registration = self.metadata.registration
        changed = self.replica.lead_or_follow(registration, self.node_id, self)
        partition = self.replica.replicated
        assert partition is not None
        if self.replica.is_leader:
            if changed:
                self.history.check_leader_has_all(self)
            self.following = None
        elif changed or self.following is None:
            self.following = None
            if registration.leader >= 0:
                self.following = Following(registration.leader, 1 << 20, BACKOFF_MS, self.throttle)
                self.following.add(partition)

    # --- as the leader's context

    def now_ms(self) -> float:
        return float(self.history.now_ms)

    def now_s(self) -> float:
        return self.history.now_ms / 1000

    def alter(self, partition: ReplicatedPartition, proposal: IsrProposal) -> None:
        self.proposals.append((partition, proposal))

    # --- as a handler's broker

    def get(self, topic: object, partition: int) -> Replica:
        return self.replica

    def leader(self, topic: object, partition: int, current_leader_epoch: int = -1) -> Replica:
        self.replica.check_leader(current_leader_epoch)
        return self.replica

    readable = leader

    async def decode_in_worker(self, function: Callable[[], object]) -> object:
        return function()


def result_of(steps: Steps[ListOffsetsResponse]) -> ListOffsetsResponse:
    """Take all steps and return their result. `in_turns` needs an event loop if the first ones take long."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            response: ListOffsetsResponse = done.value
            return response


class History:
    """One history from `seed` under `root`, an empty directory; `run` raises Violation."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = rng = Random(seed)
        self.root = root
        self.now_ms = 1_000
        self.config = LogConfig(
            segment_bytes=rng.choice((400, 1000, 4000)),
            index_interval_bytes=rng.choice((0, 100, 1000)),
            retention_ms=-1,
            min_insync_replicas=MIN_ISR,
            file_delete_delay_ms=0,
        )
        self.loss = rng.choice((0.0, 0.1, 0.4))
        self.controller = Controller()
        self.committed: list[tuple[int, bytes | None]] = []
        """(offset, value) of every data record below the highest high watermark, in order."""
        self.committed_to = 0
        self.acknowledged: dict[int, bytes] = {}
        self.lost_by: set[int] = set()
        """Replicas that lost unsynced data and have not caught up again."""
        self.crashed: set[int] = set()
        self.next_value = 0
        self.producers: dict[int, int] = {}
        """The next sequence of each producer whose transaction may be open."""
        self.story: list[str] = []
        self.nodes = {node_id: Node(node_id, self) for node_id in NODES}

    def clock_ms(self) -> int:
        return START_MS + self.now_ms

    def tell(self, text: str) -> None:
        self.story.append(f"{self.now_ms}: {text}")

    # --- the run

    def run(self, steps: int = 120) -> None:
        try:
            for node in self.nodes.values():
                node.start(clean=True)
            for _ in range(steps):
                self.now_ms += self.rng.choice((1, 5, 20, 100))
                self.rng.choices(_OPERATIONS, _WEIGHTS)[0](self)
                self.check()
            self.heal()
        finally:
            for node in self.nodes.values():
                node.release()

    def alive(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_alive]

    def guarded(self, node: Node, work: Callable[[], object]) -> None:
        """Run an action of a node, during which the node may die."""
        try:
            work()
        except Died:
            self.tell(f"{node.node_id} died on the way")
            self._dead(node, lost_power=self._may_lose(node) and self.rng.random() < 0.5)

    def _may_die(self, node: Node) -> bool:
        """Whether another replica has all committed records; otherwise no replica could be elected."""
        return bool(self.controller.safe() - self.crashed - {node.node_id})

    def _may_lose(self, node: Node) -> bool:
        return not self.lost_by - {node.node_id}

    # --- operations

    def produce(self) -> None:
        leaders = [node for node in self.alive() if node.replica.is_leader]
        if not leaders:
            return
        node = self.rng.choice(leaders)
        for _ in range(self.rng.choice((1, 1, 3))):
            self.guarded(node, lambda: self._append(node))
            if not node.is_alive:
                return

    def _append(self, node: Node) -> None:
        replica = node.replica
        rng = self.rng
        values = []
        for _ in range(rng.choice((1, 2, 5))):
            values.append(b"%d %s" % (self.next_value, b"x" * rng.choice((0, 20))))
            self.next_value += 1
        producer = {}
        if rng.random() < 0.4:
            producer_id = self.next_value
            producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
            if rng.random() < 0.5:
                producer["transactional"] = True
                self.producers[producer_id] = len(values)
        records = [Record(i, self.clock_ms(), b"k", value, []) for i, value in enumerate(values)]
        data = memoryview(bytearray(encode_batch(records, **producer)))  # type: ignore[arg-type]
        try:
            if rng.random() < 0.7:  # acks=all; acks=1 has no guarantee
                replica.check_enough_replicas()
            info = replica.append(data, batch.validate(data), verification=NOT_REQUIRED)
        except KafkaError as error:
            self.tell(f"{node.node_id} refuses: {error.code.name}")
            return
        self.tell(f"{node.node_id} appends {info.first_offset}..{info.last_offset}")
        first = info.first_offset

        def answered(error: ErrorCode) -> None:
            if error is ErrorCode.NONE and replica.check_enough_replicas_after_append() is ErrorCode.NONE:
                with unharmed(node):
                    self._check_node(node)  # before any other event
                self.acknowledged.update(enumerate(values, first))

        replica.when_committed(info.last_offset + 1, answered)

    def end_transaction(self) -> None:
        leaders = [node for node in self.alive() if node.replica.is_leader]
        if not leaders or not self.producers:
            return
        node = self.rng.choice(leaders)
        producer_id = self.rng.choice(sorted(self.producers))

        def append() -> None:
            try:
                node.replica.append_marker(
                    producer_id=producer_id,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    committed=self.rng.random() < 0.5,
                    transaction_version=0,
                )
            except KafkaError as error:
                self.tell(f"{node.node_id} refuses a marker: {error.code.name}")

        self.guarded(node, append)

    def fetch(self) -> None:
        """A follower fetches from the leader that it knows; the request or the response may be lost."""
        followers = [node for node in self.alive() if node.following is not None]
        if followers:
            self._fetch(self.rng.choice(followers), self.loss)

    def _fetch(self, node: Node, loss: float) -> None:
        following = node.following
        assert following is not None
        if not following.prepare(node.now_s()):
            return
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=node.node_id, replica_epoch=node.epoch),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=self.rng.choice((200, 1000, 1 << 20)),
        )
        number = following.session.fill(request)
        leader = self.nodes[following.leader_id]
        response = self._ask(leader, request, loss)
        if response is None or self.rng.random() < loss / 2:
            following.rest_all(node.now_s())
            return
        if following.session.answered(number, ErrorCode.of(response.error_code), response.session_id):
            self.guarded(node, lambda: self._take(node, following, leader, response, number))

    def _ask(self, leader: Node, request: FetchRequest, loss: float) -> FetchResponse | None:
        if not leader.is_alive or self.rng.random() < loss / 2:
            return None
        data = request.encode(FETCH_VERSION)
        answers: list[FetchResponse] = []

        def serve() -> None:
            arrived, _ = FetchRequest.decode(FETCH_VERSION, memoryview(data), 0)
            context = RequestContext(FETCH_VERSION, "", "", "", "", UNRESTRICTED)
            answer = fetch.handle(leader, arrived, context)  # type: ignore[arg-type]
            answer.when_done(lambda done: answers.append(done.result()))

        encoded = b""

        def send() -> None:
            nonlocal encoded
            serve()
            encoded = b"".join(
                part if isinstance(part, bytes) else bytes(part.read())  # type: ignore[union-attr]
                for part in answers[0].encode_parts(FETCH_VERSION)
            )

        self.guarded(leader, send)
        return FetchResponse.decode(FETCH_VERSION, memoryview(encoded), 0)[0] if encoded else None

    def _take(
        self, node: Node, following: Following, leader: Node, response: FetchResponse, number: int
    ) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if following.take((topic.topic_id, data.partition_index), data, number, node.now_s()):
                    offsets = self._offsets(leader, following)
                    following.go_into_range(KEY, offsets, number, node.now_s())

    def _offsets(self, leader: Node, following: Following) -> OffsetsAtLeader | None:
        if not leader.is_alive:
            return None
        place = following.places([KEY])[KEY]
        found: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = []
        with unharmed(leader):
            return self._offsets_at(leader, place, found)

    def _offsets_at(
        self,
        leader: Node,
        place: Place,
        found: list[ListOffsetsResponse.ListOffsetsPartitionResponse],
    ) -> OffsetsAtLeader:
        for timestamp in (-4, -1):
            wanted = ListOffsetsRequest.ListOffsetsPartition(
                partition_index=PARTITION, current_leader_epoch=place.leader_epoch, timestamp=timestamp
            )
            topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[wanted])
            request = ListOffsetsRequest(replica_id=9, topics=[topic])
            version = LIST_OFFSETS_VERSION
            steps = list_offsets._answer(leader, request, {TOPIC}, version)  # type: ignore[arg-type]
            found += result_of(steps).topics[0].partitions
        error = ErrorCode.of(found[0].error_code or found[1].error_code)
        return OffsetsAtLeader(found[0].offset, found[1].offset, error)

    def learn(self) -> None:
        """Let a node read more of the metadata log."""
        behind = [node for node in self.alive() if node.seen < len(self.controller.log) - 1]
        if behind:
            node = self.rng.choice(behind)
            node.seen = self.rng.randint(node.seen + 1, len(self.controller.log) - 1)
            self.guarded(node, node.obey)

    def alter(self) -> None:
        """Deliver a leader's proposal to the controller once or twice; the response may be lost."""
        leaders = [node for node in self.alive() if node.proposals]
        if leaders:
            self._alter(self.rng.choice(leaders), self.loss)

    def _alter(self, node: Node, loss: float) -> None:
        partition, proposal = node.proposals[-1]
        error, registration = self.controller.alter(
            node.node_id,
            proposal.leader_epoch,
            proposal.partition_epoch,
            dict(zip(proposal.isr, proposal.broker_epochs, strict=True)),
        )
        self.tell(f"{node.node_id} proposes {proposal.isr}: {error.name}")
        if self.rng.random() < loss:
            return
        node.proposals.clear()
        if error is ErrorCode.NONE:
            partition.accepted(
                proposal, list(registration.isr), registration.leader_epoch, registration.partition_epoch
            )
        elif partition.refused(proposal, error):
            node.proposals.append((partition, proposal))

    def shrink(self) -> None:
        for node in self.alive():
            assert node.replica.replicated is not None
            node.replica.replicated.shrink_if_lagging()

    def flush(self) -> None:
        alive = self.alive()
        if alive:
            node = self.rng.choice(alive)
            self.guarded(node, node.replica.log.flush)

    def checkpoint(self) -> None:
        alive = self.alive()
        if alive:
            node = self.rng.choice(alive)
            manager = node.manager
            assert manager is not None
            marks = dict(manager.high_watermarks())
            self.guarded(node, manager.checkpoint_recovery_points)
            self.guarded(node, lambda: manager.checkpoint_high_watermarks(marks))

    def delete_records(self) -> None:
        leaders = [node for node in self.alive() if node.replica.is_leader]
        if leaders:
            node = self.rng.choice(leaders)
            replica = node.replica
            offset = self.rng.randint(replica.log.log_start_offset, replica.high_watermark)
            self.tell(f"{node.node_id} deletes below {offset}")
            self.guarded(node, lambda: replica.log.delete_records_before(offset))

    def crash(self) -> None:
        """Kill a process or a machine, now or in the middle of its next action."""
        mortal = [node for node in self.alive() if self._may_die(node)]
        if not mortal:
            return
        node = self.rng.choice(mortal)
        if self.rng.random() < 0.5:
            node.files.dies_in = self.rng.randrange(20)
            self.crashed.add(node.node_id)  # it counts as dead already, because it will die
        else:
            self._dead(node, lost_power=self._may_lose(node) and self.rng.random() < 0.6)

    def _dead(self, node: Node, *, lost_power: bool) -> None:
        node.release()
        # If no other replica has all committed records, it restarts as after a clean stop, with all its data.
        node.stopped_clean = not self._may_die(node)
        lost_power = lost_power and not node.stopped_clean
        self.crashed.add(node.node_id)
        if lost_power:
            node.files.cut_power()
            self.lost_by.add(node.node_id)
        else:
            node.files.kill()
        self.tell(f"{node.node_id} is dead {lost_power=} safe={self.controller.safe()}")

    def fence(self) -> None:
        """Let the controller miss a node's heartbeats, whether the node is dead or not."""
        node = self.rng.choice(list(self.nodes.values()))
        if self._may_die(node) and (not node.is_alive or self.rng.random() < 0.2):
            self.tell(f"{node.node_id} is fenced")
            self.controller.fence(node.node_id)
            if node.is_alive:
                self.controller.unfence(node.node_id)

    def prefer(self) -> None:
        self.controller.prefer(self.rng.choice(NODES))

    def restart(self) -> None:
        dead = [node for node in self.nodes.values() if not node.is_alive]
        if dead:
            self._restart(self.rng.choice(dead))

    def _restart(self, node: Node) -> None:
        self.tell(f"{node.node_id} starts")
        node.files.dies_in = -1
        node.start(clean=node.stopped_clean)
        self.crashed.discard(node.node_id)

    # --- invariants

    def check(self) -> None:
        self.lost_by -= self.controller.safe() - self.crashed
        for node in self.alive():
            with unharmed(node):
                self._check_node(node)
        for offset, value in self.acknowledged.items():
            if offset >= self.committed_to or self._committed_at(offset) != value:
                raise Violation(f"acknowledged offset {offset} is not what is committed")
        self.acknowledged.clear()

    def _check_node(self, node: Node) -> None:
        replica = node.replica
        if replica.high_watermark < node.high_watermark_before:
            raise Violation(f"high watermark of {node.node_id} went back")
        node.high_watermark_before = replica.high_watermark
        if replica.high_watermark > node.checked_to:
            self._check_committed(node)
            node.checked_to = replica.high_watermark

    def _committed_at(self, offset: int) -> bytes | None:
        return next(value for at, value in self.committed if at == offset)

    def _check_committed(self, node: Node) -> None:
        """Check that replicas agree below the high watermark, and record newly committed records."""
        log, high_watermark = node.replica.log, node.replica.high_watermark
        here = read_below(log, high_watermark)
        known = [(o, v) for o, v in self.committed if log.log_start_offset <= o < high_watermark]
        if here[: len(known)] != known:
            raise Violation(f"{node.node_id} has committed records of its own below {high_watermark}")
        if high_watermark > self.committed_to:
            new = [(offset, value) for offset, value in here if offset >= self.committed_to]
            self.committed += new
            self.committed_to = high_watermark

    def check_leader_has_all(self, node: Node) -> None:
        log = node.replica.log
        if self.metadata_is_current(node):
            with unharmed(node):
                here = read_below(log, self.committed_to)
            known = [(o, v) for o, v in self.committed if o >= log.log_start_offset]
            if here != known or log.log_end_offset < self.committed_to:
                raise Violation(f"leader {node.node_id} lacks committed records")

    def metadata_is_current(self, node: Node) -> bool:
        return node.metadata.registration.leader_epoch == self.controller.now.registration.leader_epoch

    # --- the end

    def heal(self) -> None:
        self.tell("heal")
        for node in self.nodes.values():
            node.files.dies_in = -1
            if not node.is_alive:
                self.controller.fence(node.node_id)
                self._restart(node)
        for _ in range(80):
            self.now_ms += 60
            for node in self.nodes.values():
                if node.seen < len(self.controller.log) - 1:
                    node.seen = len(self.controller.log) - 1
                    node.obey()
                if node.following is not None:
                    self._fetch(node, 0.0)
                if node.proposals:
                    self._alter(node, 0.0)
            self.check()
        registration = self.controller.now.registration
        if set(registration.isr) != set(NODES):
            raise Violation(f"not all are in sync in the end: {registration}")
        leader = self.nodes[registration.leader]
        for node in self.nodes.values():
            self._check_same(leader, node)

    def _check_same(self, leader: Node, node: Node) -> None:
        end_offset = leader.replica.log.log_end_offset
        ends = (node.replica.log.log_end_offset, node.replica.high_watermark)
        if ends != (end_offset, end_offset):
            raise Violation(f"{node.node_id} ends at {ends}, the leader at {end_offset}")
        start_offset = max(leader.replica.log.log_start_offset, node.replica.log.log_start_offset)
        if raw_from(leader.replica.log, start_offset) != raw_from(node.replica.log, start_offset):
            raise Violation(f"{node.node_id} has other bytes than the leader")
        transactions = [
            {
                entry.producer_id: entry.txn_first_offset
                for entry in each.replica.log.producer_state.producers.values()
                if entry.txn_first_offset >= start_offset
            }
            for each in (leader, node)
        ]
        if transactions[0] != transactions[1]:
            raise Violation(f"{node.node_id} knows other transactions than the leader: {transactions}")
        oldest = [each.replica.log.producer_state.first_undecided_offset for each in (leader, node)]
        if any(offset is not None and offset < start_offset for offset in oldest):
            return  # it began in deleted records, which a newer replica has never received
        if node.replica.last_stable_offset != leader.replica.last_stable_offset:
            raise Violation(f"{node.node_id} has another last stable offset than the leader")


@contextmanager
def unharmed(node: Node) -> Iterator[None]:
    """Prevent the death of a node while the history inspects its state."""
    files = node.files
    dies_in, files.dies_in = files.dies_in, -1
    yield
    files.dies_in = dies_in


def read_below(log: Log, end_offset: int) -> list[tuple[int, bytes | None]]:
    """The (offset, value) of every data record from the log's start on."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while offset < end_offset and (piece := log.read(offset, 1 << 20)) is not None:
        data = piece.read()
        for position, header in batch.iter_headers(data):
            if not header.is_control:
                found += [(r.offset, r.value) for r in decode_batch(data, position) if r.offset >= offset]
            offset = header.next_offset
    return [(offset, value) for offset, value in found if offset < end_offset]


def raw_from(log: Log, start_offset: int) -> bytes:
    """The batches starting with the one that contains `start_offset`."""
    found = b""
    offset = start_offset
    while (piece := log.read(offset, 1 << 20)) is not None:
        data = piece.read()
        found += data
        for _, header in batch.iter_headers(data):
            offset = header.next_offset
    return found


_OPERATIONS: list[Callable[[History], None]] = []
_WEIGHTS: list[int] = []
for _weight, _operation in (
    (20, History.produce),
    (4, History.end_transaction),
    (40, History.fetch),
    (9, History.learn),
    (8, History.alter),
    (6, History.shrink),
    (4, History.flush),
    (3, History.checkpoint),
    (2, History.delete_records),
    (5, History.crash),
    (5, History.fence),
    (2, History.prefer),
    (6, History.restart),
):
    _OPERATIONS.append(_operation)
    _WEIGHTS.append(_weight)
