"""A small language for client quotas: a request to a node and, indented below it, the answer.

    alter ENTITY KEY=VALUE ... [/ ENTITY KEY=VALUE ...]     validate ...   (the same, with validate_only)
    describe [strict] [TYPE:NAME ...]
    create NAME COUNT [v=VERSION]    add NAME COUNT [v=VERSION]    delete NAME [v=VERSION]

ENTITY is words TYPE:NAME; the name - is the default, and in filters * is any name. KEY= removes a quota. Each
request has a connection of its own, as a throttled one is muted. Lines that begin with # are prose.
"""

import shlex
import time
from collections.abc import Iterator

from broker_wire import Wire
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode

TIMEOUT_MS = 20_000
ANSWER = "    "


def converse(bootstrap_servers: str, script: str, settle_s: float = 0.0) -> str:
    """The script with the answers of this node, which gets `settle_s` after each change of quotas."""
    return "\n".join(_lines(bootstrap_servers, script, settle_s)) + "\n"


def _lines(bootstrap_servers: str, script: str, settle_s: float) -> Iterator[str]:
    for line in script.splitlines():
        if line.startswith(ANSWER):
            continue
        yield line
        if line and not line.startswith("#"):
            command, *words = shlex.split(line)
            with Wire(bootstrap_servers) as wire:
                yield from (ANSWER + answer for answer in COMMANDS[command](wire, command, words))
            if command == "alter":
                time.sleep(settle_s)


def outcome(code: int, message: str | None = None) -> str:
    name = ErrorCode.of(code).name
    return f"{name}: {message}" if message else name


def _alter(wire: Wire, command: str, words: list[str]) -> Iterator[str]:
    entries = []
    for part in " ".join(words).split(" / "):
        entry = m.AlterClientQuotasRequest.EntryData()
        for word in part.split():
            key, is_op, value = word.partition("=")
            if is_op:
                op = m.AlterClientQuotasRequest.OpData(key=key, value=float(value or 0), remove=not value)
                entry.ops.append(op)
            else:
                kind, name = _named(word)
                entry.entity.append(m.AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name))
        entries.append(entry)
    request = m.AlterClientQuotasRequest(entries=entries, validate_only=command == "validate")
    results = wire.ask(request, m.AlterClientQuotasResponse).entries
    yield from sorted(
        f"{_entity(result.entity)} {outcome(result.error_code, result.error_message)}" for result in results
    )


def _describe(wire: Wire, _command: str, words: list[str]) -> list[str]:
    component = m.DescribeClientQuotasRequest.ComponentData
    components = []
    for kind, name in map(_named, (word for word in words if word != "strict")):
        match_type = {None: 1, "*": 2}.get(name, 0)
        match = None if match_type else name
        components.append(component(entity_type=kind, match_type=match_type, match=match))
    request = m.DescribeClientQuotasRequest(components=components, strict="strict" in words)
    response = wire.ask(request, m.DescribeClientQuotasResponse)
    if response.entries is None:
        return [outcome(response.error_code, response.error_message)]
    return sorted(
        f"{_entity(entry.entity)} {' '.join(sorted(f'{value.key}={value.value}' for value in entry.values))}"
        for entry in response.entries
    )


def _named(word: str) -> tuple[str, str | None]:
    kind, _, name = word.partition(":")
    return kind, None if name == "-" else name


def _entity(
    parts: list[m.AlterClientQuotasResponse.EntityData] | list[m.DescribeClientQuotasResponse.EntityData],
) -> str:
    return (
        " ".join(
            sorted(
                f"{part.entity_type}:{'-' if part.entity_name is None else part.entity_name}"
                for part in parts
            )
        )
        or "nobody"
    )


def _mutate(wire: Wire, command: str, words: list[str]) -> list[str]:
    name, *numbers = words
    version = next((int(word[2:]) for word in numbers if word.startswith("v=")), None)
    count = int(numbers[0]) if command != "delete" else 0
    response: m.CreateTopicsResponse | m.CreatePartitionsResponse | m.DeleteTopicsResponse
    if command == "create":
        new = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        creation = m.CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_MS)
        response = wire.ask(creation, m.CreateTopicsResponse, version)
        code, message = response.topics[0].error_code, response.topics[0].error_message
    elif command == "add":
        more = m.CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        addition = m.CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS)
        response = wire.ask(addition, m.CreatePartitionsResponse, version)
        code, message = response.results[0].error_code, response.results[0].error_message
    else:
        old = m.DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
        by_state = m.DeleteTopicsRequest.DeleteTopicState(name=name)
        deletion = old if version else m.DeleteTopicsRequest(topics=[by_state], timeout_ms=TIMEOUT_MS)
        response = wire.ask(deletion, m.DeleteTopicsResponse, version)
        code, message = response.responses[0].error_code, response.responses[0].error_message
    throttled = ", throttled" if response.throttle_time_ms else ""
    return [outcome(code, message) + throttled]


COMMANDS = {
    "alter": _alter,
    "validate": _alter,
    "describe": _describe,
    "create": _mutate,
    "add": _mutate,
    "delete": _mutate,
}
