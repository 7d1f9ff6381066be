"""Random configurations of connectors get the same validation as from Kafka Connect's herders in a JVM."""

import os
import random
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from connect_validation_jvm import CONNECT, ask, plugins_like
from oracle_plugins import JAVA

from long_run import repetitions
from penstock.connect.errors import ConfigInvalid
from penstock.connect.plugins.plugin import PluginKind
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.validation.connector_validation import ConnectorValidator

ROUNDS = repetitions("PENSTOCK_CONNECT_VALIDATION_ROUNDS", gate=1, long=40)
CASES = 500
"""Configurations in one round; the answers of more would fill the memory."""
COMMON = {"bootstrap.servers": "127.0.0.1:1", "key.converter": "JsonConverter", "value.converter": "String"}
TOPICS = {f"{store}.storage.topic": store for store in ("config", "offset", "status")}
POLICY = "connector.client.config.override.policy"
WORKERS = [
    {**COMMON, "offset.storage.file.filename": "offsets"},
    {
        **COMMON,
        **TOPICS,
        "group.id": "connect-s1",
        "exactly.once.source.support": "enabled",
        POLICY: "None",
        "header.converter": "StringConverter",
        "key.converter.plugin.version": "4.3.1",
    },
    {
        **COMMON,
        **TOPICS,
        "group.id": "mine",
        "value.converter": f"{JAVA}OracleConverter",
        POLICY: "Allowlist",
        "connector.client.config.override.allowlist": "linger.ms,group.id",
    },
    {
        **COMMON,
        **TOPICS,
        "group.id": "connect-other",
        POLICY: "Principal",
        "exactly.once.source.support": "preparing",
    },
]
CONNECTORS = (
    *(
        "FileStreamSource",
        "FileStreamSink",
        "FileStreamSourceConnector",
        "OracleSource",
        f"{JAVA}OracleSource",
    ),
    f"{CONNECT}file.FileStreamSinkConnector",
)
STRANGE = ("Nope", "", f"{CONNECT}json.JsonConverter", "JsonConverter", f"{CONNECT}transforms.Cast")
SHIPPED = {kind: [] for kind in PluginKind}  # type: dict[PluginKind, list[str]]
for plugin in shipped_plugins():
    SHIPPED[plugin.kind].append(plugin.name)
TYPES = {
    "transforms": (
        *("OracleTransform", f"{JAVA}OracleTransform", "Cast", f"{CONNECT}transforms.Cast", *STRANGE),
        *SHIPPED[PluginKind.TRANSFORMATION],
    ),
    "predicates": (
        *("OraclePredicate", f"{JAVA}OraclePredicate", "OracleTransform", *STRANGE[:4]),
        *SHIPPED[PluginKind.PREDICATE],
    ),
}
VERSIONS = (
    "1.2.0",
    "4.3.1",
    "2.0",
    "[1.0,2.0)",
    "[4,5)",
    "[9.0,)",
    "x",
    "",
    "[1",
    "latest",
    "(1.0)",
    "undefined",
)
VALUES: dict[str, tuple[str | None, ...]] = {
    "name": ("s1", "s1", "other", "", "bad\x01", None),
    "tasks.max": ("1", "0", "x", None),
    "tasks.max.enforce": ("false", "x"),
    "config.action.reload": ("none", "later"),
    "errors.tolerance": ("all", "none", "some"),
    "errors.retry.timeout": ("-1", "x"),
    "errors.deadletterqueue.topic.name": ("dead", "a", " ", "a "),
    "errors.deadletterqueue.topic.replication.factor": ("1", "x"),
    "exactly.once.support": ("required", "REQUIRED", "requested", "never"),
    "transaction.boundary": ("connector", "Connector", "poll", "x"),
    "transaction.boundary.interval.ms": ("5", "-5"),
    "offsets.storage.topic": ("mine", "", " "),
    "topic.creation.groups": ("g", "g,g"),
    "topic.creation.default.partitions": ("3",),
    "topics": ("a", "a,b", "a,a", "", " ", "a,,b"),
    "topics.regex": ("a.*", "[", "", "dea?d"),
    "topic": ("t", "", "hidden", None),
    "file": ("f", "", None),
    "mode": ("b", "b", "c", "d", "e"),
    "secret": ("s", None),
    "batch.size": ("1", "9999", "x"),
    "ratio": ("1", "x", "0.25"),
    "names": ("a,b", "a,a", ""),
    "unknown.key": ("x", None),
    "other.unknown.key": ("x", None),
    "third.key": (None,),
    "producer.override.linger.ms": ("5", "x"),
    "producer.override.acks": ("1",),
    "producer.override.unknown": ("1",),
    "producer.override.sasl.mechanism": ("PLAIN",),
    "producer.override.sasl.jaas.config": ("secret",),
    "producer.override.batch.size": ("10",),
    "consumer.override.group.id": ("connect-s1", "mine", "g"),
    "consumer.override.max.poll.records": ("5",),
    "admin.override.retries": ("5",),
    "admin.override.": ("5",),
    "key.converter.size": ("5", "-5"),
    "key.converter.converter.type": ("key", "header"),
    "value.converter.schemas.enable": ("x", "true"),
}
CONVERTERS = (
    *SHIPPED[PluginKind.CONVERTER],
    "OracleConverter",
    f"{JAVA}OracleConverter",
    "Oracle",
    *STRANGE[:2],
    f"{CONNECT}transforms.Cast",
)
OWN_VERSION = re.compile(
    r"(Plugin \S+) has version (\S+) which does not match the required version range (\S+)"
)


