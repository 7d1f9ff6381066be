"""Random histories of a worker's topics: the same records and states as Kafka Connect's own stores."""

import base64
import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from connect_jvm import (
    ConnectJvm,
    seeded,
    shown_change,
    shown_config,
    shown_status,
    shown_topic,
)
from connect_records import CONNECTORS, STATES, config_records, offset_records, properties, status_records

from long_run import repetitions
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import FetchConfig, Fetcher, PartitionRange
from penstock.client.reading.offsets import LATEST, list_offsets
from penstock.connect.data.json_text import from_json, to_json
from penstock.connect.errors import DataError
from penstock.connect.stores import (
    Change,
    ConfigStore,
    ConnectorOffsets,
    OffsetStore,
    OffsetWriter,
    RestartRequest,
    SessionKey,
    State,
    Status,
    StatusStore,
    TargetState,
    TopicStatus,
    config_topic,
    leader_transactional_id,
    offset_topic,
    status_topic,
)
from penstock.connect.stores.configs.image import ConfigImage
from penstock.connect.stores.offsets.image import OffsetImage, distinct
from penstock.connect.stores.statuses.image import StatusImage
from penstock.connect.task_id import ConnectorTaskId
from penstock.protocol.records import decode_batches
from penstock.testing import Cluster as Node

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

HISTORIES = repetitions("PENSTOCK_CONNECT_HISTORIES", gate=40, long=2_000)
VALUES = repetitions("PENSTOCK_CONNECT_VALUES", gate=2_000, long=100_000)
OPERATIONS = repetitions("PENSTOCK_CONNECT_OPERATIONS", gate=25, long=600)
LIMIT_S = 60.0
LEADING_ZERO = re.compile(r"(?<![\w.])0\d")
OFFSET_CONNECTORS = ("a", "b-c", 'é"')


@pytest.fixture(scope="module")
def jvm(kafka_libs: Path, penstock_cluster: Node) -> Iterator[ConnectJvm]:
    with ConnectJvm(kafka_libs, penstock_cluster.bootstrap_servers) as started:
        yield started


@pytest.fixture
def config(penstock_cluster: Node) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": penstock_cluster.bootstrap_servers})


@pytest.fixture
def rng() -> random.Random:
    return seeded()


# Records, without a cluster


def replayed_config(records: Sequence[tuple[str, str | None]]) -> list[Any]:
    image = ConfigImage()
    changes: list[Change] = []
    for offset, (key, value) in enumerate(records):
        change = image.replay(key.encode(), encoded(value), offset)
        if change is not None:
            changes.append(change)
    return [shown_config(image.snapshot()), [shown_change(change) for change in changes]]


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def test_config_records(jvm: ConnectJvm, rng: random.Random) -> None:
    for _ in range(HISTORIES):
        records = config_records(rng, rng.randrange(1, 60))
        assert replayed_config(records) == jvm.ask("replay-configs", records), records


def dumped(image: StatusImage | StatusStore) -> list[Any]:
    connectors = {name: image.get(name) for name in image.connectors()}
    tasks: dict[ConnectorTaskId, Status] = {}
    topics: dict[str, Any] = {}
    for name in set(CONNECTORS):
        tasks |= image.tasks(name)
        topics |= {f"{name}/{each.topic}": shown_topic(each) for each in image.topics(name).values()}
    return [
        {name: shown_status(status) for name, status in connectors.items() if status is not None},
        {str(task): shown_status(status) for task, status in tasks.items()},
        topics,
    ]


def test_status_records(jvm: ConnectJvm, rng: random.Random) -> None:
    for _ in range(HISTORIES):
        records = status_records(rng, rng.randrange(1, 60))
        image = StatusImage()
        for key, value in records:
            image.replay(0, key.encode(), encoded(value))
        assert dumped(image) == jvm.ask("replay-statuses", records), records


