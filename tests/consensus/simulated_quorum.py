"""A quorum in one thread and virtual time, driven by one seed.

The network loses, delays, reorders and duplicates messages, disks are slow and lose data, members die and
restart, and voters change.

After every step the invariants of Raft are checked, see `Invariants`.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from memory_log import Entry, MemoryLog

from penstock.consensus.effects import (
    BeginEpoch,
    Effect,
    Flush,
    InstallSnapshot,
    Persist,
    Reply,
    Send,
    Truncate,
)
from penstock.consensus.leader import Leader
from penstock.consensus.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    Request,
    Response,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
)
from penstock.consensus.quorum_state import ElectionState
from penstock.consensus.raft import Raft
from penstock.consensus.settings import KRAFT_VERSIONS, RaftSettings
from penstock.consensus.voters import Address, ReplicaKey, Voter, VoterSet
from penstock.protocol.errors import ErrorCode

LISTENER = "CONTROLLER"


@dataclass
class Faults:
    """The severity of faults: probabilities, and times in ms."""

    lost: float = 0.0
    doubled: float = 0.0
    delay_ms: tuple[int, int] = (1, 10)
    disk_ms: tuple[int, int] = (0, 5)


class Invariants:
    """The invariants of Raft. Checks raise AssertionError."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.committed: list[Entry] = []

    def check(self, member: "Member") -> None:
        raft = member.raft
        if raft.is_leader:
            leader = self.leaders.setdefault(raft.epoch, member.id)
            assert leader == member.id, f"{leader} and {member.id} both lead epoch {raft.epoch}"
        high_watermark = raft.high_watermark
        if high_watermark is None or high_watermark == member.checked:
            return
        assert high_watermark >= member.checked, f"{member.id}: {high_watermark} after {member.checked}"
        assert high_watermark <= raft.log.end_offset
        log = member.log
        for offset in range(max(member.checked, log.start_offset), high_watermark):
            entry = log.entry(offset)
            if offset == len(self.committed):
                self.committed.append(entry)
            assert self.committed[offset] == entry, f"{member.id}: offset {offset} is another record"
        values = tuple(e.value for e in self.committed[:high_watermark] if e.kind == "data")
        assert log.values(high_watermark) == values, f"{member.id}: another state at {high_watermark}"
        member.checked = high_watermark

    def check_completeness(self, member: "Member") -> None:
        """Check that an elected leader has all records ever committed."""
        log = member.log
        assert log.end_offset >= len(self.committed), f"{member.id} leads with {log.end_offset} records only"
        for offset in range(log.start_offset, len(self.committed)):
            assert log.entry(offset) == self.committed[offset], f"{member.id} leads without record {offset}"


@dataclass
class Disk:
    """The data that a member has after a restart."""

    directory_id: bytes
    log: MemoryLog
    election: ElectionState | None = None


@dataclass
class Member:
    """One running node: its state machine and its pending effects."""

    id: int
    disk: Disk
    raft: Raft
    life: int
    inbox: list[Callable[[int], None]] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    is_busy: bool = False
    is_flushing: bool = False
    replies: dict[int, Callable[[Response], None]] = field(default_factory=dict)
    token: int = 0
    polled_at: float = -1
    checked: int = 0
    led_epoch: int = -1

    @property
    def log(self) -> MemoryLog:
        return self.disk.log


