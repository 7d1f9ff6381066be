"""Random records of a worker's topics: sensible ones, and ones that a reader has to skip."""

import base64
import json
import random
from collections.abc import Callable
from typing import Any

CONNECTORS = ("a", "b-c", "c-", "é", "a")
STATES = ("STARTED", "PAUSED", "STOPPED")
Record = tuple[str, str | None]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _damaged(rng: random.Random, value: str | None) -> str | None:
    """The value, or once in a while something else."""
    if rng.random() < 0.93:
        return value
    other = ("null", "", "[]", "{}", "7", '"x"', "{", "nonsense", '{"properties":[]}', '{"tasks":"2"}', None)
    more = ('{"state":"GONE"}', '{"tasks":1.5}', '{"tasks":8589934593}', '{"state.v2":5,"state":"PAUSED"}')
    return rng.choice(other + more)


def properties(rng: random.Random) -> dict[str, str | None]:
    names = rng.sample(("name", "connector.class", "tasks.max", 'q"\\', "ü\n", "\x01\x7f"), rng.randrange(4))
    return {name: rng.choice(("1", "", "${file:/x:y}", "ß\t", None)) for name in names}


def config_records(rng: random.Random, count: int) -> list[Record]:
    """Records of the config topic, in runs that often belong together."""
    found: list[Record] = []
    while len(found) < count:
        run = _config_run(rng, rng.choice(CONNECTORS), rng.randrange(4))
        found += [(key, _damaged(rng, value)) for key, value in run]
    return found


def _config_run(rng: random.Random, name: str, tasks: int) -> list[Record]:
    makers: tuple[Callable[[], list[Record]], ...] = (
        lambda: [(f"connector-{name}", _text({"properties": properties(rng)}))],
        lambda: [
            *((f"task-{name}-{i}", _text({"properties": properties(rng)})) for i in _most(rng, tasks)),
            (f"commit-{name}", _text({"tasks": tasks})),
        ],
        lambda: [(f"target-state-{name}", _state(rng))],
        lambda: [(f"connector-{name}", None), (f"target-state-{name}", None)],
        lambda: [(f"tasks-fencing-{name}", _text({"task-count": tasks}))],
        lambda: [("session-key", _session_key(rng))],
        lambda: [(f"restart-connector-{name}", _restart(rng))],
        lambda: [(f"logger-cluster-org.{name}", _text({"level": rng.choice(("DEBUG", "WARN", 3))}))],
        lambda: [(rng.choice(("", "task-", "task-a", "task-a-x", "connector-", "other")), "{}")],
        lambda: [(f"task-{name}-{number}", '{"properties":{}}') for number in ("-1", "+2", "7-", 1 << 31)],
    )
    [make] = rng.choices(makers, (20, 30, 12, 6, 8, 3, 4, 3, 3, 1))
    return make()


def _most(rng: random.Random, count: int) -> list[int]:
    """Most of the numbers below this one, as compaction leaves them."""
    return [number for number in range(count) if rng.random() < 0.9]


def _state(rng: random.Random) -> str:
    state = rng.choice(STATES)
    value = {"state": "PAUSED" if state == "STOPPED" else state, "state.v2": state}
    value = {name: value[name] for name in value if rng.random() < 0.8}
    return _text(value)


def _session_key(rng: random.Random) -> str:
    key = base64.b64encode(rng.randbytes(rng.randrange(1, 20))).decode().rstrip("=" * rng.randrange(2))
    return _text({"key": key, "algorithm": "HmacSHA256", "creation-timestamp": rng.choice((1, 2.5, 1 << 40))})


def _restart(rng: random.Random) -> str:
    value = {"include-tasks": rng.choice((True, False, 1)), "only-failed": rng.choice((True, False, None))}
    return _text({name: value[name] for name in value if rng.random() < 0.9})


def status_records(rng: random.Random, count: int) -> list[Record]:
    """Records of the status topic."""
    found: list[Record] = []
    for _ in range(count):
        name = rng.choice(CONNECTORS)
        topic = rng.choice(("t", "t.x", ""))
        key = rng.choice(
            (
                f"status-connector-{name}",
                f"status-task-{name}-{rng.randrange(3)}",
                f"status-task-{name}-{rng.randrange(3)}",
                f"status-topic-{topic}:connector-{name}",
                rng.choice(("status-task-a", "status-connector-", "status-topic-x", "status-topic-x:c", "z")),
            )
        )
        if key.startswith("status-topic"):
            status: dict[str, Any] = {"topic": {"name": topic, "connector": name, "task": 1}}
            status["topic"] |= {"discoverTimestamp": rng.choice((1 << 41, 5, 5, "x"))}
        else:
            status = {
                "state": rng.choice(("RUNNING", "RUNNING", "UNASSIGNED", "FAILED", "DESTROYED", "NONE")),
                "trace": rng.choice((None, "at x\n\tat y")),
                "worker_id": rng.choice(("w1:8083", "w2:8083")),
                "generation": rng.choice((1, 2, 3, 3, 2.5)),
                "version": rng.choice((None, "1.0", 1)),
            }
            status = {each: status[each] for each in status if rng.random() < 0.97}
        value = None if rng.random() < 0.15 else _text(status)
        found.append((key, _damaged(rng, value)))
    return found


def offset_records(rng: random.Random, count: int) -> list[Record]:
    """Records of an offset topic. Names in a partition keep one order, as those of a connector do."""
    found: list[Record] = []
    for _ in range(count):
        partition = rng.choice(
            ({"file": f"f{rng.randrange(4)}"}, {"db": "é", "id": rng.randrange(3)}, {}, None)
        )
        key = _text([rng.choice(("a", "b-c", 'é"')), partition])
        if rng.random() < 0.05:
            key = rng.choice(("[]", '["a"]', '["a",7]', "{}", "x", "[1,{}]", '["a",{},1]'))
        value = rng.choice((None, _text({"position": rng.randrange(9)}), _text({"lsn": 1 << 40, "x": None})))
        found.append((key, value))
    return found