def random_connector(chance: random.Random) -> dict[str, str | None]:
    properties: dict[str, str | None] = {"connector.class": chance.choice(CONNECTORS), "name": "s1"}
    if chance.random() < 0.05:
        properties["connector.class"] = chance.choice((*STRANGE, None))
    for name in chance.sample(sorted(VALUES), chance.randint(0, 12)):
        properties[name] = chance.choice(VALUES[name])
    for key in ("key.converter", "value.converter", "header.converter"):
        if chance.random() < 0.3:
            properties[key] = chance.choice(CONVERTERS)
    for key in ("connector", "key.converter", "value.converter", "header.converter"):
        if chance.random() < 0.1:
            properties[f"{key}.plugin.version"] = chance.choice(VERSIONS)
    for key, types in TYPES.items():
        if chance.random() < 0.4:
            properties[key] = chance.choice(("a", "a,b", "a,a", "", "b"))
            for alias in ("a", "b"):
                properties |= random_part(chance, f"{key}.{alias}.", types)
    return properties


def random_part(chance: random.Random, prefix: str, types: tuple[str, ...]) -> dict[str, str | None]:
    """Properties of a transform or a predicate."""
    given = {"type": types, "field": ("f", ""), "count": ("5", "0"), "pattern": ("x",)}
    likely = {"type": 0.9, "field": 0.7}
    found = {
        prefix + name: chance.choice(values)
        for name, values in given.items()
        if chance.random() < likely.get(name, 0.3)
    }
    rare = {"predicate": ("a", "p"), "negate": ("true", "x"), "plugin.version": VERSIONS}
    return {
        **found,
        **{prefix + name: chance.choice(values) for name, values in rare.items() if chance.random() < 0.2},
    }


def comparable(infos: Any) -> Any:
    """A result without documentation, and without what only Java says.

    Keys without definition and overrides of clients are sorted: their order follows the sizes of Java's hash
    tables, which ours are not at some numbers of keys.
    """
    for config in infos["configs"]:
        if config["definition"] is not None:
            config["definition"].pop("documentation", None)
        value = config["value"]
        value["errors"] = [comparable_error(error) for error in value["errors"]]
    infos["configs"].sort(key=place)
    return infos


def place(config: Any) -> tuple[int, str]:
    name = config["value"]["name"]
    if ".override." in name:
        return 2, name
    return (0, name) if config["definition"] is None else (1, "")


def comparable_error(error: str) -> str:
    """An error without the reason why a pattern is not valid.

    Connect has a text of its own for versions of plugins in its own package, as those of this test are.
    """
    error = OWN_VERSION.sub(
        r"\1 not found that matches the version range \3, available versions: [\2]", error
    )
    return error.partition("Invalid regex:")[0]


def assert_equal(ours: Any, theirs: Any, question: object) -> None:
    """Compare two results, and show only what differs."""
    for one, other in zip_longest(ours["configs"], theirs["configs"]):
        assert one == other, question
    assert ours == theirs, question


@pytest.mark.longer
def test_configurations_are_validated_as_by_connect(kafka_libs: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    for index in range(ROUNDS):
        directory = tmp_path / str(index)
        directory.mkdir()
        compare(kafka_libs, directory, chance)


def compare(libs: Path, directory: Path, chance: random.Random) -> None:
    questions: list[list[Any]] = [[chance.randrange(4), random_connector(chance)] for _ in range(CASES)]
    listed, *answers = ask(libs, directory, WORKERS, questions)
    plugins = plugins_like(listed)
    assert [plugin.as_json() for plugin in plugins.installed()] == listed
    validators = [ConnectorValidator(plugins, worker) for worker in WORKERS]
    refused = 0
    for (worker, properties), theirs in zip(questions, answers, strict=True):
        if "error" not in theirs:
            ours = validators[worker].validate(properties).as_json()
            assert_equal(comparable(ours), comparable(theirs), (worker, properties))
        elif theirs["error"] == "BadRequestException":
            with pytest.raises(ConfigInvalid) as caught:
                validators[worker].validate(properties)
            assert str(caught.value) == theirs["message"], properties
        else:  # Connect fails on what it should report
            assert validators[worker].validate(properties).error_count, (properties, theirs)
            refused += 1
    assert refused < CASES // 5
