"""The keys of workers, connectors and clients are those of Kafka Connect, but for their documentation."""

import json
import os
import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.connect.configs.clients import ClientType, client_definition
from penstock.connect.configs.connector import connector_definition
from penstock.connect.configs.sink import sink_definition
from penstock.connect.configs.source import source_definition
from penstock.connect.configs.topic_creation import (
    creation_groups,
    default_group_definition,
    group_definition,
)
from penstock.connect.configs.worker import distributed_definition, standalone_definition
from penstock.connect.definitions.config_def import ConfigDef, ConfigKey, ConfigType
from penstock.connect.definitions.config_types import printed
from penstock.connect.errors import ConfigInvalid

DEFINITIONS: dict[str, Callable[[], ConfigDef]] = {
    "distributed": distributed_definition,
    "standalone": standalone_definition,
    "connector": connector_definition,
    "source": source_definition,
    "sink": sink_definition,
    "topic_creation": lambda: group_definition("mine", 2, 7),
    "topic_creation_default": default_group_definition,
    **{client.name.lower(): partial(client_definition, client) for client in ClientType},
}
SOURCE = Path(__file__).with_name("ConnectDefinitions.java")
CASES = repetitions("PENSTOCK_CONNECT_CONFIG_CASES", gate=2_000, long=100_000)
NUMBERS = ("0", "1", "-1", "-2", "5", " 7 ", "901", "99999", "0.5", "0.2", "1.5", "x", "", "2147483648")
WORDS = {
    "client.dns.lookup": ("use_all_dns_ips", "default", ""),
    "plugin.discovery": ("ONLY_SCAN", "service_load", "none"),
    "metrics.recording.level": ("INFO", "info", "TRACE"),
    "listeners": ("http://:8083", "", "http://a, ,http://b", ",", "http://a,https://b"),
    "response.http.headers.config": (
        *(
            "add Cache-Control: no-cache",
            "set  X:1",
            "",
            " ",
            "add",
            "drop X:1",
            "ADD X Y:1",
            "add :1",
            "add X:",
        ),
        *("add a:b:c", "setDate Expires: 5, addDate Date: 6", '"add Cache-Control: no-cache, no-store"'),
        *(
            '"add X: 1", set Y: 2',
            '"add X: \\"1\\"" , x',
            'add X: "1"',
            '"add X: 1',
            ", add X: 1",
            "add X:: 1",
        ),
    ),
    "ssl.client.auth": ("required", "REQUIRED", "no"),
    "exactly.once.source.support": ("Enabled", "preparing", "yes"),
    "security.protocol": ("ssl", "SASL_SSL", "TLS"),
    "sasl.oauthbearer.assertion.algorithm": ("es256", "HS256"),
    "connect.protocol": ("eager", "SESSIONED", "default", ""),
    "inter.worker.verification.algorithms": ("HmacSHA256", "HmacSHA256,HmacSHA512", ""),
    "metadata.recovery.strategy": ("None", "rebootstrap", "x"),
    "name": ("a", "", "a\tb", "ä\x85"),
    "config.action.reload": ("none", "RESTART"),
    "errors.tolerance": ("all", "ALL", ""),
    "exactly.once.support": ("REQUIRED", "requested", "no"),
    "transaction.boundary": ("Poll", "connector", "never"),
    "connector.plugin.version": (
        "1.0",
        "[1.0,2.0)",
        "[1.0",
        "(1.0)",
        "[2,1]",
        "[1,2],[1.5,3]",
        "latest",
        "[1,2]x",
    ),
}
TOPICS = ["a", "ab", "status.x", "status", "b.c", ""]
GROUP_VALUES = {
    "include": ("a.*", "status.*, b", ".*", "", "[", "a|b"),
    "exclude": ("ab", ".*x", "", "s.*"),
    "replication.factor": ("3", "-1", "1", "0", "x"),
    "partitions": ("5", "-1", "1", "0"),
    "cleanup.policy": ("compact",),
}
LISTS = ("", "a", "a,b", "a,a", "a,,b", " a , b ", ",")


