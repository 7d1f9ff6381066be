"""Configurations of workers are parsed, and checked where several keys concern each other."""

import pytest

from penstock.connect.configs.worker import parse_distributed, standalone_definition
from penstock.connect.errors import ConfigInvalid

BASE = {"bootstrap.servers": "a:1,b:2", "key.converter": "JsonConverter", "value.converter": "Json"}
DISTRIBUTED = {
    **BASE,
    "group.id": "connect",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "status",
}


def test_defaults_of_a_worker() -> None:
    parsed = parse_distributed(DISTRIBUTED)
    assert parsed["bootstrap.servers"] == ["a:1", "b:2"]
    assert parsed["listeners"] == ["http://:8083"]
    assert parsed["offset.storage.partitions"] == 25
    assert parsed["connector.client.config.override.policy"] == "All"
    assert standalone_definition().parse({**BASE, "offset.storage.file.filename": "x"})["plugin.path"] is None


def test_the_algorithm_of_signatures_must_be_verifiable() -> None:
    with pytest.raises(ConfigInvalid, match=r"must be present in inter\.worker\.verification\.algorithms"):
        parse_distributed({**DISTRIBUTED, "inter.worker.signature.algorithm": "HmacSHA512"})
    with pytest.raises(ConfigInvalid, match=r"the algorithm is not supported by this worker"):
        parse_distributed({**DISTRIBUTED, "inter.worker.signature.algorithm": "ROT13"})


def test_a_worker_needs_its_topics() -> None:
    with pytest.raises(ConfigInvalid, match=r'Missing required configuration "config\.storage\.topic"'):
        parse_distributed({**BASE, "group.id": "connect", "offset.storage.topic": "offsets"})
