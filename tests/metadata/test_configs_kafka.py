"""The reference of configs, row by row against the classes of the target release."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_node import run_java
from penstock.metadata.configs import ConfigKey
from penstock.metadata.configs.reference import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

OWNERS: Mapping[str, Mapping[str, ConfigKey]] = {
    "broker": BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client_metrics": CLIENT_METRICS_KEYS,
}


def row(owner: str, key: ConfigKey) -> str:
    """A row as `KafkaConfigs.java` prints it for the same key."""
    return "\t".join(
        (
            owner,
            key.name,
            key.type.name,
            "required" if key.required else "null" if key.default is None else f"={key.default}",
            "internal" if key.internal else "",
            key.update_mode.value,
            ",".join(key.synonyms),
            _range(key.expected),
        )
    )


AUTHORIZERS = ("super.users", "allow.everyone.if.no.acl.found")
"""The settings that StandardAuthorizer reads, which Apache Kafka does not define."""


def is_kafkas(key: ConfigKey) -> bool:
    return not key.name.startswith(("penstock.", "confluent.")) and key.name not in AUTHORIZERS


def _range(expected: str) -> str:
    match = re.fullmatch(r"\[(\S+)\.\.(\S*)\]", expected)
    return "" if match is None else f"[{match[1]},...{',' + match[2] if match[2] else ''}]"


def test_every_config_is_as_kafka_has_it(kafka_libs: Path) -> None:
    kafkas = run_java(kafka_libs, str(Path(__file__).with_name("KafkaConfigs.java"))).splitlines()
    ours = [row(owner, key) for owner, keys in OWNERS.items() for key in keys.values() if is_kafkas(key)]
    assert len(kafkas) > 400
    assert sorted(ours) == sorted(kafkas)
