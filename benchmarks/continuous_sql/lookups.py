"""Lookups over HTTP at a fixed rate: ``python -m continuous_sql.lookups PORT TABLE``.

It reads its settings as a line of JSON and prints its results as another. Each lookup is timed from when it
was due; an answer is stale by the age of the change that it does not show (`views.lookups`).
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from typing import Any, Final

from views.lookups import Measured
from views.schedule import Schedule

CONNECTIONS: Final = 16


class _Connection(asyncio.Protocol):
    """A connection with pipelined requests; answers, whose bodies are chunked, arrive in the same order."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._waiting: list[asyncio.Future[bytes]] = []
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a TCP connection's is writable

    def connection_lost(self, exc: Exception | None) -> None:
        for future in self._waiting:
            future.set_exception(exc or ConnectionError("the server closed a connection"))

    def ask(self, statement: str) -> asyncio.Future[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        body = json.dumps({"sql": statement}).encode()
        self._transport.write(
            b"POST /query-stream HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        return future

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (found := _answer(self._data)) is not None:
            body, self._data = found
            self._waiting.pop(0).set_result(body)


def _answer(data: bytes) -> tuple[bytes, bytes] | None:
    """Return the body of the first answer and the data after it, or None while the answer is incomplete."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark:
        return None
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(data.decode())
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if length is not None:
        size = int(length[1])
        return (rest[:size], rest[size:]) if len(rest) >= size else None
    body = b""
    while True:
        size_text, mark, after = rest.partition(b"\r\n")
        if not mark:
            return None
        size = int(size_text, 16)
        if len(after) < size + 2:
            return None
        body, rest = body + after[:size], after[size + 2 :]
        if size == 0:
            return body, rest


async def ask(
    port: int, table: str, schedule: Schedule, lookups_per_s: int, seconds: float
) -> dict[str, Any]:
    """Look up keys over connections in turn, each when it is due, without waiting for other answers."""
    rng, measured = random.Random(2), Measured()
    loop = asyncio.get_running_loop()
    links = [(await loop.create_connection(_Connection, "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    begin_ns = schedule.start_ns + int(schedule.age_s * 1e9)
    pending = []
    for number in range(int(seconds * lookups_per_s)):
        due_ns = begin_ns + number * 1_000_000_000 // lookups_per_s
        left_s = (due_ns - time.monotonic_ns()) / 1e9
        if left_s > 0:
            await asyncio.sleep(left_s)
        update = schedule.last_before(due_ns - int(rng.random() * schedule.age_s * 1e9))
        key = schedule.key_of(update).decode()
        future = links[number % CONNECTIONS].ask(f"SELECT sent FROM {table} WHERE id = '{key}';")

        def answered(done: asyncio.Future[bytes], update: int = update, due_ns: int = due_ns) -> None:
            rows = done.result().splitlines()[1:]
            measured.take(schedule, update, due_ns, json.loads(rows[0])[0] if rows else None)

        future.add_done_callback(answered)
        pending.append(future)
    await asyncio.gather(*pending)
    took_s = (time.monotonic_ns() - begin_ns) / 1e9
    return {**measured.report(), "lookups_per_s": round(len(pending) / took_s)}


def main() -> None:
    port, table = sys.argv[1:]
    given = json.loads(sys.stdin.readline())
    schedule = Schedule(given["start_ns"], given["keys"], given["updates_per_s"], given["age_s"])
    found = ask(int(port), table, schedule, given["lookups_per_s"], given["seconds"])
    print(json.dumps(asyncio.run(found)), flush=True)


if __name__ == "__main__":
    main()