def test_offset_records(jvm: ConnectJvm, rng: random.Random) -> None:
    for _ in range(HISTORIES):
        records = offset_records(rng, rng.randrange(1, 60))
        image = OffsetImage()
        for key, value in records:
            image.replay(0, key.encode(), encoded(value))
        data, partitions = jvm.ask("replay-offsets", records)
        assert {key: text(image.get(key.encode())) for key, _ in records if key in data} == data
        assert not [key for key, _ in records if key not in data and image.get(key.encode()) is not None]
        for name in OFFSET_CONNECTORS:
            same_partitions(distinct(image.keys(name)), partitions.get(name, []))


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def same_partitions(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    assert sorted(map(repr, map(sorted_items, ours))) == sorted(map(repr, map(sorted_items, theirs)))


def sorted_items(partition: dict[str, Any]) -> list[Any]:
    return sorted(partition.items())


# JSON


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.choice((0, -1, 7, 1 << 31, (1 << 63) - 1, -(1 << 63))),
        # Few digits, since Java before 19 prints some doubles with more digits than they need (JDK-4511638).
        lambda: rng.randrange(-99, 100) * 10.0 ** rng.randrange(-3, 9),
        lambda: "".join(rng.choices(' "\\/\b\f\n\r\t\x00\x1f\x7fé€😀<&', k=rng.randrange(6))),
        lambda: {"bytes": base64.b64encode(rng.randbytes(rng.randrange(9))).decode()},
        lambda: [random_value(rng, depth + 1) for _ in range(rng.randrange(3))],
        lambda: {
            rng.choice(("b", "a", "é", '"', "😀\x02")): random_value(rng, depth + 1)
            for _ in range(rng.randrange(4))
        },
    )
    return rng.choice(kinds if depth < 3 else kinds[:6])()


def with_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        if "bytes" in value:
            return base64.b64decode(value["bytes"])
        return {name: with_bytes(each) for name, each in value.items()}
    return [with_bytes(each) for each in value] if isinstance(value, list) else value


def test_values_have_the_text_of_the_converter(jvm: ConnectJvm, rng: random.Random) -> None:
    values = [random_value(rng) for _ in range(VALUES)]
    ours = [text(to_json(with_bytes(value))) for value in values]
    assert ours == jvm.ask("texts", values)


def test_texts_have_the_values_of_the_converter(jvm: ConnectJvm, rng: random.Random) -> None:
    texts = []
    for _ in range(VALUES):
        written = (to_json(random_value(rng)) or b"null").decode()
        # Jackson refuses half a surrogate pair, an exponent of many digits, and text behind a number or word
        # that stands alone, and Connect lets it accept leading zeros. No store writes such records.
        is_tame = written[0] in '{["' and "\\uD83D" not in written and "E" not in written
        if is_tame and rng.random() < 0.5:
            position = rng.randrange(1, len(written) + 1)
            other = rng.choice(("", " ", "1", ".", ",", '"', "{", "]", "NaN", "-", "\n", "9" * 20, "\\"))
            written = written[:position] + other + written[position + rng.randrange(2) :]
        if not LEADING_ZERO.search(written):
            texts.append(written)
    for written, theirs in zip(texts, jvm.ask("parse", texts), strict=True):
        try:
            ours = ["ok", from_json(written.encode())]
        except DataError:
            ours = ["refused"]
        assert repr(ours) == repr(in_order(theirs, ours)), written


def in_order(theirs: Any, ours: Any) -> Any:
    """Their value with the keys of mappings in our order: Java's HashMap has another one."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        return {name: in_order(theirs[name], ours[name]) for name in ours}
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [in_order(one, other) for one, other in zip(theirs, ours, strict=True)]
    return theirs


# Live stores on the same topics


def log_of(
    config: ClientConfig, topic: str, partitions: int
) -> list[list[tuple[bytes | None, bytes | None]]]:
    """The committed records of each partition."""
    with Cluster(config) as cluster:
        tps = [TopicPartition(topic, number) for number in range(partitions)]
        ends = list_offsets(cluster, dict.fromkeys(tps, LATEST))
        found: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = {tp: [] for tp in tps}
        fetcher = Fetcher(cluster, FetchConfig(isolation_level="read_committed"))
        ranges = [PartitionRange(topic, tp.partition, 0, ends[tp].offset) for tp in tps]
        for fetched in fetcher.read([each for each in ranges if each.end]):
            found[fetched.range.topic_partition] += [
                (record.key, record.value) for record in decode_batches(fetched.batches)
            ]
        fetcher.close()
        return [found[tp] for tp in tps]


def config_operation(rng: random.Random) -> list[Any]:
    """A random command for the program, without the store's name."""
    name = rng.choice(("a", "b-c", "é"))
    commands: tuple[list[Any], ...] = (
        ["connector", name, properties(rng), rng.choice((None, None, *STATES))],
        ["tasks", name, [properties(rng) for _ in range(rng.randrange(4))]],
        ["state", name, rng.choice(STATES)],
        ["remove", name],
        ["count", name, rng.randrange(5)],
        ["key", base64.b64encode(rng.randbytes(32)).decode(), "HmacSHA256", rng.randrange(1 << 41)],
        ["restart", name, rng.random() < 0.5, rng.random() < 0.5],
        ["level", f"org.{name}", "DEBUG"],
    )
    return rng.choices(commands, (8, 10, 5, 2, 3, 1, 2, 1))[0]


