"""Write updates at a fixed rate: ``python -m views.writer``, arguments as JSON.

To the ``changelog``, it writes as an application's query does: one transaction for each trigger, published at
the trigger, with all updates since the previous one. Or it writes to the ``input`` of a running application.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Producer

from penstock.protocol.murmur2 import partition_for_key
from views.application import build
from views.schedule import INPUT, STORE, Schedule, key_text


def load(servers: str, topic: str, keys: int, partitions: int, *, transactional: bool) -> None:
    """Write every key once, before the schedule begins."""
    producer = _producer(servers, transactional=transactional, linger_ms=20)
    if transactional:
        producer.begin_transaction()
    value = (0).to_bytes(8, "big")
    for number in range(keys):
        key = key_text(number).encode()
        _send(producer, topic, key, value, partition_for_key(key, partitions))
    if transactional:
        producer.commit_transaction(60)
    else:
        producer.flush(60)


def write(
    servers: str, topic: str, schedule: Schedule, partitions: int, seconds: float, trigger_s: float | None
) -> dict[str, Any]:
    """Write the scheduled updates, and return how late they were, in ms, with other figures.

    With ``trigger_s`` None, they are written without transactions, as soon as they happen.
    """
    producer = _producer(servers, transactional=trigger_s is not None, linger_ms=2)
    every_s = trigger_s or 0.005
    done, number, late_ms, commit_ms = 0, 1, [], []
    end = int(seconds * schedule.updates_per_s)
    # In a query, tasks do this work elsewhere, so it must not be part of the burst.
    keys = [schedule.key_of(update) for update in range(end)]
    places = [partition_for_key(key, partitions) for key in keys]
    values = [schedule.time_of(update).to_bytes(8, "big") for update in range(end)]
    if time.monotonic_ns() > schedule.start_ns:
        raise RuntimeError("the writer was not ready at the start of the schedule")
    cpu_s = time.process_time()
    while done < end:
        at_ns = schedule.start_ns + int(number * every_s * 1e9)
        time.sleep(max(0.0, (at_ns - time.monotonic_ns()) / 1e9))
        late_ms.append((time.monotonic_ns() - at_ns) / 1e6)
        until = min(end, schedule.last_before(at_ns) + 1)
        if trigger_s is not None:
            producer.begin_transaction()
        for update in range(done, until):
            _send(producer, topic, keys[update], values[update], places[update])
        if trigger_s is not None:
            producer.commit_transaction(60)
            commit_ms.append((time.monotonic_ns() - at_ns) / 1e6)
        else:
            producer.poll(0)
        done, number = until, number + 1
    producer.flush(60)
    return {
        "written": done,
        "cpu_s": round(time.process_time() - cpu_s, 2),
        "late_ms_max": round(max(late_ms), 1),
        "commit_ms": sorted(commit_ms),
    }


def _producer(servers: str, *, transactional: bool, linger_ms: int) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "linger.ms": linger_ms,
        "queue.buffering.max.messages": 2_000_000,
    }
    if transactional:
        settings["transactional.id"] = "views-bench-writer"
    producer = Producer(settings)
    if transactional:
        producer.init_transactions(30)
    return producer


def _send(producer: Producer, topic: str, key: bytes, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition)
            return
        except BufferError:
            producer.poll(0.01)


def main() -> None:
    given = json.loads(sys.argv[1])
    to_input = given["to"] == "input"
    topic = INPUT if to_input else build().topology().changelog_topic(STORE)
    if given["step"] == "load":
        load(given["servers"], topic, given["keys"], given["partitions"], transactional=not to_input)
        print(json.dumps({"loaded": given["keys"]}))
        return
    schedule = Schedule(given["start_ns"], given["keys"], given["updates_per_s"])
    trigger_s = None if to_input else given["trigger_ms"] / 1000
    found = write(given["servers"], topic, schedule, given["partitions"], given["seconds"], trigger_s)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
