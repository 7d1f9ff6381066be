"""Anomalies in a history, by the names and the reasoning of Jepsen's Kafka workload.

Offsets give a log's order, so no search is needed: offsets of acknowledged sends and of polls give each
partition's order, and a contradiction to that order, or within it, is an anomaly.

- offset divergence: one offset, two values;
- duplicate: one value at two offsets or in two partitions;
- lost write: acknowledged, readers got beyond it, and none read it;
- unseen: acknowledged, and no reader got that far (in a history that ends by reading all, lost as well);
- aborted read: a poll returned a value that surely was not committed;
- reordering: a poll goes back, or sends of one process to one partition have offsets against their order;
- internal gap: a poll, or the next of the same process, skips a value that others read there;
- torn transaction: readers read one part of it and got beyond the offset of another part that none read;
- cycle: transactions that read from each other in a circle.

Cycles that need write-write edges are reported apart, as information: Kafka writes a transaction's records
when they arrive, so two that overlap may stand in opposite orders in two partitions. For the same reason one
partition may show a transaction before another does: a transaction is torn only if that remains so.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from history import Operation, Outcome, Partition, Poll

Edges = Mapping[int, set[int]]


@dataclass
class Report:
    """The anomalies found; each is a line that names partition, offset and value."""

    offset_divergence: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    lost_writes: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    aborted_reads: list[str] = field(default_factory=list)
    reordering: list[str] = field(default_factory=list)
    internal_gaps: list[str] = field(default_factory=list)
    torn_transactions: list[str] = field(default_factory=list)
    cycles: list[str] = field(default_factory=list)
    write_cycles: list[str] = field(default_factory=list)  # information, no anomaly

    def anomalies(self) -> dict[str, list[str]]:
        found = {name: lines for name, lines in vars(self).items() if lines}
        found.pop("write_cycles", None)
        return found


def check(history: Iterable[Operation]) -> Report:
    return _Checker(list(history)).report


class _Checker:
    def __init__(self, history: list[Operation]) -> None:
        self.history = history
        self.report = Report()
        self.writer: dict[str, int] = {}  # value → number of the operation that sent it
        self.read: dict[str, set[tuple[Partition, int]]] = defaultdict(set)  # value → where it was read
        self.values: dict[tuple[Partition, int], set[str]] = defaultdict(set)  # place → values seen there
        self.read_up_to: dict[Partition, int] = {}
        self._index()
        self._check_places()
        self._check_lost()
        self._check_aborted_reads()
        self._check_order()
        self._check_torn()
        self._check_cycles()

    def _index(self) -> None:
        for number, operation in enumerate(self.history):
            for send in operation.sends():
                assert send.value not in self.writer, f"{send.value} is sent twice"
                self.writer[send.value] = number
                if send.offset is not None and operation.outcome is not Outcome.FAILED:
                    self.values[send.partition, send.offset].add(send.value)
            for poll in operation.polls():
                for offset, value in poll.records:
                    self.values[poll.partition, offset].add(value)
                    self.read[value].add((poll.partition, offset))
                    beyond = self.read_up_to.get(poll.partition, -1)
                    self.read_up_to[poll.partition] = max(beyond, offset)

    def _check_places(self) -> None:
        places: dict[str, set[tuple[Partition, int]]] = defaultdict(set)
        for place, values in sorted(self.values.items()):
            for value in values:
                places[value].add(place)
            if len(values) > 1:
                self.report.offset_divergence.append(f"{_name(*place)} holds {sorted(values)}")
        for value, where in places.items():
            if len(where) > 1:
                found = [_name(*place) for place in sorted(where)]
                self.report.duplicates.append(f"{value} is at {', '.join(found)}")

    def _check_lost(self) -> None:
        for operation in self.history:
            if operation.outcome is not Outcome.OK:
                continue
            for send in operation.sends():
                if send.value in self.read or send.offset is None:
                    continue
                beyond = self.read_up_to.get(send.partition, -1)
                lines = self.report.lost_writes if beyond > send.offset else self.report.unseen
                lines.append(f"{send.value} at {_name(send.partition, send.offset)}, read up to {beyond}")

    def _check_aborted_reads(self) -> None:
        for value, places in self.read.items():
            number = self.writer.get(value)
            if number is None or self.history[number].outcome is Outcome.FAILED:
                why = "was never sent" if number is None else "was aborted"
                found = [_name(*place) for place in sorted(places)]
                self.report.aborted_reads.append(f"{value} at {', '.join(found)} {why}")

    def _check_order(self) -> None:
        visible: dict[Partition, list[int]] = defaultdict(list)
        for value in self.read:
            for partition, offset in self.read[value]:
                visible[partition].append(offset)
        seen = {partition: sorted(set(offsets)) for partition, offsets in visible.items()}
        polled: dict[tuple[int, Partition], int] = {}
        sent: dict[tuple[int, Partition], int] = {}
        for operation in self.history:
            for poll in operation.polls():
                self._check_poll(
                    operation.process, poll, polled, seen[poll.partition] if poll.records else []
                )
            for send in operation.sends():
                if send.offset is None:
                    continue
                key = (operation.process, send.partition)
                if send.offset <= sent.get(key, -1):
                    self.report.reordering.append(
                        f"{send.value} at {_name(send.partition, send.offset)} was sent after {sent[key]}"
                    )
                sent[key] = send.offset

    def _check_poll(
        self, process: int, poll: Poll, polled: dict[tuple[int, Partition], int], seen: list[int]
    ) -> None:
        key = (process, poll.partition)
        if poll.sought:
            polled.pop(key, None)
        offsets = [offset for offset, _ in poll.records]
        before = [polled[key]] if key in polled else []
        for earlier, later in pairwise(before + offsets):
            if later <= earlier:
                self.report.reordering.append(
                    f"process {process} read {_name(poll.partition, later)} after {earlier}"
                )
            skipped = seen[bisect_right(seen, earlier) : bisect_left(seen, later)]
            if skipped:
                self.report.internal_gaps.append(
                    f"process {process} read {_name(poll.partition, later)} after {earlier}, over {skipped}"
                )
        if offsets:
            polled[key] = offsets[-1]

    def _check_torn(self) -> None:
        for operation in self.history:
            sends = operation.sends()
            if not operation.transactional or operation.outcome is Outcome.FAILED:
                continue
            seen = [send for send in sends if send.value in self.read]
            hidden = [
                send
                for send in sends
                if send.value not in self.read
                and send.offset is not None
                and self.read_up_to.get(send.partition, -1) >= send.offset
            ]
            if seen and hidden:
                self.report.torn_transactions.append(
                    f"{seen[0].value} is seen, {hidden[0].value} is not "
                    f"({_name(hidden[0].partition, hidden[0].offset)})"
                )

    def _check_cycles(self) -> None:
        reads: dict[int, set[int]] = defaultdict(set)
        for number, operation in enumerate(self.history):
            for poll in operation.polls():
                for _, value in poll.records:
                    writer = self.writer.get(value, number)
                    if writer != number:
                        reads[writer].add(number)
        both = {number: set(successors) for number, successors in reads.items()}
        last: dict[Partition, int] = {}
        for (partition, _), values in sorted(self.values.items()):
            for value in values & self.writer.keys():
                writer = self.writer[value]
                if partition in last and last[partition] != writer:
                    both.setdefault(last[partition], set()).add(writer)
                last[partition] = writer
        self.report.cycles = [self._describe(cycle) for cycle in cycles(reads)]
        read_only = set(self.report.cycles)
        self.report.write_cycles = [
            line for line in map(self._describe, cycles(both)) if line not in read_only
        ]

    def _describe(self, cycle: list[int]) -> str:
        names = [f"operation {number} of process {self.history[number].process}" for number in cycle]
        return " → ".join([*names, names[0]])


def cycles(edges: Edges) -> list[list[int]]:
    """One shortest cycle of each strongly connected component, from its smallest node on."""
    return [_shortest_cycle(edges, part) for part in _components(edges) if len(part) > 1]


def _components(edges: Edges) -> Iterator[set[int]]:
    """Strongly connected components (Tarjan 1972), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(sorted(edges.get(successor, ())))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    component = set()
                    while not component or node not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    yield component


def _shortest_cycle(edges: Edges, component: set[int]) -> list[int]:
    start = min(component)
    paths = [[start]]
    reached: set[int] = set()
    while True:
        longer = []
        for path in paths:
            for successor in sorted(edges.get(path[-1], set()) & component):
                if successor == start:
                    return path
                if successor not in reached:
                    reached.add(successor)
                    longer.append([*path, successor])
        paths = longer


def _name(partition: Partition, offset: int | None) -> str:
    return f"{partition[0]}-{partition[1]}@{offset}"
