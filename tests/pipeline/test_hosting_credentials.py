"""The plans of a host's members are stored without credentials, and read with those of the host."""

from __future__ import annotations

import zlib
from base64 import b85decode
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from streams_without_spark import plan_of

from penstock.client.config import ClientConfig
from penstock.registry.client.config import RegistryConfig
from penstock.spark.hosting.credentials import Credentials, MissingCredentials
from penstock.spark.hosting.plan import MemberPlan, plan_file, read_plan
from penstock.spark.sink.locations import Location
from penstock.streams import App, string
from penstock.topology.graph import Source
from penstock.topology.serdes import Serde

PASSWORD, LATER = "hidden-4711", "hidden-0815"
REGISTRY = {"schema.registry.url": "http://127.0.0.1:1", "basic.auth.credentials.source": "USER_INFO"}


def serialize(registry: RegistryConfig, text: str) -> bytes:
    return text.encode()


def registered(registry: RegistryConfig) -> Serde[str]:
    """A serde that asks a registry."""
    return Serde(partial(serialize, registry), bytes.decode)


def client(password: str, **more: str) -> ClientConfig:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return ClientConfig.from_properties(
        {
            "bootstrap.servers": "127.0.0.1:9",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="a" password="{password}";',
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def registry(password: str) -> RegistryConfig:
    return RegistryConfig.from_properties({**REGISTRY, "basic.auth.user.info": f"a:{password}"})


@pytest.fixture
def stored(tmp_path: Path) -> Location:
    """The place of a stored plan that logs in by PASSWORD."""
    app = App("member", key=string, value=registered(registry(PASSWORD)))
    app.stream("in").to("out")
    plan = plan_of(app, {"in": 1, "out": 1})
    member = MemberPlan(
        plan.topology,
        plan.partition_counts,
        plan.shuffle_partitions,
        replace(
            plan.source, client=client(PASSWORD), task_client=client(PASSWORD, default_api_timeout_ms="7")
        ),
        replace(plan.sink, client=client(PASSWORD)),
    )
    where = Location.open(str(tmp_path), "checkpoint")
    plan_file(where, "1-a").write(member.stored())
    return where


def test_a_stored_plan_has_no_passwords(stored: Location) -> None:
    content = plan_file(stored, "1-a").read()
    assert content is not None
    pickled = zlib.decompress(b85decode(content))
    assert b"127.0.0.1" in pickled
    assert PASSWORD.encode() not in pickled


def test_it_is_read_with_the_passwords_of_today(stored: Location) -> None:
    plan = read_plan(stored, "1-a", Credentials(client(LATER), registry(LATER)))
    assert plan.source.client == plan.sink.client == client(LATER)
    assert plan.source.task_client == client(LATER, default_api_timeout_ms="7")
    (source,) = [node for node in plan.topology.nodes.values() if isinstance(node, Source)]
    assert source.value.serialize.args == (registry(LATER),)  # type: ignore[attr-defined]


def test_a_host_without_the_registry_says_what_is_missing(stored: Location) -> None:
    with pytest.raises(MissingCredentials, match="logs in to the schema registry at http://"):
        read_plan(stored, "1-a", Credentials(client(LATER)))
