"""The stores on real nodes of ours: several writers, fencing, failures, and reading to the end."""

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FuturesTimeout
from dataclasses import replace

import pytest

from penstock.client.admin.topics import NewTopic, create_topics, delete_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.producing.delivery import Transaction
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.client.producing.transactor import Transactor
from penstock.connect.errors import ConfigInvalid, ConnectError
from penstock.connect.stores import (
    Change,
    ConfigStore,
    ConnectorOffsets,
    ConnectorUpdated,
    OffsetStore,
    OffsetWriter,
    PrivilegedWriteError,
    State,
    Status,
    StatusStore,
    TargetState,
    config_topic,
    leader_transactional_id,
    offset_topic,
    status_topic,
)
from penstock.connect.stores.offsets.keys import Partition, key_of
from penstock.connect.stores.topics import InternalTopic, require_topic
from penstock.connect.task_id import ConnectorTaskId
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster as Node
from waiting import wait_until

LIMIT_S = 60.0
CONFIG = {"name": "c", "connector.class": "x"}
RUNNING = Status(State.RUNNING, "w1:8083", 3)


@pytest.fixture
def config(penstock_cluster: Node) -> ClientConfig:
    return config_of(penstock_cluster)


def config_of(node: Node) -> ClientConfig:
    properties = {"bootstrap.servers": node.bootstrap_servers, "retry.backoff.ms": "20"}
    return ClientConfig.from_properties(properties)


@pytest.fixture
def name() -> str:
    return f"connect-{uuid.uuid4().hex}"


