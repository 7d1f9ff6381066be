"""The groups of topics that a worker creates for a source."""

import pytest

from penstock.connect.configs.topic_creation import creation_groups
from penstock.connect.errors import ConfigInvalid

CONFIG = {
    "name": "s1",
    "topic.creation.groups": "compacted, tiny",
    "topic.creation.default.replication.factor": "3",
    "topic.creation.default.partitions": "5",
    "topic.creation.default.compression.type": "lz4",
    "topic.creation.default.include": "ignored",
    "topic.creation.compacted.include": r"status\..*, state",
    "topic.creation.compacted.exclude": r"status\.x",
    "topic.creation.compacted.cleanup.policy": "compact",
    "topic.creation.tiny.include": ".*t.*",
    "topic.creation.tiny.partitions": "-1",
}


def test_a_topic_gets_the_settings_of_the_first_group_that_has_it() -> None:
    groups = creation_groups(CONFIG)
    found = {
        topic: next(group.name for group in groups if group.matches(topic))
        for topic in ("status.a", "state", "states", "status.x", "other", "else")
    }
    assert found == {
        "status.a": "compacted",
        "state": "compacted",
        "states": "tiny",
        "status.x": "tiny",
        "other": "tiny",
        "else": "default",
    }


def test_a_group_takes_numbers_from_the_default_group() -> None:
    compacted, tiny, default = creation_groups(CONFIG)
    assert [(group.replication_factor, group.partitions) for group in (compacted, tiny, default)] == [
        *[(3, 5), (3, -1), (3, 5)]
    ]
    assert [group.configs for group in (compacted, tiny, default)] == [
        *[{"cleanup.policy": "compact"}, {}, {"compression.type": "lz4"}]
    ]


def test_without_these_keys_there_are_no_groups() -> None:
    assert creation_groups({"name": "s1"}) == []


def test_the_default_group_has_numbers() -> None:
    with pytest.raises(ConfigInvalid, match=r'"topic\.creation\.default\.replication\.factor" which has no'):
        creation_groups({"topic.creation.default.partitions": "1"})
    with pytest.raises(ConfigInvalid, match=r"Number of partitions must be positive, or -1 to"):
        creation_groups({**CONFIG, "topic.creation.tiny.partitions": "0"})
    with pytest.raises(ConfigInvalid, match=r"Syntax error in regular expression"):
        creation_groups({**CONFIG, "topic.creation.tiny.include": "["})
