"""Random records for the topologies of `operator_topologies`, and the engine's results for them."""

import random
from collections.abc import Iterable

from operator_topologies import application
from penstock.streams import TopologyTest

Row = tuple[str, str | None, str | None, int]
"""``(topic, key, value, timestamp_ms)``."""

STREAMS_ONLY = ("tumbling", "hopping", "sliding", "sessions", "suppress-close", "suppress-sessions")
TABLES = ("table", "foreign", "suppress-time", "suppress-rows")


def random_rows(name: str, seed: int, count: int = 30) -> list[Row]:
    """Records for a topology: on its topics, some out of order and some late, some without key or value."""
    chance = random.Random(f"{name} {seed}")
    one_topic = name.startswith((*STREAMS_ONLY, "suppress"))
    keyed_apart = name.startswith(("foreign", "global"))
    now_ms, rows = chance.choice([0, 3, 50]), []
    for number in range(count):
        now_ms += chance.choice([0, 0, 1, 1, 2, 3, 5, 11, 12, 16, 40])
        back_ms = chance.choice([0, 0, 0, 0, 1, 3, 6, 10, 14, 25])
        topic = "left" if one_topic else chance.choice(["left", "right"])
        key: str | None = chance.choice("ab")
        if keyed_apart:
            key = chance.choice("pqr") if topic == "left" else chance.choice("ab")
        value: str | None = f"{chance.choice('abx')}:{number}" if keyed_apart else str(number)
        is_table = name.startswith(TABLES) or (topic == "right" and "table" in name)
        if (is_table or (topic == "right" and name.startswith("global"))) and chance.random() < 0.25:
            value = None
        if name.startswith("stream-table") and topic == "left" and chance.random() < 0.15:
            key = None
        rows.append((topic, key, value, max(0, now_ms - back_ms)))
    return rows


def answer(name: str, rows: Iterable[Row]) -> list[tuple[str | None, str | None, int]]:
    """The records that the engine writes, in order: key, value and timestamp."""
    test = TopologyTest(application(name))
    for topic, key, value, timestamp_ms in rows:
        test.input(topic).pipe(key, value, timestamp=timestamp_ms)
    return [(record.key, record.value, record.timestamp_ms) for record in test.output("out").read_all()]
