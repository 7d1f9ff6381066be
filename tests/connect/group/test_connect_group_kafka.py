"""Random groups of Connect's workers: the same bytes, assignments and signatures as Kafka's own classes."""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.connect.errors import DataError
from penstock.connect.group.assignment import (
    Assignment,
    Configured,
    ConnectProtocol,
    Generations,
    WorkerState,
)
from penstock.connect.group.leading import GroupLeader
from penstock.connect.group.protocol import (
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)
from penstock.connect.group.session_keys import (
    ALGORITHM_HEADER,
    ALGORITHMS,
    SIGNATURE_HEADER,
    RequestNotAuthentic,
    SessionKey,
    check,
    sign,
)
from penstock.connect.task_id import ConnectorTaskId

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

MESSAGES = repetitions("PENSTOCK_CONNECT_MESSAGES", gate=1_000, long=100_000)
HISTORIES = repetitions("PENSTOCK_CONNECT_HISTORIES", gate=60, long=3_000)
HISTORIES_AT_ONCE = 250
ROUNDS = 30
LETTERS = "abcXYZ019-_. é€𝄞\uff5e"
DELAYS_MS = (0, 1, 2, 39, 40, 41, 999, 1_000, 1_600, 5_000, 60_000, 64_000, 300_000, 2**31 - 1)


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def kafkas_answers(libs: Path, scratch: Path, commands: Sequence[Sequence[object]]) -> list[str]:
    file = scratch / "commands"
    file.write_text("".join("\t".join(map(str, words)) + "\n" for words in commands))
    source = Path(__file__).with_name("KafkaConnectGroup.java")
    answers = run_java(libs, str(source), str(file), timeout_s=500).split("\n")[:-1]
    assert len(answers) == len(commands)
    return answers


def hexed(text: str) -> str:
    return text.encode().hex()


def tasks_text(tasks: Sequence[ConnectorTaskId]) -> str:
    return " ".join(f"{hexed(connector)}:{task}" for connector, task in tasks)


def described(found: Assignment) -> list[str]:
    """The words by which the Java program names the fields after the version."""
    return [
        *(str(found.error), hexed(found.leader), hexed(found.leader_url), str(found.config_offset)),
        *(" ".join(map(hexed, found.connectors)), tasks_text(found.tasks)),
        *(" ".join(map(hexed, found.revoked_connectors)), tasks_text(found.revoked_tasks)),
        str(found.delay_ms),
    ]


def random_name(rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randint(1, 8)))


def random_assignment(rng: random.Random, version: int) -> Assignment:
    names = [random_name(rng) for _ in range(rng.choice((0, 1, 3, 20)))]

    def some_names() -> tuple[str, ...]:
        return tuple(rng.choices(names, k=rng.randint(0, 15))) if names else ()

    def some_tasks() -> tuple[ConnectorTaskId, ...]:
        return tuple(ConnectorTaskId(name, rng.choice((0, 1, 2, 7, 2**31 - 1))) for name in some_names())

    return Assignment(
        *(version, rng.choice((0, 0, 1, -1)), random_name(rng), random_name(rng), rng.randint(-1, 2**63 - 1)),
        *(some_names(), some_tasks(), some_names(), some_tasks(), rng.choice((0, 5, 300_000, 2**31 - 1))),
    )


def test_states_and_assignments_have_kafkas_bytes(
    kafka_libs: Path, tmp_path: Path, rng: random.Random
) -> None:
    commands, expected = [], []
    for _ in range(MESSAGES):
        protocol = rng.choice(list(ConnectProtocol))
        held = random_assignment(rng, protocol.version) if rng.random() < 0.8 else None
        state = WorkerState(random_name(rng), rng.randint(-1, 2**63 - 1), held)
        words = ["encode", protocol.version, hexed(state.url), state.config_offset]
        encoded = [encode_state(state, protocol)]
        if held is not None:
            words += described(held)
            encoded.append(encode_assignment(held, protocol))
        commands.append(words)
        expected.append("\t".join(data.hex() for data in encoded))
    assert kafkas_answers(kafka_libs, tmp_path, commands) == expected


def answer_to_state(data: bytes) -> str:
    try:
        state = decode_state(data)
    except DataError:
        return "refused"
    words = [hexed(state.url), str(state.config_offset)]
    if state.assignment is not None:
        words += [str(state.assignment.version), *described(state.assignment)]
    return "\t".join(words)


def answer_to_assignment(data: bytes) -> str:
    try:
        found = decode_assignment(data)
    except DataError:
        return "refused"
    return "\t".join([str(found.version), *described(found)])


def spoiled(rng: random.Random, data: bytes) -> bytes:
    """The same bytes, cut, continued, or with some changed."""
    fate = rng.choice(("whole", "cut", "cut", "longer", "changed", "changed"))
    if fate == "cut":
        return data[: rng.randint(0, len(data))]
    if fate == "longer":
        return data + rng.randbytes(3)
    if fate == "changed":
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(data))] = rng.choice((0, 0, 1, 2, 3, 255))
        return bytes(changed)
    return data


