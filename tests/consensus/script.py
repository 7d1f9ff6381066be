"""Scripts that drive a quorum step by step and show its actions; see `scripts/`.

A script is a list of steps, each with its output below a line of dashes:

    voters 1 2 3      make members; also `observers 4`; with `static` the quorum has kraft.version 0
    elected 1         run without output until 1 leads and all have its first record
    pass 1 1200       1200 ms pass for member 1, or without a number for all
    live 1200         1200 ms pass for all, and all messages arrive; fetches are not shown
    deliver 1 2       deliver and answer requests from 1 to 2; without numbers all, until none is pending
    drop 1 2          requests from 1 to 2 are lost, and 1 notices
    cut 1             messages to and from 1 are lost silently; `heal` ends it
    propose 1 a       the controller on member 1 appends a record
    flush 1           flush what member 1 appended as the leader
    crash 1, start 1  unflushed records are lost
    snapshot 1        snapshot the committed records; the log then starts with it
    add 4, remove 2   ask the leader to change the voters
    resign 1          the controller on member 1 cannot go on
    show              roles, logs and high watermarks

Disks are fast here. A member's election timeout is one second plus 100 ms times its number.
"""

import random
from collections.abc import Iterator

from memory_log import MemoryLog

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
from penstock.consensus.log import Diverging, NeedsSnapshot
from penstock.consensus.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    ChangeResponse,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    Request,
    Response,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from penstock.consensus.quorum_state import ElectionState
from penstock.consensus.raft import Raft
from penstock.consensus.settings import KRAFT_VERSIONS, RaftSettings
from penstock.consensus.voters import Address, ReplicaKey, Voter, VoterSet
from penstock.protocol.errors import ErrorCode

LISTENER = "CONTROLLER"


class ByNumber(random.Random):
    """The random source of scripts: the number of the member times a hundred."""

    def __init__(self, member_id: int) -> None:
        super().__init__()
        self._member_id = member_id

    def randrange(self, stop: int) -> int:  # type: ignore[override]
        return min(self._member_id * 100, stop - 1) if stop > 100 else 0


class ScriptMember:
    def __init__(self, member_id: int, log: MemoryLog) -> None:
        self.id = member_id
        self.log = log
        self.key = ReplicaKey(member_id, bytes([member_id]) * 16)
        self.election: ElectionState | None = None
        self.raft: Raft | None = None
        self.role = ""


