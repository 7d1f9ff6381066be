"""The base of the state machine's rules: the clients' beliefs, the choice of values, and the faults."""

import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from broker_model import (
    Batch,
    BrokerModel,
    Errors,
    GroupModel,
    Partition,
    PartitionModel,
)
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from node_client import (
    NodeClient,
)

from broker_wire import Wire
from penstock.protocol.errors import ErrorCode

GROUPS = 2
KEYS = 4
INDEX = st.integers(0, 59)  # an index into a short list, taken modulo its length
TIMEOUT_MS = 200
REST_S = 1.2  # nodes look every second for logs to clean
WAIT_MS = 60_000  # longer than an example takes: a fetch that is answered was woken
READ_BYTES = st.sampled_from([1, 300, 1 << 20])
# The default; a segment per batch, or nearly; an index entry per batch, and few segments.
LAYOUTS: list[dict[str, str]] = [{}, {"segment.ms": "1"}, {"segment.ms": "20", "index.interval.bytes": "1"}]
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}


class Node(Protocol):
    """The operations that the machine needs of a node, which runs in a process of its own."""

    @property
    def bootstrap_servers(self) -> str: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def start(self) -> object: ...


@dataclass(eq=False)
class Producer:
    """The beliefs of one producer. Two share a transactional id: the later one fences the other."""

    transactional_id: str | None
    version: int = 2  # of transactions
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[Partition, int] = field(default_factory=dict)
    sent: dict[Partition, deque[Batch]] = field(default_factory=dict)
    ended: tuple[int, int, bool] | None = None  # producer id, epoch, commit of its last EndTxn

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.epoch

    def begin_epoch(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences.clear()


@dataclass(eq=False)
class Waiting:
    """A fetch that has not been answered yet."""

    wire: Wire
    partition: Partition
    offset: int
    committed: bool


class MachineBase(RuleBasedStateMachine):
    """The base of the machine. Subclasses set the node and a client; each example uses its own topics."""

    node: ClassVar[Node]
    client: ClassVar[NodeClient]
    faults_max: ClassVar[int] = 2
    steps: ClassVar[int] = 0
    restarts: ClassVar[int] = 0
    _numbers: ClassVar[Iterator[int]] = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.model = BrokerModel()
        self.name = f"m{next(self._numbers)}"
        self.values = itertools.count()
        self.faults_left = 0
        self.rests_left = 0
        self.deletions_left = 2
        self.next_fault: str | None = None
        self.random = random.Random(0)
        self.topics: dict[str, int] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.waiting: list[Waiting] = []
        self.producers = [
            Producer(None),
            Producer(None),
            Producer(f"{self.name}-x"),
            Producer(f"{self.name}-x"),
            Producer(f"{self.name}-y"),
        ]
        for number in range(GROUPS):
            self.model.groups[f"{self.name}-g{number}"] = GroupModel()

    def make_topic(self, name: str, partitions: int) -> None:
        compacted = self.configs[name] is COMPACTED
        self.client.create_topic(name, partitions, self.configs[name])
        self.topics[name] = partitions
        for index in range(partitions):
            self.model.partitions[name, index] = PartitionModel(compacted=compacted)

    def send_away(self, chosen: Callable[["Waiting"], bool] = lambda _: True) -> None:
        """Forget waiting fetches of records that will not be written."""
        for waiting in [waiting for waiting in self.waiting if chosen(waiting)]:
            waiting.wire.socket.close()
            self.waiting.remove(waiting)

    def expect(self, error: ErrorCode, expected: Errors) -> bool:
        """Check that the error is an expected one, and return whether the request was accepted."""
        assert error in expected, f"{error.name}, expected {sorted(code.name for code in expected)}"
        return error == ErrorCode.NONE

    def check_committed(self, partition: Partition) -> None:
        """Check that `read_committed` readers get the records they should."""
        raise NotImplementedError

    # -- choosing ------------------------------------------------------------------------------------

    def partition(self, index: int) -> Partition:
        partitions = list(self.model.partitions)
        return partitions[index % len(partitions)]

    def transactional(self, index: int) -> tuple[Producer, str]:
        producer = self.producers[2 + index % 3]
        assert producer.transactional_id is not None
        return producer, producer.transactional_id

    def group(self, index: int) -> str:
        return f"{self.name}-g{index % GROUPS}"

    def records(self, partition: Partition, count: int, key: int) -> list[tuple[bytes | None, bytes | None]]:
        """Create records with new values; on compacted topics with keys, and some of them tombstones."""
        numbers = list(itertools.islice(self.values, count))
        if not self.model.partitions[partition].compacted:
            return [(None, b"%d" % number) for number in numbers]
        return [
            (b"k%d" % ((key + number) % KEYS), b"%d" % number if number % 6 else None) for number in numbers
        ]

    # -- faults --------------------------------------------------------------------------------------

    @precondition(lambda self: self.faults_left > 0 and self.next_fault is None)
    @rule(kind=st.sampled_from(["kill", "kill", "cut"]))
    def plan_fault(self, kind: str) -> None:
        self.faults_left -= 1
        self.next_fault = kind

    def under_fault(self, *, repeatable: bool = True) -> None:
        """Let the planned fault, if any, strike the next request.

        If the connection is cut, the first attempt may still be on its way while the second is sent. For a
        request that is not `repeatable` a cut waits for a later request.
        """
        if self.next_fault == "kill":
            self.client.fault = self.kill
        elif self.next_fault == "cut" and repeatable:
            self.client.fault = lambda: None
        else:
            return
        self.next_fault = None

    def kill(self) -> None:
        time.sleep(self.random.choice([0.0, 0.0002, 0.001, 0.003]))
        self.node.kill()
        self.client.close()
        self.restarted()

    def restarted(self) -> None:
        self.send_away()
        self.node.start()
        type(self).restarts += 1
        self.model.node_restarted()
        for transactional_id in self.model.transactions:
            self.client.await_completion(transactional_id)
