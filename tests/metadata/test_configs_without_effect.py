"""Every broker config is read somewhere, or the reference says that it has no effect."""

import logging
import re
from pathlib import Path

import pytest

from in_process import run, running_node
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.configs.reference import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from penstock.metadata.configs.support import reason_without_effect, settings_without_effect

SOURCE = Path(__file__).parents[2] / "src" / "penstock"
FLOORS = ("broker", "cli", "consensus", "coordinators", "metadata", "security", "storage")

BY_PART_OF_THE_NAME = {
    "offsets.topic.segment.bytes": "controller.topics.internal_topic",
    "transaction.state.log.segment.bytes": "controller.topics.internal_topic",
    "ssl.allow.dn.changes": "security.tls.settings",
    "ssl.allow.san.changes": "security.tls.settings",
    "ssl.cipher.suites": "security.tls.settings",
    "ssl.enabled.protocols": "security.tls.settings",
    "ssl.endpoint.identification.algorithm": "security.tls.settings",
    **{
        name: "broker.metrics.server.access_settings"
        for name in BROKER_KEYS
        if name.startswith(("penstock.metrics.authentication.", "penstock.metrics.ssl."))
    },
}
"""Configs whose names the code composes where it reads them."""

CHANGED_CAREFULLY = {"num.io.threads", "num.network.threads", "background.threads"}
"""Configs whose changes are validated as Kafka does."""

GIVEN_TO_LIBRDKAFKA = {"sasl.kerberos.kinit.cmd"}
"""Configs of brokers that commands set for librdkafka, which has others under these names."""


def unread() -> set[str]:
    """Configs whose names the node's code does not contain, dotted or as a field's name."""
    texts = [
        path.read_text()
        for floor in FLOORS
        for path in (SOURCE / floor).rglob("*.py")
        if path.parent.name != "tables"
    ]
    words = {word for text in texts for word in re.findall(r'"([\w.]+)"|([a-z]\w+)', text)}
    names = {quoted or field for quoted, field in words}
    defaults = {name for key in (*TOPIC_KEYS.values(), *GROUP_KEYS.values()) for name in key.synonyms}
    return {
        name
        for name in BROKER_KEYS.keys() - defaults - BY_PART_OF_THE_NAME.keys()
        if name not in names and name.replace(".", "_") not in names
    }


def test_what_is_read_by_nobody_says_so() -> None:
    silent = {name for name in unread() if reason_without_effect(BROKER_KEYS[name]) is None}
    assert not silent, "accepted, and without any effect"


def test_what_says_that_it_changes_nothing_is_read_by_nobody() -> None:
    told = {name for name, key in BROKER_KEYS.items() if key.doc.startswith("Accepted for compatibility: ")}
    assert told - unread() == (CHANGED_CAREFULLY & told) | GIVEN_TO_LIBRDKAFKA


def test_a_node_says_at_the_start_what_it_passes_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    settings = {
        "controller.quorum.append.linger.ms": "100",
        "queued.max.requests": "500",
        "listener.name.plaintext.sasl.kerberos.kinit.cmd": "/bin/kinit",
        "num.replica.fetchers": "2",
    }
    config = BrokerConfig.single_node({**settings, "log.dirs": str(tmp_path)})
    assert dict(settings_without_effect(config)) == {
        "controller.quorum.append.linger.ms": (
            "records that arrive during a flush share the next one; no record is delayed"
        ),
        "listener.name.plaintext.sasl.kerberos.kinit.cmd": ("libkrb5 gets tickets from the key table itself"),
    }

    async def scenario() -> None:
        async with running_node(tmp_path, **settings):
            pass

    run(scenario())
    assert sum("changes nothing" in record.message for record in caplog.records) == 2


def test_a_plain_node_is_silent(tmp_path: Path) -> None:
    config = BrokerConfig.single_node({"log.dirs": str(tmp_path)})
    assert not list(settings_without_effect(config))
