"""Suppression: hold back the changes of a table, and send only the last one of each key (KIP-328).

Time is stream time: the greatest timestamp that reached the node. A key's waiting time begins with its first
change; later changes replace that change. With ``until_window_closes``, a windowed table sends each row once,
when it is final; rows that were deleted before that, such as merged sessions, are not sent at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from penstock.topology.context import Context
from penstock.topology.errors import StreamsError, TopologyError
from penstock.topology.operators.tables import TableOperator, View
from penstock.topology.records import NO_TIMESTAMP, Change, Forward, Headers
from penstock.topology.stores.buffers import ChangeBuffer


class BufferFull(StreamsError):
    """More changes wait in a `Suppress` than its limit allows, and the limit says to stop."""


@dataclass(frozen=True, slots=True)
class BufferLimit:
    """A limit per task, and what to do when it is exceeded: ``emit`` the oldest early, or ``stop``."""

    records: int | None = None
    bytes: int | None = None
    when_full: Literal["emit", "stop"] = "emit"

    def __post_init__(self) -> None:
        for what, limit in (("records", self.records), ("bytes", self.bytes)):
            if limit is not None and limit < 0:
                raise TopologyError(f"a buffer's limit must be 0 {what} or more, not {limit}")

    def exceeded(self, buffer: ChangeBuffer) -> bool:
        return (self.records is not None and len(buffer) > self.records) or (
            self.bytes is not None and buffer.bytes > self.bytes
        )


class Suppress(TableOperator):
    """The operator that suppresses updates. The resulting table is its parent without the waiting changes.

    Args:
        wait_ms: how long a change waits after its timestamp, or with ``final`` after the end of its window.
        final: whether a change's time is the end of its window, and deletions are not sent.
    """

    def __init__(
        self, buffer: str, parent: TableOperator, wait_ms: int, limit: BufferLimit, *, final: bool
    ) -> None:
        super().__init__(None, parent)
        self.buffer = buffer
        self.wait_ms = wait_ms
        self.limit = limit
        self.final = final

    def view_stores(self) -> tuple[str, ...]:
        return (self.buffer, *super().view_stores())

    def computed_view(self, context: Context, parent: View) -> View:
        buffer: ChangeBuffer = context.store(self.buffer)

        def view(key: Any) -> tuple[Any, int] | None:
            waits, prior = buffer.waits(key)
            if not waits:
                return parent(key)
            return None if prior is None else (prior, NO_TIMESTAMP)

        return view

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        buffer: ChangeBuffer = context.store(self.buffer)
        clock, failed = context.clock(node), context.failed
        final, wait_ms, limit = self.final, self.wait_ms, self.limit

        def send() -> None:
            key, new, prior, timestamp_ms, headers = buffer.take()
            if new is not None or not final:
                forward(key, (new, prior, True), timestamp_ms, headers)

        def release() -> None:
            due_ms = clock.ms - wait_ms
            while (first_ms := buffer.first_ms) is not None and first_ms <= due_ms:
                send()
            while limit.exceeded(buffer):
                if limit.when_full == "stop":
                    raise BufferFull(
                        f"{node} holds {len(buffer)} rows of {buffer.bytes} bytes, more than its limit: "
                        f"{limit.records} rows, {limit.bytes} bytes"
                    )
                send()

        def advance() -> None:
            if context.ticked_ms > clock.ms:
                clock.ms = context.ticked_ms
                release()

        context.on_tick(advance)

        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            clock.ms = max(clock.ms, timestamp_ms)
            try:
                time_ms = key.window.end_ms if final else timestamp_ms
                buffer.put(time_ms, key, change[0], change[1], timestamp_ms, headers)
            except Exception as error:
                failed(node, error)
                return
            release()

        return process
