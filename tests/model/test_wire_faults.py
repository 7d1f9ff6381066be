"""Requests arrive late or twice and responses get lost, but each record and decision takes effect once."""

import itertools
from collections.abc import Iterator

import pytest
from broker_model import Batch
from model_reader import read
from node_client import (
    END_TXN_VERSION,
    LATEST,
    PRODUCE_VERSION,
    TXN_OFFSET_COMMIT_VERSION,
    NodeClient,
    Partition,
)

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from wire_proxy import Fate, WireProxy

GROUP = "readers"
SPOKEN = {
    1: (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.PRODUCE,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ),
    2: (ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN),
}


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def proxy(node: Cluster) -> Iterator[WireProxy]:
    with WireProxy(node.bootstrap_servers) as proxy:
        yield proxy


class Application:
    """A client that writes to two partitions and commits an offset in each transaction, with retries."""

    _numbers = itertools.count()

    def __init__(self, bootstrap_servers: str, version: int) -> None:
        number = next(self._numbers)
        self.client = NodeClient(bootstrap_servers)
        self.client.find_coordinators()
        self.version = version
        self.transactional_id = f"application-{number}"
        topic = f"topic-{number}"
        self.client.create_topic(topic, 2, {})
        self.partitions: list[Partition] = [(topic, 0), (topic, 1)]
        self.sequence = 0

    def start(self) -> None:
        error, self.producer_id, self.epoch = self.client.init_producer_id(self.transactional_id)
        assert error == ErrorCode.NONE

    @property
    def identity(self) -> tuple[str, int, int]:
        return self.transactional_id, self.producer_id, self.epoch

    def write(self, value: bytes) -> None:
        if self.version == 1:
            added = self.client.add_partitions(*self.identity, self.partitions)
            assert set(added.values()) == {ErrorCode.NONE}
        batch = Batch([(None, value)], self.producer_id, self.epoch, self.sequence, transactional=True)
        batches = {partition: batch.encode() for partition in self.partitions}
        answers = self.client.produce(batches, self.transactional_id, PRODUCE_VERSION[self.version])
        assert {error for error, _ in answers.values()} == {ErrorCode.NONE}
        self.sequence += 1

    def commit_offset(self, offset: int) -> None:
        if self.version == 1:
            assert self.client.add_offsets(*self.identity, GROUP) == ErrorCode.NONE
        version = TXN_OFFSET_COMMIT_VERSION[self.version]
        error = self.client.commit_offset_in_transaction(
            GROUP, self.partitions[0], offset, *self.identity, version=version
        )
        assert error == ErrorCode.NONE

    def end(self, *, commit: bool) -> None:
        error, producer_id, epoch = self.client.end_transaction(
            *self.identity, commit=commit, version=END_TXN_VERSION[self.version]
        )
        assert error == ErrorCode.NONE
        if self.version == 2:
            self.producer_id, self.epoch, self.sequence = producer_id, epoch, 0
        self.client.await_completion(self.transactional_id)

    def values(self, partition: Partition, *, committed: bool) -> list[bytes | None]:
        records, _ = read(self.client, partition, 0, committed=committed, max_bytes=1 << 20)
        return [record.value for record in records]


def fates_of_requests() -> list[tuple[int, ApiKey, Fate]]:
    fates = []
    for version, api_keys in SPOKEN.items():
        for api_key in api_keys:
            fates += [(version, api_key, Fate.CUT_BEFORE), (version, api_key, Fate.CUT_AFTER)]
            if api_key != ApiKey.INIT_PRODUCER_ID:  # a producer that sends this twice fences itself
                fates.append((version, api_key, Fate.REPEAT))
    return fates


@pytest.mark.parametrize(("version", "api_key", "fate"), fates_of_requests())
def test_transactions_survive(proxy: WireProxy, version: int, api_key: ApiKey, fate: Fate) -> None:
    application = Application(proxy.bootstrap_servers, version)
    times = 1 if api_key == ApiKey.INIT_PRODUCER_ID else 3
    for _ in range(times):
        proxy.plan(api_key, fate)
    application.start()
    for number, commit in enumerate([True, False, True]):
        application.write(b"%d" % number)
        application.commit_offset(number)
        application.end(commit=commit)
    assert [met for _, met in proxy.met] == [fate] * times
    for partition in application.partitions:
        assert application.client.offset(partition, LATEST) == 6  # three records, three markers
        assert application.values(partition, committed=True) == [b"0", b"2"]
        assert application.values(partition, committed=False) == [b"0", b"1", b"2"]
    committed = application.client.committed_offset(GROUP, application.partitions[0], require_stable=True)
    assert committed == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("late_commits", [True, False])
def test_a_late_end_never_touches_the_next_transaction(proxy: WireProxy, late_commits: bool) -> None:
    """The producer's epoch tells the end of this transaction from that of the last one (KIP-890)."""
    application = Application(proxy.bootstrap_servers, version=2)
    application.start()
    application.write(b"first")
    proxy.plan(ApiKey.END_TXN, Fate.HOLD)
    give_up_soon(application.client)
    with pytest.raises(TimeoutError):
        application.end(commit=late_commits)
    application.end(commit=late_commits)  # repeated over a connection of its own
    application.write(b"second")
    application.commit_offset(7)

    proxy.release()

    state = application.client.transaction_state(application.transactional_id)
    assert state.transaction_state == "Ongoing"
    for partition in application.partitions:
        assert application.client.offset(partition, LATEST, committed=True) == 2
    application.end(commit=not late_commits)
    expected = [b"first"] if late_commits else [b"second"]
    for partition in application.partitions:
        assert application.values(partition, committed=True) == expected
        assert application.client.offset(partition, LATEST, committed=True) == 4
    offset = application.client.committed_offset(GROUP, application.partitions[0], require_stable=True)
    assert offset[1] == (-1 if late_commits else 7)


def give_up_soon(client: NodeClient) -> None:
    """Make the next unanswered request raise TimeoutError soon and close the connection."""
    client.connect().socket.settimeout(0.2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_late_batch_never_lands_in_the_next_transaction(proxy: WireProxy, version: int) -> None:
    """A late batch is refused once its producer has aborted its transaction (KIP-890)."""
    application = Application(proxy.bootstrap_servers, version)
    application.start()
    application.write(b"first")
    proxy.plan(ApiKey.PRODUCE, Fate.HOLD)
    give_up_soon(application.client)
    with pytest.raises(TimeoutError):
        application.write(b"late")
    application.end(commit=False)
    proxy.release()
    for partition in application.partitions:
        assert application.values(partition, committed=False) == [b"first"]
        assert application.client.offset(partition, LATEST, committed=True) == 2
    application.start()
    application.sequence = 0
    application.write(b"second")
    application.end(commit=True)
    for partition in application.partitions:
        assert application.values(partition, committed=True) == [b"second"]
