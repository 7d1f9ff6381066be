"""Random records, configurations and groups: the same decisions as those of Kafka Connect's own classes."""

import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.client.consuming.range_assignment import (
    assign_ranges,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from penstock.connect import ConfigInvalid, ConnectError, DataError, RetriableError, SourceRecord
from penstock.connect.configs.topic_creation import creation_groups
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks import consumer_group_id, task_transactional_id
from penstock.connect.tasks.error_reports import LogReport, context_headers, show_consumed
from penstock.connect.tasks.metrics import ErrorMetrics
from penstock.connect.tasks.settings import ErrorSettings
from penstock.connect.tasks.sinks.sink_topics import topics_of
from penstock.connect.tasks.sources.submitted_records import SubmittedRecords
from penstock.connect.tasks.tolerance import Attempt, Stage, Tolerance

pytestmark = [pytest.mark.kafka, pytest.mark.longer]

PROGRAM = Path(__file__).with_name("KafkaConnectTasks.java")
CASES = repetitions("PENSTOCK_CONNECT_TASK_CASES", gate=300, long=20_000)
STAGES = [stage.name for stage in Stage]
ERRORS: dict[str, type[Exception]] = {
    "retriable": RetriableError,
    "data": DataError,
    "config": ConfigInvalid,
    "connect": ConnectError,
    "other": ValueError,
}


class Clock:
    """A time that advances by the waits between attempts, and by what attempts take."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.waits: list[int] = []

    def __call__(self) -> float:
        return self.now_ms / 1000

    def wait(self, seconds: float) -> bool:
        self.waits.append(round(seconds * 1000))
        self.now_ms += self.waits[-1]
        return False


def retry_case(rng: random.Random) -> dict[str, Any]:
    def step() -> dict[str, Any]:
        kinds = ["retriable"] * 6 + list(ERRORS)
        errors = [rng.choice(kinds) for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 5]))]
        return {"stage": rng.choice(STAGES), "errors": errors, "takes": rng.choice([0, 0, 100, 3000])}

    return {
        "timeout": rng.choice([-1, 0, 0, 100, 1000, 10_000]),
        "delay": rng.choice([1, 10**12]),
        "tolerance": rng.choice(["none", "all"]),
        "records": [[step() for _ in range(rng.randrange(1, 4))] for _ in range(rng.randrange(1, 4))],
    }


def retried(case: dict[str, Any]) -> list[Any]:
    clock, metrics = Clock(), ErrorMetrics()
    settings = ErrorSettings(
        tolerance=case["tolerance"], retry_timeout_ms=case["timeout"], retry_delay_max_ms=case["delay"]
    )
    tolerance = Tolerance[str](settings, metrics, clock=clock, wait=clock.wait)
    results: list[Any] = []
    for record in case["records"]:
        attempt = Attempt("r")
        for step in record:
            result = run(tolerance, attempt, step, clock)
            results.append([result, attempt.error is not None, attempt.count])
    totals = {
        "total-errors-logged": metrics.logged,
        "total-record-errors": metrics.errors,
        "total-record-failures": metrics.failures,
        "total-records-skipped": metrics.skipped,
        "total-retries": metrics.retries,
    }
    return [results, clock.waits, totals, not tolerance.is_exceeded]


def run(tolerance: Tolerance[str], attempt: Attempt[str], step: dict[str, Any], clock: Clock) -> Any:
    left = list(step["errors"])

    def operation() -> str:
        clock.now_ms += step["takes"]
        if left:
            raise ERRORS[left.pop(0)]("m")
        return "done"

    try:
        return tolerance.run(attempt, Stage[step["stage"]], str, operation)
    except ConnectError as error:
        return [str(error), java_name(error.__cause__)]


def java_name(error: BaseException | None) -> str:
    names = {
        RetriableError: "org.apache.kafka.connect.errors.RetriableException",
        DataError: "org.apache.kafka.connect.errors.DataException",
        ConfigInvalid: "org.apache.kafka.common.config.ConfigException",
        ConnectError: "org.apache.kafka.connect.errors.ConnectException",
    }
    return names.get(type(error), "java.lang.IllegalStateException")  # type: ignore[arg-type]


def letter_case(rng: random.Random) -> dict[str, Any]:
    return {
        "connector": rng.choice(["c", "my-sink", "größe", "a b"]),
        "task": rng.randrange(20),
        "topic": rng.choice(["orders", "a.b", "x" * 50]),
        "partition": rng.randrange(100),
        "offset": rng.randrange(2**62),
        "timestamp": rng.randrange(2**42),
        "type": rng.choice(["CreateTime", "LogAppendTime", "NoTimestampType"]),
        "stage": rng.choice(STAGES),
        "error": rng.choice(["retriable", "data", "config", "connect"]),
        "message": rng.choice([None, "", "it broke", "größer\n", "\U0001f600"]),
        "include": rng.choice(["true", "false"]),
    }


def letter(case: dict[str, Any]) -> list[Any]:
    types = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
    record = ConsumedRecord(
        case["topic"],
        case["partition"],
        case["offset"],
        case["timestamp"],
        types[case["type"]],
        None,
        None,
        [("h", b"\1")],
    )
    attempt = Attempt(record)
    message = () if case["message"] is None else (case["message"],)
    attempt.fail(Stage[case["stage"]], str, ERRORS[case["error"]](*message))
    task_id = ConnectorTaskId(case["connector"], case["task"])

    def name(_plugin: type) -> str:
        return "org.apache.kafka.connect.json.JsonConverter"

    headers: list[tuple[str, bytes | None]] = [*record.headers, *context_headers(attempt, task_id, name)]
    shown = [
        [key, "trace" if key.endswith("stacktrace") else None if value is None else value.decode()]
        for key, value in headers
    ]
    show = show_consumed if case["include"] == "true" else None
    return [shown, LogReport(task_id, ErrorMetrics(), name, show).message(attempt)]


def submitted_case(rng: random.Random) -> list[list[Any]]:
    partitions: list[Any] = [{"f": "a"}, {"f": "b"}, {"f": 1}, {"g": None}, {}, {"f": "a", "g": True}]
    steps: list[list[Any]] = []
    count, may_withdraw = 0, False
    for number in range(rng.randrange(1, 60)):
        kind = rng.choices(["submit", "acknowledge", "withdraw", "take"], [6, 6, 1, 2])[0]
        if kind == "submit" or not count:
            partition = rng.choice(partitions)
            steps.append(["submit", partition, number])
            count, may_withdraw = count + 1, True
        elif kind == "acknowledge":
            steps.append(["acknowledge", rng.randrange(count)])
            may_withdraw = False
        elif kind == "withdraw":
            if may_withdraw:
                steps.append(["withdraw"])
            may_withdraw = False
        else:
            steps.append(["take"])
            may_withdraw = False
    return [*steps, ["take"]]


def submitted(steps: Sequence[Sequence[Any]]) -> list[Any]:
    records, every, found = SubmittedRecords(), [], []
    for kind, *given in steps:
        if kind == "submit":
            partition, number = given
            record = SourceRecord(topic="t", source_partition=partition, source_offset={"n": number})
            every.append(records.submit(record))
        elif kind == "acknowledge":
            every[given[0]].is_acknowledged = True
        elif kind == "withdraw":
            records.withdraw(every[-1])
        else:
            found.append([[partition, offset["n"]] for partition, offset in records.take()])
    return found


def creation_case(rng: random.Random) -> dict[str, Any]:
    config: dict[str, str] = {}
    groups = rng.sample(["one", "two", "default"], rng.randrange(4))
    patterns = ["a.*", "b", ".*c", "a, b", "[ab]+", "", "(a"]

    def settings(group: str, chance: float) -> None:
        for key, values in {
            "include": patterns,
            "exclude": patterns,
            "partitions": ["1", "5", "-1", "0", "x"],
            "replication.factor": ["1", "3", "-1", "-2"],
            "cleanup.policy": ["compact"],
            "retention.ms": ["1", ""],
        }.items():
            if rng.random() < chance:
                config[f"topic.creation.{group}.{key}"] = rng.choice(values[: rng.randrange(1, 8)])

    if rng.random() < 0.95:
        settings("default", 0.3)
        config |= {"topic.creation.default.partitions": "2", "topic.creation.default.replication.factor": "1"}
    for group in groups:
        settings(group, 0.5)
    if groups:
        config["topic.creation.groups"] = ",".join(groups)
    return {"config": config, "topics": ["a", "b", "abc", "xc", "bb", "z"]}


def creation(case: dict[str, Any]) -> Any:
    try:
        groups = creation_groups(case["config"])
    except ConfigInvalid:
        return "invalid"
    if not groups:
        return []
    found = [next((g for g in groups[:-1] if g.matches(topic)), groups[-1]) for topic in case["topics"]]
    return [[g.partitions, g.replication_factor, dict(sorted(g.configs.items()))] for g in found]


def topics_case(rng: random.Random) -> dict[str, str]:
    config = {}
    if rng.random() < 0.7:
        config["topics"] = rng.choice(["", " ", "a", "a,b", "a, b ,a"])
    if rng.random() < 0.4:
        config["topics.regex"] = rng.choice(["", "a.*", "[bc]", ".*"])
    if rng.random() < 0.6:
        config["errors.deadletterqueue.topic.name"] = rng.choice(["", "a", " b ", "dead"])
    return config


def topics(case: dict[str, str]) -> Any:
    try:
        topics_of(case)
    except ConfigInvalid as error:
        return {"error": str(error)}
    return ""


def assignment_case(rng: random.Random) -> dict[str, Any]:
    names = ["a", "b", "c-d", "é"]
    members = [f"m-{rng.randrange(1000):03}" for _ in range(rng.randrange(1, 6))]
    return {
        "members": {each: sorted(rng.sample(names, rng.randrange(1, 5))) for each in members},
        "partitions": {name: rng.randrange(1, 9) for name in names if rng.random() < 0.8},
    }


def assignment(case: dict[str, Any]) -> list[Any]:
    subscriptions = {member: encode_subscription(names) for member, names in case["members"].items()}
    wanted = {member: subscribed_topics(data) for member, data in subscriptions.items()}
    assigned = assign_ranges(wanted, case["partitions"])
    for partitions in assigned.values():
        assert decode_assignment(encode_assignment(partitions)) == sorted(partitions)
    shown = {
        member: [sorted(map(list, partitions)), encode_assignment(partitions).hex()]
        for member, partitions in sorted(assigned.items())
    }
    return [shown, [data.hex() for data in subscriptions.values()]]


def ids_case(rng: random.Random) -> list[Any]:
    return [rng.choice(["workers", "a-b"]), rng.choice(["c", "my-sink", "größe"]), rng.randrange(20)]


def ids(case: list[Any]) -> list[str]:
    group_id, connector, number = case
    task_id = ConnectorTaskId(connector, number)
    return [task_transactional_id(group_id, task_id), consumer_group_id(connector), str(task_id)]


VERBS: dict[str, tuple[Callable[[random.Random], Any], Callable[[Any], Any]]] = {
    "retry": (retry_case, retried),
    "letter": (letter_case, letter),
    "submitted": (submitted_case, submitted),
    "creation": (creation_case, creation),
    "topics": (topics_case, topics),
    "assign": (assignment_case, assignment),
    "ids": (ids_case, ids),
}


@pytest.fixture(scope="module")
def answers(kafka_libs: Path) -> dict[str, list[tuple[Any, Any]]]:
    """The cases of each kind, each with Kafka's answer, from one run of the program."""
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    cases = [(verb, make(rng)) for verb, (make, _) in VERBS.items() for _ in range(CASES)]
    text = "".join(json.dumps(case) + "\n" for case in cases)
    answered = run_java(kafka_libs, str(PROGRAM), text=text, timeout_s=600).splitlines()
    found: dict[str, list[tuple[Any, Any]]] = {verb: [] for verb in VERBS}
    for (verb, case), line in zip(cases, answered, strict=True):
        found[verb].append((case, json.loads(line)))
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_random_cases(answers: dict[str, list[tuple[Any, Any]]], verb: str) -> None:
    decide = VERBS[verb][1]
    for case, expected in answers[verb]:
        assert normal(verb, decide(case)) == normal(verb, expected), case


def normal(verb: str, answer: Any) -> Any:
    """Leave out the order of maps, and the texts of some errors."""
    if verb == "creation" and isinstance(answer, dict):
        return "invalid"
    if verb == "submitted":
        return [sorted(json.dumps(pair) for pair in pairs) for pairs in answer]
    if verb == "assign":
        # The order of topics in the bytes is that of Java's maps.
        assigned, subscriptions = answer
        decoded = {m: sorted(decode_assignment(bytes.fromhex(data))) for m, (_, data) in assigned.items()}
        return [
            {member: sorted(map(tuple, each)) for member, (each, _) in assigned.items()},
            decoded,
            subscriptions,
        ]
    return answer