class SimulatedQuorum:
    """Members ``1..voters`` vote at first, ``observers`` more follow; all may become voters."""

    def __init__(self, seed: int, voters: int, observers: int = 0, *, dynamic: bool = True) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1000
        self.faults = Faults()
        self.invariants = Invariants()
        self.members: dict[int, Member] = {}
        self.down: dict[int, Disk] = {}
        self.cut: set[tuple[int, int]] = set()
        """The (from, to) pairs whose messages are lost."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._lives = 0
        self._value = 0
        ids = range(1, voters + observers + 1)
        self.addresses = {member_id: Address(f"n{member_id}", 9093) for member_id in ids}
        directories = {member_id: self._directory_id() for member_id in ids}
        first = VoterSet(
            Voter(ReplicaKey(i, directories[i]), {LISTENER: self.addresses[i]}, *KRAFT_VERSIONS)
            for i in range(1, voters + 1)
        )
        static = VoterSet(Voter(ReplicaKey(voter.key.id), voter.endpoints) for voter in first)
        for member_id in ids:
            log = MemoryLog(VoterSet() if dynamic else static)
            if dynamic and member_id <= voters:
                log.format(first)
            self.down[member_id] = Disk(directories[member_id], log)
        for member_id in ids:
            self.start(member_id)

    def _directory_id(self) -> bytes:
        return self.rng.randbytes(16)

    # Members

    def start(self, member_id: int) -> None:
        disk = self.down.pop(member_id)
        settings = RaftSettings(
            cluster_id="cluster",
            local=ReplicaKey(member_id, disk.directory_id),
            listener_name=LISTENER,
            endpoints={LISTENER: self.addresses[member_id]},
            bootstrap_servers=tuple(self.addresses.values()),
            auto_join=self.auto_join,
            fetch_max_bytes=500,
            fetch_snapshot_max_bytes=200,
        )
        self._lives += 1
        rng = random.Random(self.rng.random())
        member = Member(member_id, disk, Raft(settings, disk.log, rng, disk.election), self._lives)
        self.members[member_id] = member
        disk.log.durable_end = disk.log.end_offset  # a node flushes its log before it fetches
        self._feed(member, member.raft.start)

    auto_join = False

    def crash(self, member_id: int, *, lose_disk: bool = False) -> None:
        disk = self.members.pop(member_id).disk
        disk.log.crash(self.rng)
        if lose_disk:
            disk = Disk(self._directory_id(), MemoryLog(disk.log.history.static_voters))
        self.down[member_id] = disk

    def _is_alive(self, member: Member) -> bool:
        return self.members.get(member.id) is member

    # Time

    def after(self, delay_ms: float, happen: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._sequence, happen))

    def run(self, duration_ms: int) -> None:
        until = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= until:
            at, _, happen = heapq.heappop(self._events)
            self.now_ms = max(self.now_ms, int(at))
            happen()
        self.now_ms = until

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        until = self.now_ms + limit_ms
        while not condition():
            assert self.now_ms < until, f"not so within {limit_ms} ms: {self}"
            self.run(10)

    # Input of the state machine: one event at a time, its effects in order, then a poll

    def _feed(self, member: Member, event: Callable[[int], None]) -> None:
        if not self._is_alive(member):
            return
        member.inbox.append(event)
        if not member.is_busy:
            self._work(member)

    def _work(self, member: Member) -> None:
        member.is_busy = True
        is_polled = False
        while not is_polled:
            if member.effects:
                effect = member.effects.pop(0)
                delay_ms = self._carry_out(member, effect)
                if delay_ms is not None:
                    self.after(delay_ms, partial(self._resume, member, effect))
                    return
            elif member.inbox:
                member.inbox.pop(0)(self.now_ms)
                member.effects = member.raft.take_effects()
            else:
                self._poll_at(member, member.raft.poll(self.now_ms))
                member.effects = member.raft.take_effects()
                is_polled = not member.effects
        member.is_busy = False
        self._observe(member)

    def _resume(self, member: Member, effect: Effect) -> None:
        """Continue after a slow disk operation."""
        if not self._is_alive(member):
            return
        self._done(member, effect)
        member.effects = member.raft.take_effects() + member.effects
        self._work(member)

    def _carry_out(self, member: Member, effect: Effect) -> int | None:
        """Apply an effect, or return the time that the disk needs."""
        match effect:
            case Send():
                self._send(member, effect)
            case Reply(token, response):
                reply = member.replies.pop(token)
                reply(response)
            case _:
                return self.rng.randint(*self.faults.disk_ms)
        return None

    def _done(self, member: Member, effect: Effect) -> None:
        match effect:
            case Persist(election):
                member.disk.election = election
            case BeginEpoch():
                member.raft.begin_epoch(self.now_ms)
            case Flush():
                member.log.durable_end = member.log.end_offset
            case Truncate(offset):
                member.log.truncate_to(offset)
            case InstallSnapshot():
                member.log.install_snapshot()
                member.raft.snapshot_installed()

    def _poll_at(self, member: Member, at: float) -> None:
        if at == float("inf") or at == member.polled_at:
            return
        member.polled_at = at

        def poll() -> None:
            if self._is_alive(member) and member.polled_at == at:
                member.polled_at = -1
                self._feed(member, lambda now_ms: None)

        self.after(at - self.now_ms, poll)

    def _observe(self, member: Member) -> None:
        raft = member.raft
        if raft.is_leader and member.led_epoch < raft.epoch:
            member.led_epoch = raft.epoch
            self.invariants.check_completeness(member)
        self.invariants.check(member)
        if raft.is_leader and not member.is_flushing and member.log.durable_end < member.log.end_offset:
            self._flush(member)

    def _flush(self, member: Member) -> None:
        """Flush the appends of a leader concurrently with other events."""
        end_offset, epoch = member.log.end_offset, member.raft.epoch
        member.is_flushing = True

        def flushed() -> None:
            if not self._is_alive(member):
                return
            member.is_flushing = False
            if member.raft.epoch == epoch and member.raft.is_leader:
                member.log.durable_end = max(member.log.durable_end, end_offset)
                self._feed(member, lambda now_ms: member.raft.flushed(end_offset, now_ms))

        self.after(self.rng.randint(*self.faults.disk_ms), flushed)

    # The network

    def _send(self, sender: Member, send: Send) -> None:
        target = next(i for i, address in self.addresses.items() if address == send.to.address)

        def answer(response: Response) -> None:
            self._pass(target, sender.id, lambda: self._answered(sender, send, response))

        if not self._pass(sender.id, target, lambda: self._ask(target, send.request, answer)):
            delay_ms = self.rng.randint(*self.faults.delay_ms)
            self.after(delay_ms, lambda: self._answered(sender, send, None))
        elif self.rng.random() < self.faults.doubled:
            self._pass(sender.id, target, lambda: self._ask(target, send.request, lambda _: None))

    def _answered(self, sender: Member, send: Send, response: Response | None) -> None:
        self._feed(
            sender,
            lambda now_ms: sender.raft.receive_response(send.to, send.correlation_id, response, now_ms),
        )

    def _pass(self, source: int, target: int, arrive: Callable[[], None]) -> bool:
        """Send a message. Return False if the loss of the connection is visible; silent loss is as likely."""
        if (source, target) in self.cut or target not in self.members or self.rng.random() < self.faults.lost:
            return self.rng.random() < 0.5
        self.after(self.rng.randint(*self.faults.delay_ms), arrive)
        return True

    def _ask(self, target: int, request: Request, answer: Callable[[Response], None]) -> None:
        member = self.members.get(target)
        if member is None:
            return
        if isinstance(request, SupportedVersionsRequest):
            answer(SupportedVersionsResponse(ErrorCode.NONE, KRAFT_VERSIONS))
            return
        member.token += 1
        token = member.token
        member.replies[token] = answer
        self._feed(member, lambda now_ms: member.raft.receive(token, request, now_ms))

    # Clients and operators

    @property
    def leader(self) -> Member | None:
        """The leader with the highest epoch."""
        leaders = [member for member in self.members.values() if member.raft.is_leader]
        return max(leaders, key=lambda member: member.raft.epoch, default=None)

    def propose(self, member: Member) -> None:
        """Append a record as the controller on that node would."""
        role = member.raft.role
        if isinstance(role, Leader) and role.has_begun and not member.is_busy:
            self._value += 1
            member.log.append_data(member.raft.epoch, self._value)
            self._feed(member, member.raft.appended)

    def ask(self, member: Member, request: Request) -> list[Response]:
        """Send a client request; the returned list gets the response."""
        answers: list[Response] = []
        self._ask(member.id, request, answers.append)
        return answers

    def add_voter(self, member_id: int) -> list[Response]:
        leader, disk = self.leader, self.members[member_id].disk
        assert leader is not None
        key = ReplicaKey(member_id, disk.directory_id)
        endpoints = {LISTENER: self.addresses[member_id]}
        return self.ask(leader, AddVoterRequest("cluster", key, endpoints, ack_when_committed=True))

    def remove_voter(self, key: ReplicaKey) -> list[Response]:
        leader = self.leader
        assert leader is not None
        return self.ask(leader, RemoveVoterRequest("cluster", key))

    def is_settled(self) -> bool:
        """Whether there is a leader and all members have the same log, committed to its end."""
        leader = self.leader
        if leader is None or leader.raft.high_watermark != leader.log.end_offset:
            return False
        return all(
            member.raft.epoch == leader.raft.epoch
            and member.raft.leader_id == leader.id
            and member.raft.high_watermark == leader.log.end_offset
            for member in self.members.values()
        )

    def __repr__(self) -> str:
        lines = [
            f"{member.id}: {type(member.raft.role).__name__} epoch={member.raft.epoch} "
            f"leader={member.raft.leader_id} log={member.log.start_offset}-{member.log.end_offset} "
            f"durable={member.log.durable_end} hw={member.raft.high_watermark} {member.raft.voters}"
            for member in sorted(self.members.values(), key=lambda member: member.id)
        ]
        return f"at {self.now_ms} ms, down {sorted(self.down)}, cut {sorted(self.cut)}\n" + "\n".join(lines)
