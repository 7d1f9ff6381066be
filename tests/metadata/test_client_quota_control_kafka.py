"""Random changes and descriptions of client quotas: the same results as Apache Kafka's own classes."""

import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from controller_bench import ControllerBench

from kafka_node import run_java
from long_run import repetitions
from penstock.broker.api.describe_client_quotas import answer_error, describe
from penstock.metadata.controller.client_quotas import alter_client_quotas, host_names
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ClientQuotaRecord,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    Message,
)

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

REQUESTS = repetitions("PENSTOCK_QUOTA_REQUESTS", gate=4_000, long=200_000)
ENTITIES: list[tuple[str, ...]] = [("user",), ("client-id",), ("user", "client-id"), ("ip",)] * 8
ENTITIES += [("ip", "user"), ("planet",), ("planet", "user"), (), ("client-id", "ip", "user"), ("",)]
NAMES = ("ann", "bert", "ädel=", None) * 4 + ("",)
ADDRESSES = ("10.0.0.1", "::1", "[::1]", None) * 4 + ("", "no:address", "[10.0.0.1", "10.0.0.1]")
KEYS = (
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate") * 4,
    *("connection_creation_rate",) * 3,
    *("", "unknown"),
)
VALUES = (1.0, 2.0, 1024.0, 2.0**31 - 1) * 4 + (
    *(0.0, -1.0, -0.0, 0.5, 1.5, 1e-7, 1 + 1e-7, 1 + 1e-5, 2.0**31, 2.0**63, 2.0**64, 1e300, float("inf")),
)


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def kafkas_answers(libs: Path, scratch: Path, commands: Sequence[str]) -> list[list[bytes]]:
    """The response to each command, and its records."""
    file = scratch / "commands"
    file.write_text("\n".join(commands))
    source = Path(__file__).with_name("KafkaClientQuotas.java")
    answers = run_java(libs, str(source), str(file), timeout_s=500).splitlines()
    assert len(answers) == len(commands)
    return [[bytes.fromhex(word) for word in answer.split("\t")] for answer in answers]


def test_both_alter_and_describe_the_same(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    bench = ControllerBench()
    commands: list[str] = []
    ours: list[tuple[Message, Message, Sequence[Message]]] = []
    for _ in range(REQUESTS):
        if rng.random() < 0.4:
            asked = random_description(rng)
            commands.append(f"describe\t{asked.encode(0).hex()}")
            ours.append((asked, described(bench, asked), []))
        else:
            request = random_alteration(rng)
            commands.append(f"alter\t{request.encode(0).hex()}")
            decision = alter_client_quotas(bench.state, request, host_names(request))
            ours.append((request, bench.commit(decision), decision.records))
    messages = set()
    for (request, response, records), (data, *kafkas_records) in zip(
        ours, kafkas_answers(kafka_libs, tmp_path, commands), strict=True
    ):
        kafkas = type(response).decode(0, data)[0]
        if isinstance(response, DescribeClientQuotasResponse):
            assert isinstance(kafkas, DescribeClientQuotasResponse)
            assert plain_description(response) == plain_description(kafkas), request
            messages.add(response.error_message)
            continue
        assert isinstance(response, AlterClientQuotasResponse)
        assert isinstance(kafkas, AlterClientQuotasResponse)
        assert_same_results(request, response, kafkas)
        theirs = [ClientQuotaRecord.decode(0, record)[0] for record in kafkas_records]
        assert sorted(map(plain_record, records)) == sorted(map(plain_record, theirs)), request
        messages |= {result.error_message for result in kafkas.entries}
    texts = [
        re.sub("entries=.*|entity type: .*|^.*(?= is not a valid IP)", "", text or "") for text in messages
    ]
    assert len(set(texts)) > 35, sorted(set(texts))


def described(bench: ControllerBench, asked: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    steps = describe(bench.image.client_quotas, asked)
    try:
        while True:
            next(steps)
    except StopIteration as done:
        return cast("DescribeClientQuotasResponse", done.value)
    except KafkaError as error:
        return answer_error(asked, error, 0)


def random_names(rng: random.Random) -> list[tuple[str, str | None]]:
    types = rng.choice(ENTITIES)
    names = [(kind, rng.choice(ADDRESSES if kind == "ip" else NAMES)) for kind in types]
    rng.shuffle(names)
    return names


def random_alteration(rng: random.Random) -> AlterClientQuotasRequest:
    entries = [
        AlterClientQuotasRequest.EntryData(
            entity=[
                AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                for kind, name in random_names(rng)
            ],
            ops=[
                AlterClientQuotasRequest.OpData(
                    key=rng.choice(KEYS), value=rng.choice(VALUES), remove=rng.random() < 0.3
                )
                for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))
            ],
        )
        for _ in range(rng.randint(1, 4))
    ]
    return AlterClientQuotasRequest(entries=entries)


