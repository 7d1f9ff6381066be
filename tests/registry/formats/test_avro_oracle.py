"""Schemas and verdicts compared with Avro's own Java library, on random schemas and on the text cases."""

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from avro_schemas import Schemas
from filelock import FileLock
from schema_cases import cases

from kafka_node import java_command
from maven_jars import cache_root, jars_of
from penstock.registry.formats import Reference, parse
from penstock.registry.formats.references import Found

HERE = Path(__file__).parent
ROUNDS = 150


@pytest.fixture(scope="module")
def ask():
    """A function that sends questions to one process."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "avro.lock"):
        jars = jars_of(HERE / "avro_pom.xml", "avro-1.12.1")

    command = java_command(jars, str(HERE / "AvroOracle.java"))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
            answers = []
            for question in questions:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
                answers.append(json.loads(process.stdout.readline()))
            return answers

        yield ask
        process.stdin.close()


def found_here(reader: str, writer: str) -> list[tuple[str, str, str | None]]:
    found = parse("AVRO", reader).incompatibilities(parse("AVRO", writer))
    return [(each.kind, each.path, each.detail) for each in found]


def has_union(text: str) -> bool:
    return "[" in text.replace('"fields": [', "").replace('"fields":[', "")


def test_random_schemas(ask) -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    schemas = Schemas(random)
    questions = []
    for _ in range(ROUNDS):
        writer = schemas.record()
        questions.append({"reader": json.dumps(schemas.follow(writer)), "writer": json.dumps(writer)})
    compatible = 0
    for question, answer in zip(questions, ask(questions), strict=True):
        reader, writer = question["reader"], question["writer"]
        if "error" in answer:
            with pytest.raises(ValueError, match=r"\S"):
                parse("AVRO", reader)
            continue
        assert parse("AVRO", reader).canonical() == answer["printed"], question
        here, there = found_here(reader, writer), [tuple(each) for each in answer["found"]]
        compatible += not there
        if has_union(reader + writer):  # the library restarts paths inside unions
            here, there = ([(kind, detail) for kind, _, detail in side] for side in (here, there))
        assert here == there, question
    assert 0 < compatible < ROUNDS


def test_the_cases_are_avros(ask) -> None:
    compatibility = cases("avro_compatibility")
    questions = [
        {"reader": case.sections[reader], "writer": case.sections[writer]}
        for case in compatibility
        for reader, writer in (("new", "old"), ("old", "new"))
    ]
    for question, answer in zip(questions, ask(questions), strict=True):
        here = [(kind, detail) for kind, _, detail in found_here(question["reader"], question["writer"])]
        assert here == [(kind, detail) for kind, _, detail in answer["found"]], question
    texts = [{"reader": case.sections["schema"]} for case in cases("avro_text")]
    for question, answer in zip(texts, ask(texts), strict=True):
        assert parse("AVRO", question["reader"]).canonical() == answer["printed"]


def test_what_is_refused_is_refused_there(ask) -> None:
    # The library reads a number out of range, as infinite.
    texts = [case.sections["schema"] for case in cases("avro_errors") if "1e9999" not in case.title]
    answers = ask([{"reader": text} for text in texts])
    assert [text for text, answer in zip(texts, answers, strict=True) if "error" not in answer] == []


def test_references(ask) -> None:
    address = (
        '{"type":"record","name":"n.Address","fields":[{"name":"city","type":'
        '{"type":"enum","name":"City","symbols":["ULM"]}}]}'
    )
    text = (
        '{"type":"record","name":"n.Person","fields":[{"name":"home","type":"n.Address"},'
        '{"name":"born","type":"City"}]}'
    )
    (answer,) = ask([{"reader": text, "references": [address]}])
    schema = parse("AVRO", text, [Reference("n.Address", "a", 1)], lambda _: Found(address))
    assert schema.canonical() == answer["printed"]
    assert schema.formatted("resolved") == answer["resolved"]