def operate(store: ConfigStore, verb: str, *words: Any) -> None:
    match verb:
        case "connector":
            name, found, state = words
            store.put_connector_config(name, found, None if state is None else TargetState[state])
        case "tasks":
            store.put_task_configs(*words)
        case "state":
            store.put_target_state(words[0], TargetState[words[1]])
        case "remove":
            store.remove_connector_config(*words)
        case "count":
            store.put_task_count_record(*words)
        case "key":
            store.put_session_key(SessionKey(base64.b64decode(words[0]), words[1], words[2]))
        case "restart":
            store.put_restart_request(RestartRequest(*words))
        case "level":
            store.put_logger_level(*words)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_config_topic_of_two_workers(
    jvm: ConnectJvm, config: ClientConfig, rng: random.Random, exactly_once: bool
) -> None:
    """One topic is Java's, one ours, with the same operations, and a third one is written by both in turn."""
    java, shared, group = (f"connect-{uuid.uuid4().hex}" for _ in range(3))
    for name in (java, shared):
        jvm.ask("open", name, f"{group}-{name}", exactly_once)
    changes: list[Change] = []

    def opened(name: str) -> ConfigStore:
        identity = leader_transactional_id(f"{group}-{name}") if exactly_once else None
        listener = changes.append if name == shared else (lambda _: None)
        store = ConfigStore(config, config_topic(f"{name}-config"), listener, transactional_id=identity)
        store.start(LIMIT_S)
        return store

    own = f"{java}-ours"
    ours, both = opened(own), opened(shared)
    try:
        jvm.ask("config-claim", java)
        ours.claim_write_privileges()
        writes_here: bool | None = None
        for _ in range(OPERATIONS):
            verb, *words = config_operation(rng)
            jvm.ask(f"config-{verb}", java, *words)
            operate(ours, verb, *words)
            here = rng.random() < 0.5
            if here != writes_here and exactly_once:
                # The other one was fenced, and so was its transaction.
                both = take_over(jvm, shared, both, here, lambda: opened(shared))
            writes_here = here
            if here:
                operate(both, verb, *words)
            else:
                jvm.ask(f"config-{verb}", shared, *words)
        theirs = log_of(config, f"{java}-config", 1)
        assert log_of(config, f"{own}-config", 1) == theirs
        assert log_of(config, f"{shared}-config", 1) == theirs
        assert shown_config(ours.snapshot()) == jvm.ask("config-snapshot", java)
        both.refresh(LIMIT_S)
        assert shown_config(both.snapshot()) == jvm.ask("config-snapshot", shared)
        if not exactly_once:
            assert [shown_change(change) for change in changes] == jvm.ask("config-events", shared)
    finally:
        ours.close()
        both.close()


def take_over(
    jvm: ConnectJvm, name: str, store: ConfigStore, here: bool, opened: Callable[[], ConfigStore]
) -> ConfigStore:
    """Let the other writer claim the topic. The former one finds out at its next write, as leaders do."""
    if here:
        store.close()
        store = opened()
        store.claim_write_privileges()
    else:
        jvm.attempt("config-key", name, "AAAA", "x", 1)  # fails if it was fenced, which ends its claim
        jvm.ask("config-claim", name)
    return store


