"""The reference of configs: valid values, and errors for invalid ones."""

import re

import pytest

from penstock.metadata.configs import ConfigKey, ConfigType, InvalidConfig, UpdateMode
from penstock.metadata.configs.definition import ConfigValue
from penstock.metadata.configs.reference import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    broker_key,
    strip_listener_prefix,
)

ALL_KEYS = [
    key for keys in (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS) for key in keys.values()
]


def test_every_default_is_a_value_of_its_key() -> None:
    for key in ALL_KEYS:
        if key.default is not None:
            key.parse(key.default)


def test_every_key_is_explained_in_a_sentence() -> None:
    for key in ALL_KEYS:
        assert key.doc.endswith("."), key.name
        assert key.doc[0].isupper() or key.doc.startswith("SO_"), key.name


NAMES_A_PLACE = re.compile(r"url|endpoint|location|(^|\.)files?$|class|jaas|provider|cmd|script")


def test_no_request_changes_what_a_node_reads_or_loads_from_elsewhere() -> None:
    """As in CVE-2025-27817. Stores of TLS can be renewed; the others here have no effect on a node."""
    changed = {
        key.name
        for key in ALL_KEYS
        if NAMES_A_PLACE.search(key.name) and key.update_mode is not UpdateMode.READ_ONLY
    }
    assert changed == {
        "config.providers",  # only a file is resolved
        "principal.builder.class",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.keystore.location",
        "ssl.provider",
        "ssl.truststore.location",
    }


def test_topics_and_groups_take_their_defaults_from_broker_configs_that_exist() -> None:
    for key in (*TOPIC_KEYS.values(), *GROUP_KEYS.values()):
        for synonym in key.synonyms:
            assert synonym in BROKER_KEYS, key.name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 5 ", 5),
        ("retention.ms", "+5", 5),
        ("preallocate", "TRUE", True),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("cleanup.policy", "compact , delete", ["compact", "delete"]),
        ("cleanup.policy", "", []),
        ("leader.replication.throttled.replicas", "*", ["*"]),
        ("leader.replication.throttled.replicas", "0:1,1:2", ["0:1", "1:2"]),
        ("compression.gzip.level", "-1", -1),
        ("compression.zstd.level", "-131072", -131072),
    ],
)
def test_topic_values_are_typed(name: str, text: str, value: ConfigValue) -> None:
    assert TOPIC_KEYS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "retention.ms",
            "abc",
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "9" * 19, f"Invalid value {'9' * 19} for configuration retention.ms: Not a number"),
        ("retention.ms", "9" * 5000, "Not a number of type LONG"),
        ("segment.bytes", "3000000000", "Not a number of type INT"),
        ("retention.ms", "1h", "Not a number of type LONG, expected milliseconds: 1h is 3600000"),
        ("retention.ms", "2 fortnights", "Not a number of type LONG, expected milliseconds"),
        ("segment.bytes", "1GiB", "Not a number of type INT, expected bytes: 1GiB is 1073741824"),
        ("segment.bytes", "1GB", "Not a number of type INT, expected bytes"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("preallocate", "maybe", "Expected value to be either true or false"),
        (
            "cleanup.policy",
            "delete,foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of",
        ),
        ("compression.type", "foo", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("leader.replication.throttled.replicas", "1:", "must be the literal '*' or a list of replicas"),
    ],
)
def test_wrong_topic_values_are_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        TOPIC_KEYS[name].parse(text)
    assert message in str(refused.value)
    assert refused.value.key == name


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("earliest", True),
        ("by_duration:P1DT2H", True),
        ("by_duration:PT1.5S", True),
        ("by_duration:P", False),
        ("by_duration:PT", False),
        ("by_duration:1D", False),
        ("none", False),
    ],
)
def test_share_groups_begin_at_a_known_place(text: str, fits: bool) -> None:
    key = GROUP_KEYS["share.auto.offset.reset"]
    if fits:
        assert key.parse(text) == text
    else:
        with pytest.raises(InvalidConfig):
            key.parse(text)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("listener.name.external.max.connections", "max.connections"),
        ("listener.name.external.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.security.protocol.map", "listener.security.protocol.map"),
        ("max.connections", "max.connections"),
    ],
)
def test_a_listener_may_have_a_config_of_its_own(name: str, plain: str) -> None:
    assert strip_listener_prefix(name) == plain
    assert broker_key(name) == BROKER_KEYS[plain]


def test_a_row_of_the_reference() -> None:
    key: ConfigKey = BROKER_KEYS["log.cleaner.threads"]
    assert key.type is ConfigType.INT
    assert key.default == "1"
    assert key.expected == "[0..]"
    assert key.update_mode is UpdateMode.CLUSTER_WIDE
    assert not key.sensitive
    assert BROKER_KEYS["ssl.key.password"].sensitive
    assert BROKER_KEYS["internal.metadata.log.segment.bytes"].internal