Opened = Callable[..., ConfigStore]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Makes started config stores, and closes them."""
    stores: list[ConfigStore] = []

    def make(
        config: ClientConfig, name: str, *words: Callable[[Change], None], **settings: str
    ) -> ConfigStore:
        store = ConfigStore(config, config_topic(name), *words, **settings)  # type: ignore[arg-type]
        stores.append(store)
        store.start(LIMIT_S)
        return store

    yield make
    for store in stores:
        store.close()


def started(config: ClientConfig, name: str, partitions: int = 3) -> OffsetStore:
    store = OffsetStore(config, offset_topic(name, partitions), write_timeout_s=LIMIT_S)
    store.start(LIMIT_S)
    return store


# Configurations


def test_two_workers_see_each_others_writes(config: ClientConfig, name: str, opened: Opened) -> None:
    changes: list[Change] = []
    one, two = opened(config, name), opened(config, name, changes.append)
    writers = [
        threading.Thread(target=write_tasks, args=(store, f"c{number}"))
        for number, store in enumerate((one, two))
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    one.refresh(LIMIT_S)
    two.refresh(LIMIT_S)
    assert one.snapshot() == two.snapshot()
    assert {name: len(one.snapshot().tasks(name)) for name in ("c0", "c1")} == {"c0": 2, "c1": 2}
    assert {change.connector for change in changes if isinstance(change, ConnectorUpdated)} == {"c0", "c1"}


def write_tasks(store: ConfigStore, connector: str) -> None:
    for number in range(10):
        store.put_connector_config(connector, {**CONFIG, "number": str(number)})
        store.put_task_configs(connector, [{"task": str(task)} for task in range(number % 3 + 2)])


def test_a_late_worker_reads_everything_and_hears_of_nothing(
    config: ClientConfig, name: str, opened: Opened
) -> None:
    changes: list[Change] = []
    one = opened(config, name)
    write_tasks(one, "c")
    two = opened(config, name, changes.append)
    assert two.snapshot().connector_configs == one.snapshot().connector_configs
    assert two.snapshot().offset == one.snapshot().offset
    assert not changes


def test_a_new_leader_fences_the_former_one(config: ClientConfig, name: str, opened: Opened) -> None:
    identity = leader_transactional_id(name)
    one, two = (opened(config, name, transactional_id=identity) for _ in range(2))
    with pytest.raises(ConnectError, match="without claiming write privileges"):
        one.put_connector_config("c", CONFIG)
    one.claim_write_privileges()
    one.put_connector_config("c", CONFIG)
    two.claim_write_privileges()
    two.put_connector_config("d", CONFIG)
    with pytest.raises(PrivilegedWriteError):
        one.put_connector_config("e", CONFIG)
    one.put_target_state("c", TargetState.PAUSED)  # any worker may write this
    one.refresh(LIMIT_S)
    assert set(one.snapshot().connector_configs) == {"c", "d"}
    with pytest.raises(ConnectError, match="without claiming write privileges"):
        one.put_connector_config("e", CONFIG)
    one.claim_write_privileges()
    one.put_connector_config("e", CONFIG)
    assert "e" in one
    assert one.snapshot().target_states["c"] is TargetState.PAUSED


def test_a_node_dies_and_returns_between_and_during_writes(name: str, opened: Opened) -> None:
    with Node() as node:
        config = config_of(node)
        plain = opened(config, name)
        fencing = opened(config, f"{name}-2", transactional_id=leader_transactional_id(name))
        fencing.claim_write_privileges()
        for number in range(2):
            node.kill()
            started = threading.Event()

            def write(number: int = number, started: threading.Event = started) -> None:
                started.set()
                plain.put_connector_config(f"c{number}", CONFIG)

            writer = threading.Thread(target=write)
            writer.start()
            started.wait()
            node.restart()
            writer.join()
            put_again(fencing, f"c{number}")
        assert set(plain.snapshot().connector_configs) == {"c0", "c1"}
        assert set(fencing.snapshot().connector_configs) == {"c0", "c1"}


def put_again(store: ConfigStore, connector: str) -> None:
    """Write as a leader does: claim again after a failure, whose outcome is unknown."""
    try:
        store.put_connector_config(connector, CONFIG)
    except ConnectError:
        store.claim_write_privileges()
        store.put_connector_config(connector, CONFIG)


def test_no_cluster_ends_a_write_and_a_read_in_time(name: str, opened: Opened) -> None:
    with Node() as node:
        store = ConfigStore(config_of(node), config_topic(name), timeout_s=0.5)
        try:
            store.start(LIMIT_S)
            node.kill()
            with pytest.raises(ConnectError, match="Error writing connector configuration to Kafka"):
                store.put_connector_config("c", CONFIG)
            with pytest.raises(TimeoutError, match=name):
                store.refresh(0.1)
        finally:
            store.close()


def test_a_replaced_topic_replaces_the_state(config: ClientConfig, name: str, opened: Opened) -> None:
    store = opened(config, name)
    store.put_connector_config("c", CONFIG)
    with Cluster(config) as cluster:
        delete_topics(cluster, [name])
        assert "c" in store
        require_topic(cluster, config_topic(name))
    other = opened(config, name)
    other.put_connector_config("d", CONFIG)
    wait_until(lambda: set(store.snapshot().connector_configs) == {"d"})


# Reading to the end


def test_reading_to_the_end_includes_all_that_is_acknowledged(config: ClientConfig, name: str) -> None:
    """While a writer writes, whatever it had written before a read began is there after it."""
    writing, reading = started(config, name), started(config, name)
    written: list[bytes] = []
    is_over = threading.Event()

    def write() -> None:
        for number in range(300):
            key = key_of("c", {"file": number})
            writing.set({key: b'{"position":1}'})
            written.append(key)
        is_over.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = 0
    while not is_over.is_set() or not reads:
        expected = written[:]
        reading.refresh(LIMIT_S)
        assert set(expected) <= reading.get(expected).keys()
        reads += 1
    writer.join()
    reading.refresh(LIMIT_S)
    assert len(reading.get(written)) == 300
    for store in (writing, reading):
        store.close()


def test_reading_to_the_end_waits_for_open_transactions(config: ClientConfig, name: str) -> None:
    """A task that starts must see the offset that its predecessor is committing."""
    store = started(config, name)
    key = key_of("c", {"file": "f"})
    with Cluster(config) as cluster:
        for commits, expected in ((True, {key: b'{"position":1}'}), (False, {key: b'{"position":1}'})):
            transactor = Transactor(cluster, f"{name}-c-0", 60_000)
            value = b'{"position":%d}' % (1 if commits else 2)
            produce(cluster, transactor.begin(), store, key, value)
            with pytest.raises(TimeoutError):
                store.refresh(0.2)
            transactor.end(commit=commits)
            store.refresh(LIMIT_S)
            assert store.get([key]) == expected
    store.close()


def test_a_store_starts_once_a_transaction_of_a_killed_task_has_ended(
    config: ClientConfig, name: str
) -> None:
    writer = started(config, name)
    key = key_of("c", {"file": "f"})
    store, stopped = (OffsetStore(config, offset_topic(name, 3)) for _ in range(2))
    with Cluster(config) as cluster, ThreadPoolExecutor() as pool:
        transactor = Transactor(cluster, f"{name}-c-0", 60_000)
        produce(cluster, transactor.begin(), writer, key, b'{"position":1}')
        starting, interrupted = (pool.submit(each.start, 0.5) for each in (store, stopped))
        with pytest.raises(FuturesTimeout):
            starting.result(1.0)
        stopped.interrupt()
        with pytest.raises(ConnectError, match="the worker stops"):
            interrupted.result(LIMIT_S)
        transactor.end(commit=True)
        starting.result(LIMIT_S)
    assert store.get([key]) == {key: b'{"position":1}'}
    for each in (store, stopped, writer):
        each.close()


def produce(cluster: Cluster, transaction: Transaction, store: OffsetStore, key: bytes, value: bytes) -> None:
    """Write offsets as the task of a source does in its transaction."""
    producer = Producer(cluster, ProducerConfig(), transaction=transaction)
    for tp, records in store.placed({key: value}).items():
        logged = [Record(0, 0, record.key, record.value) for record in records]
        producer.send(tp.topic, tp.partition, bytearray(encode_batch(logged, transactional=True)))
    producer.flush()
    producer.close()


@pytest.mark.long
def test_stores_survive_the_death_of_each_leader(name: str, opened: Opened) -> None:
    with Node(nodes=3) as node:
        config = config_of(node)
        configs, offsets = opened(config, name), started(config, f"{name}-offsets", 3)
        statuses = StatusStore(config, status_topic(f"{name}-status"))
        statuses.start(LIMIT_S)
        for number in range(1, 4):
            node.node(number).kill()
            configs.put_connector_config(f"c{number}", CONFIG)
            offsets.set({key_of("c", {"file": each}): b'{"position":%d}' % number for each in range(20)})
            statuses.put("c", replace(RUNNING, generation=number))
            offsets.refresh(LIMIT_S)
            statuses.refresh(LIMIT_S)
            assert f"c{number}" in configs
            read = ConnectorOffsets("c", offsets).offsets([{"file": each} for each in range(20)])
            assert read == [{"position": number}] * 20
            assert statuses.get("c") == replace(RUNNING, generation=number)
            node.node(number).restart()
        offsets.close()
        statuses.close()


# Offsets


def test_a_topic_of_its_own_comes_first_and_the_workers_topic_after_it(
    config: ClientConfig, name: str
) -> None:
    worker, own = started(config, name), started(config, f"{name}-own")
    partition: Partition = {"file": "f"}
    ConnectorOffsets("c", worker).set({key_of("c", partition): b'{"position":1}'})
    offsets = ConnectorOffsets("c", worker, own)
    offsets.refresh(LIMIT_S)
    assert offsets.offset(partition) == {"position": 1}  # from before the connector had its own topic
    writer = OffsetWriter(offsets)
    writer.add(partition, {"position": 2})
    assert writer.flush()
    assert not writer.flush()
    own.set({key_of("c", partition): b'{"position":3}'})
    offsets.refresh(LIMIT_S)
    assert offsets.offset(partition) == {"position": 3}
    assert ConnectorOffsets("c", worker).offset(partition) == {"position": 2}
    assert [tuple(each) for each in offsets.listed()] == [({"file": "f"}, {"position": 3})]
    offsets.set(offsets.reset())
    offsets.refresh(LIMIT_S)
    assert not offsets.listed()
    assert not worker.keys("c")
    for store in (worker, own):
        store.close()


def test_a_reset_finds_keys_with_their_names_in_another_order(config: ClientConfig, name: str) -> None:
    store = started(config, name)
    offsets = ConnectorOffsets("c", store)
    store.set({key_of("c", {"topic": "t", "partition": 0}): b'{"offset":7}'})
    store.refresh(LIMIT_S)
    assert offsets.offset({"partition": 0, "topic": "t"}) == {"offset": 7}
    offsets.set(offsets.encoded([({"partition": 0, "topic": "t"}, None)]))
    store.refresh(LIMIT_S)
    assert offsets.offset({"topic": "t", "partition": 0}) is None
    store.close()


def test_offsets_of_a_failed_flush_are_written_by_the_next(config: ClientConfig, name: str) -> None:
    store = started(config, name)
    writer = OffsetWriter(ConnectorOffsets("c", store))
    writer.add({"file": "f"}, {"position": 1})
    writer.add({"file": "g"}, {"position": 1})
    assert len(writer.begin()) == 2
    with pytest.raises(ConnectError, match="already flushing"):
        writer.begin()
    writer.add({"file": "g"}, {"position": 2})
    writer.failed()
    assert set(writer.begin().values()) == {b'{"position":1}', b'{"position":2}'}
    writer.done()
    assert not writer.begin()
    store.close()


# Statuses


def test_statuses_are_written_once_the_node_is_back(name: str) -> None:
    with Node() as node:
        store = StatusStore(config_of(node), status_topic(name))
        store.start(LIMIT_S)
        node.kill()
        tasks = [ConnectorTaskId("c", number) for number in range(5)]
        for task in tasks:
            store.put(task, RUNNING)
        node.restart()
        store.refresh(LIMIT_S)
        assert store.tasks("c") == dict.fromkeys(tasks, RUNNING)
        store.close()


def test_a_status_that_is_refused_leaves_the_others(config: ClientConfig, name: str) -> None:
    store = StatusStore(config, status_topic(name))
    large, small = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)
    store.put(large, replace(RUNNING, trace="x" * (2 << 20)))
    store.put(small, RUNNING)
    store.start(LIMIT_S)
    store.refresh(LIMIT_S)
    assert store.tasks("c") == {small: RUNNING}
    store.close()


def test_a_safe_status_gives_way_to_another_workers_newer_one(config: ClientConfig, name: str) -> None:
    one, two = (StatusStore(config, status_topic(name)) for _ in range(2))
    for store in (one, two):
        store.start(LIMIT_S)
    one.put("c", RUNNING)
    one.flush(LIMIT_S)
    two.refresh(LIMIT_S)
    two.put_safe("c", Status(State.UNASSIGNED, "w2:8083", 2))
    two.refresh(LIMIT_S)
    assert two.get("c") == RUNNING
    two.put_safe("c", Status(State.FAILED, "w2:8083", 4, "at x"))
    two.flush(LIMIT_S)
    one.refresh(LIMIT_S)
    assert one.get("c") == Status(State.FAILED, "w2:8083", 4, "at x")
    one.put("c", Status(State.DESTROYED, "w1:8083", 4))
    one.refresh(LIMIT_S)
    assert one.get("c") is None
    assert not one.connectors()
    for store in (one, two):
        store.close()


# Topics


@pytest.mark.parametrize(("make", "partitions"), [(config_topic, 1), (offset_topic, 25), (status_topic, 5)])
def test_missing_topics_are_created(
    config: ClientConfig, name: str, make: Callable[[str], InternalTopic], partitions: int
) -> None:
    with Cluster(config) as cluster:
        assert require_topic(cluster, make(name)) == partitions
        assert require_topic(cluster, make(name)) == partitions


def test_a_topic_that_deletes_is_refused(config: ClientConfig, name: str) -> None:
    with Cluster(config) as cluster:
        create_topics(cluster, [NewTopic(name, 1, {"cleanup.policy": "compact,delete"})])
        with pytest.raises(ConfigInvalid) as caught:
            require_topic(cluster, config_topic(name))
    assert str(caught.value) == (
        f"Topic '{name}' supplied via the 'config.storage.topic' property is required to have"
        " 'cleanup.policy=compact' to guarantee consistency and durability of connector configurations, but"
        " found the topic currently has 'cleanup.policy=compact,delete'. Continuing would likely result in"
        " eventually losing connector configurations and problems restarting this Connect cluster in the"
        " future. Change the 'config.storage.topic' property in the Connect worker configurations to use a"
        " topic with 'cleanup.policy=compact'."
    )


def test_configurations_need_a_single_partition(config: ClientConfig, name: str, opened: Opened) -> None:
    with Cluster(config) as cluster:
        create_topics(cluster, [NewTopic(name, 2, {"cleanup.policy": "compact"})])
    with pytest.raises(ConfigInvalid, match=r"required to have a single partition .* found 2 partitions"):
        opened(config, name)


def test_too_few_brokers_are_waited_for_and_then_reported(name: str, penstock_cluster: Node) -> None:
    properties = {"bootstrap.servers": penstock_cluster.bootstrap_servers, "default.api.timeout.ms": "300"}
    with (
        Cluster(ClientConfig.from_properties(properties)) as cluster,
        pytest.raises(ConnectError, match=rf"Unable to create topic.* '{name}'.*INVALID_REPLICATION_FACTOR"),
    ):
        require_topic(cluster, config_topic(name, 3))