def is_readable(answer: str) -> bool:
    """Whether all strings were UTF-8: the two languages replace invalid bytes differently."""
    return hexed("\ufffd") not in answer


def test_both_read_the_same_from_spoiled_bytes(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    commands, ours = [], []
    readers: dict[str, Callable[[bytes], str]] = {
        "state": answer_to_state,
        "assignment": answer_to_assignment,
    }
    for _ in range(MESSAGES):
        protocol = rng.choice(list(ConnectProtocol))
        held = random_assignment(rng, protocol.version)
        data = {
            "state": encode_state(WorkerState(random_name(rng), rng.randint(-1, 9), held), protocol),
            "assignment": encode_assignment(held, protocol),
        }
        for what, read in readers.items():
            received = spoiled(rng, data[what])
            commands.append(("decode", what, received.hex()))
            ours.append(read(received))
    kafkas = kafkas_answers(kafka_libs, tmp_path, commands)
    compared = [(own, other) for own, other in zip(ours, kafkas, strict=True) if is_readable(own + other)]
    assert [own for own, _ in compared] == [other for _, other in compared]
    refusals = sum(own == "refused" for own, _ in compared)
    assert len(compared) / 10 < refusals < len(compared) * 9 / 10


@dataclass
class Worker:
    """A worker of a simulated group; *leading* keeps what it remembers as a leader."""

    name: str
    leading: GroupLeader
    config_offset: int = 0
    held: Assignment | None = None
    last_completed: int = -1


@dataclass
class History:
    """A group whose workers and connectors change at random, and the commands that repeat it in Java."""

    rng: random.Random
    number: int
    max_delay_ms: int
    protocol: ConnectProtocol
    now_ms: int = 1_700_000_000_000
    generation: int = 0
    configs: Configured = field(default_factory=lambda: Configured(0, {}))
    older_configs: Configured = field(default_factory=lambda: Configured(0, {}))
    workers: dict[str, Worker] = field(default_factory=dict)
    gone: list[Worker] = field(default_factory=list)
    commands: list[list[object]] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    due_ms: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    """How many rebalances had which effects."""

    def join(self) -> None:
        name = f"connect-127.0.0.1:{self.rng.randint(8080, 8090)}-{self.rng.randbytes(8).hex()}"
        if self.rng.random() < 0.1:
            name = random_name(self.rng) + name
        leading = GroupLeader(lambda: self.configs, self.max_delay_ms, lambda: self.now_ms)
        self.workers[name] = Worker(name, leading)
        self._command(["worker", f"{self.number}/{hexed(name)}", self.max_delay_ms], "")

    def change(self) -> None:
        """Let workers leave and return, with or without their work, and let time pass."""
        rng = self.rng
        for worker in list(self.workers.values()):
            if rng.random() < 0.08:
                self.gone.append(self.workers.pop(worker.name))
        for worker in list(self.gone):
            if rng.random() < 0.3:
                self.gone.remove(worker)
                if rng.random() < 0.7:
                    worker.held = None
                self.workers[worker.name] = worker
        while not self.workers or (len(self.workers) < 30 and rng.random() < 0.2):
            self.join()
        self.now_ms += rng.choice((0, 1, 39, 40, 1_000, 60_000, self.max_delay_ms // 2, self.max_delay_ms))
        if rng.random() < 0.4 and self.due_ms > self.now_ms:
            self.now_ms = self.due_ms

    def configure(self) -> None:
        """Add, remove and resize connectors."""
        self.older_configs = self.configs
        tasks = dict(self.configs.tasks)
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2, 5))):
            name = self.rng.choice([*tasks, random_name(self.rng), random_name(self.rng)])
            if name in tasks and self.rng.random() < 0.6:
                del tasks[name]
            else:
                count = self.rng.choice((0, 1, 2, 5, 20))
                tasks[name] = [ConnectorTaskId(name, task) for task in range(count)]
        if tasks != self.configs.tasks:
            self.configs = Configured(self.configs.offset + self.rng.randint(1, 3), tasks)

    def rebalance(self) -> None:
        rng = self.rng
        self.generation += rng.choice((1, 1, 1, 1, 2))
        members = rng.sample(list(self.workers.values()), len(self.workers))
        leader = next((w for w in members if rng.random() < 0.8 and w.last_completed > 0), members[0])
        for worker in members:
            worker.config_offset = self.configs.offset
        known = self.configs
        if rng.random() < 0.1:
            known = self.older_configs
            leader.config_offset = known.offset
        if rng.random() < 0.05:
            members[-1].config_offset += 1  # it has read a record that the leader hasn't
        metadata = {
            worker.name: encode_state(
                WorkerState(f"http://{worker.name}/", worker.config_offset, worker.held), self.protocol
            )
            for worker in members
        }
        generations = Generations(self.generation, leader.last_completed)
        assignments = leader.leading.assign(self.protocol, leader.name, generations, metadata, known)
        hexes = {hexed(member): data.hex() for member, data in assignments.items()}
        answer = ", ".join(f"{member}={data}" for member, data in sorted(hexes.items()))
        self._command(
            [
                *("round", f"{self.number}/{hexed(leader.name)}", self.protocol.protocol_name),
                *(hexed(leader.name), *generations, self.now_ms, configs_text(known)),
                configs_text(self.configs),
                " ".join(f"{hexed(member)}={data.hex()}" for member, data in metadata.items()),
            ],
            f"{{{answer}}}",
        )
        received = {member: decode_assignment(data) for member, data in assignments.items()}
        self._count(list(received.values()))
        for worker in members:
            if rng.random() < 0.95:
                self._receive(worker, received[worker.name])

    def _count(self, received: Sequence[Assignment]) -> None:
        self.seen["delayed"] += any(each.delay_ms for each in received)
        self.seen["revoking"] += any(each.revokes for each in received)
        self.seen["failed"] += any(each.is_failed for each in received)
        self.seen["assigning"] += any(each.tasks for each in received)

    def _receive(self, worker: Worker, assignment: Assignment) -> None:
        worker.held = assignment.with_kept(worker.held)
        worker.last_completed = self.generation
        self.due_ms = self.now_ms + assignment.delay_ms
        if self.rng.random() < 0.03:  # a worker that did not stop what was revoked
            worker.held = replace(
                worker.held,
                connectors=(*worker.held.connectors, *assignment.revoked_connectors),
                tasks=(*worker.held.tasks, *assignment.revoked_tasks),
            )

    def _command(self, words: list[object], answer: str) -> None:
        self.commands.append(words)
        self.expected.append(answer)