def test_offset_topic_of_two_workers(jvm: ConnectJvm, config: ClientConfig, rng: random.Random) -> None:
    java, shared = (f"connect-{uuid.uuid4().hex}" for _ in range(2))
    for name in (java, shared):
        jvm.ask("open", name, name, False)
    ours = OffsetStore(config, offset_topic(f"{java}-ours", 3))
    both = OffsetStore(config, offset_topic(f"{shared}-offset", 3))
    for store in (ours, both):
        store.start(LIMIT_S)
    try:
        for _ in range(OPERATIONS):
            connector = rng.choice(OFFSET_CONNECTORS)
            written = [
                ({"file": f"f{rng.randrange(5)}", "n": 1}, rng.choice((None, {"at": rng.randrange(9)})))
                for _ in range(rng.randrange(1, 4))
            ]
            jvm.ask("offset-write", java, connector, written)
            write_offsets(ours, connector, written)
            if rng.random() < 0.5:
                write_offsets(both, connector, written)
            else:
                jvm.ask("offset-write", shared, connector, written)
            both.refresh(LIMIT_S)
            asked = [{"file": f"f{number}", "n": 1} for number in range(6)]
            read = ConnectorOffsets(connector, both).offsets(asked)
            assert read == jvm.ask("offset-read", shared, connector, asked)
        ours.refresh(LIMIT_S)
        theirs = by_key(log_of(config, f"{java}-offset", 3))
        assert by_key(log_of(config, f"{java}-ours", 3)) == theirs
        assert by_key(log_of(config, f"{shared}-offset", 3)) == theirs
        for store, name in ((ours, java), (both, shared)):
            data, partitions = jvm.ask("offset-dump", name)
            assert {key: text(store.get([key.encode()]).get(key.encode())) for key in data} == data
            for connector in OFFSET_CONNECTORS:
                same_partitions(list(store.keys(connector).values()), partitions.get(connector, []))
    finally:
        ours.close()
        both.close()


def by_key(
    log: Sequence[Sequence[tuple[bytes | None, bytes | None]]],
) -> list[dict[bytes | None, list[bytes | None]]]:
    """The values of each key in each partition: a flush has no order between keys (Java's HashMap)."""
    found: list[dict[bytes | None, list[bytes | None]]] = []
    for records in log:
        values: dict[bytes | None, list[bytes | None]] = {}
        for key, value in records:
            values.setdefault(key, []).append(value)
        found.append(values)
    return found


def write_offsets(store: OffsetStore, connector: str, written: Sequence[tuple[Any, Any]]) -> None:
    writer = OffsetWriter(ConnectorOffsets(connector, store))
    for partition, offset in written:
        writer.add(partition, offset)
    assert writer.flush()


def test_status_topic_of_two_workers(jvm: ConnectJvm, config: ClientConfig, rng: random.Random) -> None:
    java, shared = (f"connect-{uuid.uuid4().hex}" for _ in range(2))
    for name in (java, shared):
        jvm.ask("open", name, name, False)
    ours = StatusStore(config, status_topic(f"{java}-ours", 1))
    both = StatusStore(config, status_topic(f"{shared}-status", 1))
    for store in (ours, both):
        store.start(LIMIT_S)
    try:
        for _ in range(OPERATIONS):
            verb, *words = status_operation(rng)
            for store, name in ((ours, java), (both, shared)):
                here, there = (True, True) if store is ours else rng.choice(((True, False), (False, True)))
                if here:
                    put_status(store, verb, *words)
                    store.flush(LIMIT_S)
                if there:
                    jvm.ask(f"status-{verb}", name, *words)
                store.refresh(LIMIT_S)
                jvm.ask("status-dump", name)
        theirs = log_of(config, f"{java}-status", 1)
        assert log_of(config, f"{java}-ours", 1) == theirs
        assert dumped(ours) == jvm.ask("status-dump", java)
        assert dumped(both) == jvm.ask("status-dump", shared)
    finally:
        ours.close()
        both.close()


def status_operation(rng: random.Random) -> list[Any]:
    name = rng.choice(("a", "b-c", "é"))
    if rng.random() < 0.2:
        verb = rng.choice(("topic", "topic", "forget"))
        return [verb, rng.choice(("t", "u.v")), name, rng.randrange(3), rng.randrange(1 << 41)]
    states = ("RUNNING", "RUNNING", "UNASSIGNED", "FAILED", "PAUSED", "STOPPED", "DESTROYED")
    status = [rng.choice(states), rng.choice(("w1:1", "w2:1")), rng.randrange(1, 5)]
    texts = [rng.choice((None, "at x\n\tat y")), rng.choice((None, "1.0"))]
    return ["put", rng.random() < 0.5, name, rng.choice((None, 0, 1)), *status, *texts]


def put_status(store: StatusStore, verb: str, *words: Any) -> None:
    match verb:
        case "topic":
            store.put_topic(TopicStatus(*words))
        case "forget":
            store.delete_topic(words[1], words[0])
        case "put":
            is_safe, name, task, state, worker, generation, trace, version = words
            subject = name if task is None else ConnectorTaskId(name, task)
            status = Status(State[state], worker, generation, trace, version)
            (store.put_safe if is_safe else store.put)(subject, status)
