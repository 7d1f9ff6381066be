"""Batch execution: how a task runs nodes that compute all records of a batch in one call.

Such a node stands between two **stages**. The records of a batch pass through the nodes of the first stage
one by one, as without batches; calls to nodes of later stages are deferred: they are queued for each record,
in order. Then the nodes between the stages compute. Then the next stage processes the batch record by record,
with each record, its stream time and its queued calls. Each node therefore sees the records in the same order
as without batches, and records that reach a node by several paths keep that order too.

    stage 0   source ─▶ filter ─▶ ┊map_values┊ ─▶ to            stage 1
                   └────────────▶ ┊          ┊ ─▶ merge …

Nodes that share a store are in one stage; otherwise one node would see what another has done with later
records. If that is impossible (a vectorised node between two nodes with one store), or if other nodes read
the table of a vectorised aggregate, the nodes process records one by one, with columns of length one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from penstock.topology.collected import Collected
from penstock.topology.context import Context, Ticker
from penstock.topology.graph import Node, Processor, Sink, SubTopology
from penstock.topology.records import NO_HEADERS, Forward, Headers, Input, Output

Entry: TypeAlias = "tuple[Forward, Any, Any, int, Headers, Input]"
"""A deferred call and its input record: the record that was read, or the stand-in record of a timer."""


class StagePlan(NamedTuple):
    """The stage of each node by name, and the names of the nodes that process a batch's records together."""

    stage_of: Mapping[str, int]
    together: frozenset[str]


def plan_stages(part: SubTopology) -> StagePlan | None:
    """Assign the nodes of a sub-topology to stages; None if all records pass through all nodes one by one."""
    whole = [node for node in part.nodes if _takes_batches(node, part)]
    if not whole:
        return None
    stages = dict.fromkeys((node.name for node in part.nodes), 0)
    users: dict[str, list[Node]] = {}
    for node in part.nodes:
        for store in node.stores:
            users.setdefault(store, []).append(node)
    moved = True
    while moved:
        moved = False
        for node in part.nodes:
            above = [stages[parent.name] + (parent in whole) for parent in node.parents]
            above += [stages[other.name] for store in node.stores for other in users[store]]
            if above and max(above) > stages[node.name]:
                stages[node.name] = max(above)
                moved = True
        if max(stages.values()) > len(whole):
            return None
    last = max(stages[node.name] + (node in whole) for node in part.nodes)
    # All sinks share the last stage, so that records from several sinks to one topic keep their order.
    stages.update((node.name, last) for node in part.nodes if isinstance(node, Sink))
    return StagePlan(stages, frozenset(node.name for node in whole))


def _takes_batches(node: Node, part: SubTopology) -> bool:
    if not isinstance(node, Processor) or not node.operator.takes_batches:
        return False
    return not any(
        store in other.stores for store in node.stores for other in part.nodes if other is not node
    )


class Stages:
    """The stages of one task, which compiles nodes with `edge` and `collecting` and then calls `run`."""

    def __init__(self, context: Context, plan: StagePlan) -> None:
        self._context = context
        self._stage_of = plan.stage_of
        self._together = plan.together
        self._last = max(plan.stage_of[name] + 1 for name in plan.together)
        self._last = max(self._last, *plan.stage_of.values())
        self._collected: list[list[Collected]] = [[] for _ in range(self._last + 1)]
        self._ticks: list[Forward] = []
        self._later: list[Entry] = []
        """The calls that the current record makes in the next stage."""

    def edge(self, parent: Node, child: Node, target: Forward) -> Forward:
        """Return the function that sends a record from ``parent`` to ``child``, now or some stages later."""
        stage = self._stage_of[parent.name] + (parent.name in self._together)
        return self._later_by(self._stage_of[child.name] - stage, target)

    def _later_by(self, stages: int, target: Forward) -> Forward:
        for _ in range(stages):
            target = self._put_off(target)
        return target

    def _put_off(self, target: Forward) -> Forward:
        def put_off(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            self._later.append((target, key, value, timestamp_ms, headers, self._context.record))

        return put_off

    def collecting(self, node: Node, collected: Collected) -> Forward:
        """Return the function that collects the records of a node that computes them together."""
        self._collected[self._stage_of[node.name]].append(collected)
        take, send = collected.take, collected.send

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            number = take(key, value, timestamp_ms)
            if number is not None:
                self._later.append((send, number, (key, value), timestamp_ms, headers, self._context.record))

        return process

    def ticks(self, node: Node, tickers: Iterable[Ticker]) -> None:
        """Register the node's callbacks, which run after each record in the order of registration."""
        for ticker in tickers:
            self._ticks.append(self._later_by(self._stage_of[node.name], partial(_tick, ticker)))

    def run(self, rows: list[Input], enter: Callable[[Input], None]) -> list[int]:
        """Pass each record to ``enter`` and through all stages; return the number of outputs after each."""
        context, outputs = self._context, self._context.outputs
        times_ms: list[int] = []
        later: list[Entry] = []
        ends: list[int] = []  # where each record's deferred calls end
        self._later = later
        for row in rows:
            context.record = row
            sent = len(outputs)
            enter(row)
            for tick in self._ticks:
                tick(None, None, 0, NO_HEADERS)
            if len(outputs) > sent:
                self._send_later(sent)
            ends.append(len(later))
            times_ms.append(context.stream_time_ms)
        for stage in range(1, self._last + 1):
            done = self._collected[stage - 1]
            for collected in done:
                collected.compute()
            is_last, start = stage == self._last, 0
            entries, bounds = later, ends
            later, ends = [], []
            self._later = later
            for end, time_ms in zip(bounds, times_ms, strict=True):
                context.stream_time_ms = time_ms
                sent = len(outputs)
                for at in range(start, end):
                    target, key, value, timestamp_ms, headers, context.record = entries[at]
                    target(key, value, timestamp_ms, headers)
                if len(outputs) > sent and not is_last:
                    self._send_later(sent)
                ends.append(len(outputs) if is_last else len(later))
                start = end
            for collected in done:
                collected.clear()
        return ends

    def _send_later(self, start: int) -> None:
        """Defer outputs already sent for a record (dead letters) to keep their place in the next stage."""
        outputs, record = self._context.outputs, self._context.record
        self._later += [(self._send, sent, None, 0, NO_HEADERS, record) for sent in outputs[start:]]
        del outputs[start:]

    def _send(self, output: Output, value: Any, timestamp_ms: int, headers: Headers) -> None:
        self._context.outputs.append(output)


def _tick(ticker: Ticker, *_: Any) -> None:
    ticker()