def configs_text(configs: Configured) -> str:
    counts = [f"{hexed(name)}={len(tasks)}" for name, tasks in configs.tasks.items()]
    return " ".join([str(configs.offset), *counts])


def random_history(rng: random.Random, number: int) -> History:
    protocol = rng.choices(list(ConnectProtocol), (1, 4, 4))[0]
    history = History(rng, number, rng.choice(DELAYS_MS), protocol)
    for _ in range(ROUNDS):
        history.change()
        history.configure()
        for _ in range(rng.randint(1, 3)):
            history.rebalance()
    return history


def test_both_assign_the_same_in_random_histories(
    kafka_libs: Path, tmp_path: Path, rng: random.Random
) -> None:
    seen: Counter[str] = Counter()
    for first in range(0, HISTORIES, HISTORIES_AT_ONCE):
        numbers = range(first, min(first + HISTORIES_AT_ONCE, HISTORIES))
        histories = [random_history(rng, number) for number in numbers]
        commands = [words for history in histories for words in history.commands]
        kafkas = iter(kafkas_answers(kafka_libs, tmp_path, commands))
        for history in histories:
            for words, expected in zip(history.commands, history.expected, strict=True):
                assert next(kafkas) == expected, (history.max_delay_ms, history.protocol, words)
            seen += history.seen
    assert seen.keys() == {"delayed", "revoking", "failed", "assigning"}, seen
    assert min(seen.values()) > HISTORIES, seen


def test_both_sign_the_same(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    commands: list[Sequence[object]] = []
    ours = []
    for algorithm in [*ALGORITHMS, "hmacsha256"]:
        for size in (1, 20, 32, 64, 200):
            key = SessionKey("HmacSHA256", rng.randbytes(size), 0)
            body = rng.randbytes(rng.choice((0, 1, 100, 1000)))
            commands.append(("sign", algorithm, key.key.hex(), body.hex()))
            ours.append(sign(key, body, algorithm)[SIGNATURE_HEADER])
    for algorithm in ALGORITHMS:
        commands.append(("key", algorithm))
        ours.append(str(len(SessionKey.generate(algorithm, None, 0).key)))
    assert kafkas_answers(kafka_libs, tmp_path, commands) == ours


def test_both_accept_the_same_signatures(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    commands, ours = [], []
    for _ in range(300):
        key, body = SessionKey("HmacSHA256", rng.randbytes(32), 0), rng.randbytes(50)
        algorithm = rng.choice((*ALGORITHMS, "hmacSHA256", "HmacSHA", "none", ""))
        signature = sign(key, body, "HmacSHA256" if algorithm.lower() == "hmacsha256" else "HmacSHA1")
        text = spoiled_text(rng, signature[SIGNATURE_HEADER])
        commands.append(("check", algorithm, text, key.key.hex(), body.hex()))
        headers = {SIGNATURE_HEADER: text, ALGORITHM_HEADER: algorithm}
        try:
            check(headers, body, key, [algorithm])
        except RequestNotAuthentic as error:
            ours.append("false" if error.status == 403 else str(error.status))
        else:
            ours.append("true")
    kafkas = [answer.split(" ")[0] for answer in kafkas_answers(kafka_libs, tmp_path, commands)]
    assert kafkas == ours
    assert {"true", "false", "400"} == set(ours)


def spoiled_text(rng: random.Random, text: str) -> str:
    fate = rng.randrange(4)
    if fate == 0:
        at = rng.randrange(len(text) + 1)
        return text[:at] + rng.choice(("", "=", "A", "-", " ", "\u00e9")) + text[at + 1 :]
    return text.rstrip("=") if fate == 1 else text