def random_description(rng: random.Random) -> DescribeClientQuotasRequest:
    names = random_names(rng)
    if rng.random() < 0.05:
        names += random_names(rng)
    components = []
    for kind, name in names:
        match_type = rng.choice((0, 1, 2) * 10 + (3, -1))
        match = name if (match_type == 0) != (rng.random() < 0.03) else None
        components.append(
            DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=match_type, match=match)
        )
    return DescribeClientQuotasRequest(components=components, strict=rng.random() < 0.5)


def assert_same_results(
    request: Message, ours: AlterClientQuotasResponse, theirs: AlterClientQuotasResponse
) -> None:
    """Compare the results by entity. Kafka's choice among several things that are wrong is a hash's."""
    assert isinstance(request, AlterClientQuotasRequest)
    expected, results = by_entity(ours), by_entity(theirs)
    assert expected.keys() == results.keys()
    for entity, (code, message) in results.items():
        assert code == expected[entity][0], request
        text = expected[entity][1]
        if message != text and not (message and text and is_same_duplicate(message, text)):
            entries = [entry for entry in request.entries if names_of(entry.entity) == entity]
            assert message in problems(entries[0]), request


def by_entity(response: AlterClientQuotasResponse) -> dict[object, tuple[int, str | None]]:
    results = {names_of(each.entity): (each.error_code, each.error_message) for each in response.entries}
    assert len(results) == len(response.entries)
    return results


def names_of(
    entity: Sequence[
        AlterClientQuotasRequest.EntityData
        | AlterClientQuotasResponse.EntityData
        | DescribeClientQuotasResponse.EntityData
        | ClientQuotaRecord.EntityData
    ],
) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entity)


def is_same_duplicate(message: str, other: str) -> bool:
    """Whether both refuse the same entity as a duplicate, with its names in any order."""
    return "duplicate" in message and sorted(re.split("[{}, ]", message)) == sorted(re.split("[{}, ]", other))


def problems(entry: AlterClientQuotasRequest.EntryData) -> set[str | None]:
    """Everything that is wrong with an entry, one by one."""
    found: set[str | None] = set()
    for part in entry.entity:
        if part.entity_type not in ("user", "client-id", "ip"):
            found.add(f"Unhandled client quota entity type: {part.entity_type}")
        elif part.entity_name == "":
            found.add(f"Empty {part.entity_type} not supported")
    for op in entry.ops:
        alone = AlterClientQuotasRequest.EntryData(entity=entry.entity, ops=[op])
        decision = alter_client_quotas(ControllerBench().state, AlterClientQuotasRequest(entries=[alone]))
        found |= {result.error_message for result in decision.response.entries}
    return found


def plain_description(response: DescribeClientQuotasResponse) -> object:
    """The response without the order of entities and values, which is a hash's in Kafka."""
    entries = None
    if response.entries is not None:
        entries = {
            names_of(entry.entity): {value.key: value.value for value in entry.values}
            for entry in response.entries
        }
        assert len(entries) == len(response.entries)
    return response.error_code, response.error_message, entries


def plain_record(record: Message) -> str:
    assert isinstance(record, ClientQuotaRecord)
    names = sorted(names_of(record.entity), key=repr)
    return repr((names, record.key, record.value, record.remove))