class Script:
    """A script run; each step returns lines that describe its effects."""

    def __init__(self) -> None:
        self.now_ms = 10_000
        self.members: dict[int, ScriptMember] = {}
        self._out: list[str] = []
        self._sent: list[tuple[int, int, Send]] = []
        """The pending requests as (from, to, request)."""
        self._tokens: dict[int, tuple[int, int, Send]] = {}
        self._token = 0
        self._cut: set[int] = set()

    def run(self, step: str) -> list[str]:
        """Run one step. Raises AttributeError for an unknown command."""
        self._out = []
        word, *args = step.split()
        getattr(self, f"do_{word}")(*args)
        return self._out

    # Steps

    def do_voters(self, *words: str) -> None:
        dynamic = "static" not in words
        split = words.index("observers") if "observers" in words else len(words)
        voters = [int(word) for word in words[:split] if word.isdigit()]
        others = [int(word) for word in words[split:] if word.isdigit()]
        first = VoterSet(self._voter(i, keyed=dynamic) for i in voters)
        for member_id in voters + others:
            log = MemoryLog(VoterSet() if dynamic else first)
            if dynamic and member_id in voters:
                log.format(first)
            self.members[member_id] = ScriptMember(member_id, log)
        for member_id in voters + others:
            self.do_start(str(member_id))

    def _voter(self, member_id: int, *, keyed: bool = True) -> Voter:
        key = ReplicaKey(member_id, bytes([member_id]) * 16) if keyed else ReplicaKey(member_id)
        return Voter(key, {LISTENER: Address(f"n{member_id}", 9093)}, *KRAFT_VERSIONS)

    def do_start(self, member_id: str) -> None:
        member = self.members[int(member_id)]
        settings = RaftSettings(
            cluster_id="cluster",
            local=member.key,
            listener_name=LISTENER,
            endpoints={LISTENER: Address(f"n{member.id}", 9093)},
            bootstrap_servers=tuple(Address(f"n{i}", 9093) for i in self.members),
        )
        member.log.durable_end = member.log.end_offset
        member.raft = Raft(settings, member.log, ByNumber(member.id), member.election)
        member.raft.start(self.now_ms)
        self._settle(member)

    def do_crash(self, member_id: str) -> None:
        member = self.members[int(member_id)]
        member.raft, member.role = None, ""
        lost = member.log.end_offset - member.log.durable_end
        member.log.truncate_to(member.log.durable_end)
        self._sent = [sent for sent in self._sent if sent[0] != member.id]
        self._say(member, f"is gone, and {lost} records with it")

    def do_pass(self, *args: str) -> None:
        *who, duration_ms = args
        until = self.now_ms + int(duration_ms)
        while self.now_ms < until:
            self.now_ms += 10
            for member in list(self.members.values()):
                if not who or str(member.id) in who:
                    self._settle(member)

    def do_elected(self, member_id: str) -> None:
        member = self.members[int(member_id)]
        self.do_pass(member_id, str(1010 + 100 * member.id))
        while self._raft(member).high_watermark != member.log.end_offset:
            self.do_deliver()
            self.do_flush(member_id)
        self.do_deliver()
        self._out.clear()

    def do_live(self, duration_ms: str) -> None:
        for _ in range(int(duration_ms) // 10):
            self.do_pass("10")
            self.do_deliver()
            for member in self.members.values():
                if member.raft is not None and member.raft.is_leader:
                    self.do_flush(str(member.id))
        self._out = [line for line in self._out if "fetch in" not in line and "high watermark" not in line]

    def do_cut(self, member_id: str) -> None:
        self._cut.add(int(member_id))

    def do_heal(self) -> None:
        self._cut.clear()

    def do_deliver(self, *route: str) -> None:
        if route:
            source, target = map(int, route)
            found = [sent for sent in self._sent if sent[:2] == (source, target)]
            self._sent = [sent for sent in self._sent if sent[:2] != (source, target)]
            for sent in found:
                self._arrive(*sent)
            return
        for _ in range(60):
            waiting, self._sent = self._sent, []
            for sent in waiting:
                self._arrive(*sent)
            if not self._sent:
                return

    def do_drop(self, source: str, target: str) -> None:
        found = [sent for sent in self._sent if sent[:2] == (int(source), int(target))]
        self._sent = [sent for sent in self._sent if sent not in found]
        for sender, _, send in found:
            self._answered(sender, send, None)

    def do_propose(self, member_id: str, value: str) -> None:
        member = self.members[int(member_id)]
        raft = self._raft(member)
        assert isinstance(raft.role, Leader)
        member.log.append_data(raft.epoch, value)
        raft.appended(self.now_ms)
        self._settle(member)

    def do_flush(self, member_id: str) -> None:
        member = self.members[int(member_id)]
        member.log.durable_end = member.log.end_offset
        self._raft(member).flushed(member.log.end_offset, self.now_ms)
        self._settle(member)

    def do_snapshot(self, member_id: str) -> None:
        member = self.members[int(member_id)]
        member.log.take_snapshot(self._raft(member).high_watermark or 0, trim=True)
        self._say(member, f"log {member.log.start_offset}-{member.log.end_offset}")

    def do_resign(self, member_id: str) -> None:
        member = self.members[int(member_id)]
        self._raft(member).resign(self._raft(member).epoch)
        self._settle(member)

    def do_add(self, member_id: str) -> None:
        member = self.members[int(member_id)]
        endpoints = {LISTENER: Address(f"n{member.id}", 9093)}
        self._operate(AddVoterRequest("cluster", member.key, endpoints, ack_when_committed=True))

    def do_remove(self, member_id: str) -> None:
        self._operate(RemoveVoterRequest("cluster", self.members[int(member_id)].key))

    def do_show(self) -> None:
        for member in self.members.values():
            log = member.log
            values = "".join(str(value) for value in log.values(log.end_offset))
            raft = member.raft
            if raft is None:
                self._say(member, f"down, log {log.start_offset}-{log.end_offset} {values}")
                continue
            watermark = "?" if raft.high_watermark is None else raft.high_watermark
            self._say(
                member,
                f"{self._role(raft)}, log {log.start_offset}-{log.end_offset} {values}, "
                f"high watermark {watermark}, voters {' '.join(map(str, raft.voters.ids))}",
            )

    # Execution

    def _raft(self, member: ScriptMember) -> Raft:
        assert member.raft is not None, f"member {member.id} is down"
        return member.raft

    def _say(self, member: ScriptMember, what: str) -> None:
        self._out.append(f"{member.id}: {what}")

    def _role(self, raft: Raft) -> str:
        role = raft.role
        of = "" if role.leader_id in (None, raft.settings.local.id) else f" of {role.leader_id}"
        return f"{type(role).__name__}{of} in {role.epoch}"

    def _settle(self, member: ScriptMember) -> None:
        """Apply the effects of the state machine, and poll until it has none."""
        raft = member.raft
        if raft is None:
            return
        is_polled = False
        while not is_polled:
            effects = raft.take_effects()
            if not effects:
                raft.poll(self.now_ms)
                effects = raft.take_effects()
                is_polled = not effects
            for effect in effects:
                self._carry_out(member, raft, effect)
        role = self._role(raft)
        if role != member.role:
            member.role = role
            self._say(member, role)

    def _carry_out(self, member: ScriptMember, raft: Raft, effect: Effect) -> None:
        match effect:
            case Persist(election):
                member.election = election
                self._say(member, f"keeps epoch {election.epoch}{_election(election)}")
            case BeginEpoch():
                raft.begin_epoch(self.now_ms)
            case Flush():
                member.log.durable_end = member.log.end_offset
            case Truncate(offset):
                self._say(member, f"truncates from {member.log.end_offset} to {offset}")
                member.log.truncate_to(offset)
            case InstallSnapshot():
                member.log.install_snapshot()
                raft.snapshot_installed()
                self._say(member, f"has snapshot {member.log.start_offset}")
            case Send(to, _, request):
                target = int(to.address.host[1:])
                self._sent.append((member.id, target, effect))
                self._say(member, f"-> {target} {_request(request)}")
            case Reply(token, response):
                source, _, send = self._tokens.pop(token)
                self._say(member, f"answers {source or 'operator'}: {_response(response)}")
                if source and not self._cut & {source, member.id}:
                    self._answered(source, send, response)

    def _arrive(self, source: int, target: int, send: Send) -> None:
        member = self.members[target]
        if self._cut & {source, target}:
            return
        if member.raft is None:
            self._answered(source, send, None)
        elif isinstance(send.request, SupportedVersionsRequest):
            self._answered(source, send, SupportedVersionsResponse(ErrorCode.NONE, KRAFT_VERSIONS))
        else:
            self._ask(member, (source, target, send), send.request)

    def _operate(self, request: Request) -> None:
        leader = next(m for m in self.members.values() if m.raft is not None and m.raft.is_leader)
        self._ask(leader, (0, leader.id, None), request)  # type: ignore[arg-type]

    def _ask(self, member: ScriptMember, sent: tuple[int, int, Send], request: Request) -> None:
        self._token += 1
        self._tokens[self._token] = sent
        self._raft(member).receive(self._token, request, self.now_ms)
        self._settle(member)

    def _answered(self, source: int, send: Send, response: Response | None) -> None:
        member = self.members[source]
        if member.raft is not None:
            member.raft.receive_response(send.to, send.correlation_id, response, self.now_ms)
            self._settle(member)


def _election(election: ElectionState) -> str:
    voted = "" if election.voted_id is None else f", voted for {election.voted_id}"
    leader = "" if election.leader_id is None else f", leader {election.leader_id}"
    return voted + leader


def _request(request: Request) -> str:
    match request:
        case VoteRequest():
            kind = "pre-vote" if request.pre_vote else "vote"
            return f"{kind} in {request.epoch}, log {request.last.offset} of {request.last.epoch}"
        case BeginQuorumEpochRequest():
            return f"begin {request.epoch}"
        case EndQuorumEpochRequest():
            return (
                f"end {request.epoch}, next {' '.join(str(key.id) for key in request.successors) or 'anyone'}"
            )
        case FetchRequest():
            return f"fetch in {request.epoch} from {request.offset} of {request.last_epoch}"
        case FetchSnapshotRequest():
            return f"fetch snapshot {request.snapshot.end_offset} from byte {request.position}"
        case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest():
            return f"{type(request).__name__} {request.voter.id}"
        case SupportedVersionsRequest():
            return "which versions"


def _response(response: Response) -> str:
    view = getattr(response, "view", None)
    if view is not None and view.error is not ErrorCode.NONE:
        return f"{view.error.name}, epoch {view.epoch}, leader {view.leader_id}"
    match response:
        case VoteResponse():
            return "yes" if response.granted else "no"
        case EpochResponse():
            return "ok"
        case FetchResponse(instead=Diverging(end)):
            return f"diverges, epoch {end.epoch} ends at {end.offset}"
        case FetchResponse(instead=NeedsSnapshot(snapshot)):
            return f"fetch snapshot {snapshot.end_offset}"
        case FetchResponse():
            what = "records" if response.records else "nothing"
            return f"{what}, high watermark {response.high_watermark}"
        case FetchSnapshotResponse():
            return f"{len(response.data)} of {response.size} bytes"
        case ChangeResponse():
            return response.error.name
        case _:
            return "ok"


def steps(text: str) -> Iterator[tuple[list[str], str, list[str]]]:
    """The (comments before it, step, expected lines) of each step of a script's text."""
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line]
        comments = [line for line in lines if line.startswith("#")]
        rest = [line for line in lines if not line.startswith("#")]
        if rest:
            yield comments, rest[0], rest[2:]
        elif comments:
            yield comments, "", []


def rewritten(text: str) -> str:
    """The script with the actual output of each step."""
    script = Script()
    blocks = []
    for comments, step, _ in steps(text):
        lines = list(comments)
        if step:
            found = script.run(step)
            lines += [step, "----", *found] if found else [step]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