@pytest.fixture(scope="module")
def kafkas(kafka_libs: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(run_java(kafka_libs, str(SOURCE)))
    return found


def shown(key: ConfigKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": key.type.name,
        "required": not key.has_default,
        "default": printed(key.default) if key.has_default else None,
        "validator": None if key.validator is None else str(key.validator),
        "importance": key.importance.name,
        "group": key.group,
        "order": key.order,
        "width": key.width.name,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
    }


def keys_of(definition: ConfigDef) -> list[dict[str, Any]]:
    return [shown(key) for key in definition.keys.values()]


def without(keys: Iterable[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in key.items() if name not in names} for key in keys]


@pytest.mark.parametrize("name", list(DEFINITIONS)[:7])
def test_keys_are_those_of_connect(kafkas: dict[str, list[dict[str, Any]]], name: str) -> None:
    ours = keys_of(DEFINITIONS[name]())
    theirs = without(kafkas[name], "internal")
    versions = {key["name"] for key in theirs if "PluginVersionValidator" in (key["validator"] or "")}
    for key in (*ours, *theirs):
        if key["name"] in versions:
            key["validator"] = "a version"  # Java prints the address of the object
    assert ours == theirs


@pytest.mark.parametrize("name", list(DEFINITIONS)[7:])
def test_keys_of_clients_are_those_of_kafka(kafkas: dict[str, list[dict[str, Any]]], name: str) -> None:
    ours = keys_of(DEFINITIONS[name]())
    theirs = [key for key in kafkas[name] if not key["internal"]]
    order = {key["name"]: index for index, key in enumerate(theirs)}
    ours.sort(key=lambda key: order.get(key["name"], -1))
    assert without(ours, "validator") == without(theirs, "internal", "validator")


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_key_is_documented(name: str) -> None:
    assert not [key.name for key in DEFINITIONS[name]().keys.values() if not key.doc.endswith(".")]


def random_value(chance: random.Random, key: ConfigKey) -> str:
    if key.name in WORDS:
        return chance.choice(WORDS[key.name])
    match key.type:
        case ConfigType.LIST:
            return chance.choice(LISTS)
        case ConfigType.BOOLEAN:
            return chance.choice(("true", "False", "1", ""))
        case ConfigType.STRING | ConfigType.PASSWORD | ConfigType.CLASS:
            return "java.lang.String"
        case _:
            return chance.choice(NUMBERS)


def random_groups(chance: random.Random) -> dict[str, str]:
    """The configuration of a source with groups of topics."""
    properties = {"name": "s1", "connector.class": "FileStreamSource"}
    if chance.random() < 0.9:
        properties["topic.creation.groups"] = chance.choice(("a", "a,b", "b, a", "default,a", ""))
    for group in ("default", "a", "b"):
        for key, values in GROUP_VALUES.items():
            is_required = group == "default" and key in ("replication.factor", "partitions")
            if chance.random() < (0.95 if is_required else 0.4):
                properties[f"topic.creation.{group}.{key}"] = chance.choice(values)
    return properties


def our_groups(properties: dict[str, str]) -> Any:
    try:
        groups = creation_groups(properties)
    except ConfigInvalid as error:
        return str(error)
    return [
        [
            *(group.name, [topic for topic in TOPICS if group.matches(topic)]),
            *(group.replication_factor, group.partitions, group.configs),
        ]
        for group in groups
    ]


@pytest.mark.longer
def test_groups_of_topics_are_those_of_connect(kafka_libs: Path, tmp_path: Path) -> None:
    chance = seeded()
    questions = [random_groups(chance) for _ in range(CASES // 4)]
    asked = tmp_path / "questions"
    lines = [json.dumps(["groups", properties, TOPICS]) for properties in questions]
    asked.write_text("".join(f"{line}\n" for line in lines))
    answers = run_java(kafka_libs, str(SOURCE), str(asked)).splitlines()
    for properties, line in zip(questions, answers, strict=True):
        ours, theirs = our_groups(properties), json.loads(line)
        if isinstance(theirs, str):
            assert isinstance(ours, str), properties  # which of several errors is the first differs
        else:  # Connect tries the default group last, also if the configuration lists it
            assert ours == sorted(theirs, key=lambda group: group[0] == "default"), properties


def seeded() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


@pytest.mark.longer
def test_random_configurations_have_the_errors_of_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    chance = seeded()
    names = list(DEFINITIONS)[:7]
    definitions = {name: DEFINITIONS[name]() for name in names}
    questions = []
    for _ in range(CASES):
        name = chance.choice(names)
        keys = list(definitions[name].keys.values())
        chosen = chance.sample(keys, min(len(keys), chance.randint(1, 12)))
        required = [key for key in keys if not key.has_default and chance.random() < 0.9]
        properties = {key.name: "1" for key in required} | {
            key.name: random_value(chance, key) for key in chosen if "converter" not in key.name
        }
        questions.append((name, properties))
    asked = tmp_path / "questions"
    asked.write_text("".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
    answers = [json.loads(line) for line in run_java(kafka_libs, str(SOURCE), str(asked)).strip().split("\n")]
    for (name, properties), theirs in zip(questions, answers, strict=True):
        values = definitions[name].validate(properties, find_class)
        errors = {value.name: value.errors for value in values if value.errors}
        if theirs is not None:
            assert comparable(errors) == comparable(theirs), (name, properties)
    assert answers.count(None) < CASES // 2


def find_class(name: str) -> str | None:
    return name if name == "java.lang.String" else None


def comparable(errors: dict[str, list[str]]) -> dict[str, list[str]]:
    """Errors without the lists of algorithms, which differ, and without what is wrong in a pattern."""
    ends = ("the algorithm is not supported", "Invalid regex", "Syntax error in regular expression")
    return {
        name: [min((error.partition(end)[0] for end in ends), key=len) for error in found]
        for name, found in errors.items()
    }
