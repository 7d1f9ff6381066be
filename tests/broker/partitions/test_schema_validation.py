"""Topics that validate the schema ids of records, with a registry that answers or doesn't."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from penstock.broker.partitions.schema_validation import NoSchemas, SchemaRule, Strategy, refused
from penstock.cli.schema_ids import KEPT_S, RegisteredIds
from penstock.processes.memory import bound_memory
from penstock.protocol.records import Record
from penstock.registry.api.server import RegistryServer
from penstock.registry.client.errors import RegistryUnreachable
from penstock.testing import Cluster
from waiting import wait_until

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]})


class Known:
    """A registry that knows the given schemas and counts its requests."""

    def __init__(self, subjects: dict[int, set[str]], aliases: dict[str, str] | None = None) -> None:
        self.subjects = subjects
        self.aliases = aliases or {}
        self.asked: list[tuple[int, bool]] = []

    def subjects_of(self, schema_id: int, *, fresh: bool = False) -> Collection[str]:
        self.asked.append((schema_id, fresh))
        return self.subjects.get(schema_id, set())

    def alias_of(self, subject: str, *, fresh: bool = False) -> str | None:
        return self.aliases.get(subject)


def of(schema_id: int) -> bytes:
    return struct.pack(">bI", 0, schema_id) + b"data"


KNOWN = Known({1: {"orders-value"}, 2: {"orders-key"}, 3: {"orders-shop.Order"}, 4: {"shop.Order"}})


@pytest.mark.parametrize(
    ("strategy", "data", "problem"),
    [
        (Strategy.TOPIC, of(1), None),
        (Strategy.TOPIC, None, None),
        (Strategy.TOPIC, of(2), "the value has schema 2 of orders-key, expected one of orders-value"),
        (Strategy.TOPIC, of(9), "names the schema id 9, which the registry does not know"),
        (Strategy.TOPIC, b"{}", "begins with 7b 7d, expected a zero byte and the id of a schema"),
        (Strategy.TOPIC, b"", "begins with nothing, expected a zero byte"),
        (Strategy.TOPIC, of(1)[:4], "begins with 00 00 00 00, expected"),
        (Strategy.TOPIC_RECORD, of(3), None),
        (Strategy.TOPIC_RECORD, of(4), "the value has schema 4 of shop.Order, expected one of orders-…"),
        (Strategy.RECORD, of(4), None),
        (Strategy.RECORD, of(9), "which the registry does not know"),
    ],
)
def test_a_rule(strategy: Strategy, data: bytes | None, problem: str | None) -> None:
    found = SchemaRule("value", strategy).problem("orders", data, KNOWN)
    assert found == problem or (problem is not None and found is not None and problem in found)


def test_what_does_not_fit_is_asked_anew() -> None:
    known = Known({1: {"orders-value"}})
    rule = SchemaRule("value", Strategy.TOPIC)
    assert rule.problem("orders", of(1), known) is None
    assert known.asked == [(1, False)]
    assert rule.problem("others", of(1), known) is not None
    assert known.asked[1:] == [(1, False), (1, True)]


def test_a_topics_subject_may_be_an_alias() -> None:
    known = Known({1: {"orders"}, 2: {"others"}}, {"orders-value": "orders"})
    rule = SchemaRule("value", Strategy.TOPIC)
    assert rule.problem("orders", of(1), known) is None
    assert known.asked == [(1, False)], "nothing is asked anew"
    for topic, number in (("orders", 2), ("orders", 9), ("others", 1)):
        assert rule.problem(topic, of(number), known) is not None
    assert SchemaRule("key", Strategy.TOPIC).problem("orders", of(1), known) is not None


def test_a_batch_asks_once_for_each_id() -> None:
    known = Known({1: {"orders-value"}})
    records = [Record(0, 0, None, of(9), ()) for _ in range(5)] + [Record(0, 0, None, of(1), ())]
    found = list(refused(records, "orders", [SchemaRule("value", Strategy.TOPIC)], known))
    assert [index for index, _ in found] == [0, 1, 2, 3, 4]
    assert known.asked == [(9, False), (9, True), (1, False)]


def test_answers_of_a_registry_are_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers = [100.0], [["a-value"], ["a-value", "b-value"], []]
    ids = RegisteredIds("http://127.0.0.1:1", clock=lambda: now[0])
    monkeypatch.setattr(ids._client, "subjects_of", lambda schema_id: answers.pop(0))
    assert ids.subjects_of(1) == {"a-value"}
    assert ids.subjects_of(1) == {"a-value"}
    assert ids.subjects_of(1, fresh=True) == {"a-value", "b-value"}
    assert ids.subjects_of(1) == {"a-value", "b-value"}
    now[0] += KEPT_S
    assert ids.subjects_of(1) == frozenset()

    def silent(schema_id: int) -> list[str]:
        raise RegistryUnreachable("nobody there")

    monkeypatch.setattr(ids._client, "subjects_of", silent)
    with pytest.raises(NoSchemas, match="cannot look up schema 2: nobody there"):
        ids.subjects_of(2)


# a node with its own registry


@pytest.fixture(scope="module")
def unaware() -> Iterator[str]:
    with Cluster() as found:
        yield found.bootstrap_servers


@pytest.fixture(scope="module")
def registry(unaware: str) -> Iterator[str]:
    server = RegistryServer({"kafkastore.bootstrap.servers": unaware}, port=0)
    server.start()
    yield server.url
    server.close()


@pytest.fixture(scope="module")
def checking(registry: str) -> Iterator[str]:
    with Cluster({"confluent.schema.registry.url": registry}) as found:
        yield found.bootstrap_servers


def create(servers: str, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, 1, 1, config=named)])[topic].result(60)


def produce(servers: str, topic: str, *values: bytes | None, **settings: Any) -> list[str]:
    """Produce records and return the error of each, or "" if it was accepted."""
    told: list[str] = []
    options = {"bootstrap.servers": servers, "linger.ms": 50, "message.timeout.ms": 3000}
    producer = Producer({**options, **settings})
    for value in values:
        producer.produce(
            topic, value, b"k", on_delivery=lambda e, _: told.append("" if e is None else e.str())
        )
    assert producer.flush(15) == 0
    return told


def serialized(registry: str, topic: str) -> bytes:
    client = SchemaRegistryClient({"url": registry})
    made = AvroSerializer(client, AVRO)({"n": 7}, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(made, bytes)
    return made


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_only_records_of_the_topics_schemas_are_taken(checking: str, registry: str, compression: str) -> None:
    topic = f"orders-{compression}"
    create(checking, topic, confluent_value_schema_validation="true")
    good = serialized(registry, topic)
    settings = {"compression.type": compression}
    assert produce(checking, topic, good, good, None, **settings) == ["", "", ""]
    [problem] = produce(checking, topic, b"{}", **settings)
    assert "Broker failed to validate record" in problem
    [problem] = produce(checking, topic, of(12345), **settings)
    assert "Broker failed to validate record" in problem
    other = serialized(registry, f"other-{compression}")
    assert other == good, "the same schema has the same id everywhere"
    create(checking, f"strict-{compression}", confluent_key_schema_validation="true")
    assert produce(checking, f"strict-{compression}", good, **settings) != [""], "its key is no record's"


def test_who_registers_under_an_alias_may_write(checking: str, registry: str) -> None:
    create(checking, "bills", confluent_value_schema_validation="true")
    foreign = serialized(registry, "invoices")
    assert produce(checking, "bills", foreign) != [""]
    alias = json.dumps({"alias": "invoices-value"}).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{registry}/config/bills-value", alias, headers, method="PUT")
    urllib.request.urlopen(asked, timeout=60).close()
    assert serialized(registry, "bills") == foreign
    assert "bills-value" not in SchemaRegistryClient({"url": registry}).get_subjects()
    assert produce(checking, "bills", foreign) == [""]


def test_a_topic_that_does_not_ask_takes_what_comes(checking: str) -> None:
    create(checking, "free")
    assert produce(checking, "free", b"{}") == [""]


def test_it_can_be_switched_on_and_off(checking: str) -> None:
    create(checking, "switched")
    assert produce(checking, "switched", b"{}") == [""]
    admin = AdminClient({"bootstrap.servers": checking})
    for value, taken in (("true", False), ("false", True)):
        entry = ConfigEntry(
            "confluent.value.schema.validation",
            value,
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ConfigResource.Type.TOPIC, "switched", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(60)
        assert (produce(checking, "switched", b"{}") == [""]) is taken


def test_without_a_registry_the_producer_is_told_to_try_again(unaware: str) -> None:
    create(unaware, "unchecked", confluent_value_schema_validation="true")
    [problem] = produce(unaware, "unchecked", of(1))
    assert "timed out" in problem.lower(), "the client has tried until its own time was up"


def test_a_strategy_that_is_none_is_refused(unaware: str) -> None:
    with pytest.raises(KafkaException, match="must be one of TopicNameStrategy, RecordNameStrategy"):
        create(unaware, "odd", confluent_value_subject_name_strategy="Mine")


def is_served(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status == 200
    except OSError:
        return False


def test_a_node_with_a_registry_of_its_own_checks_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "start", "--data-dir", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0", "--registry", "--registry-listen", "127.0.0.1:0"]
    node = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        bound_memory(node.pid)
        assert node.stdout is not None
        said = [node.stdout.readline().split()[-1] for _ in range(2)]
        servers, url = said[0], said[1]

        create(servers, "own", confluent_value_schema_validation="true")
        wait_until(lambda: is_served(f"{url}/subjects"))
        good = serialized(url, "own")
        assert produce(servers, "own", good) == [""]
        assert produce(servers, "own", b"{}") != [""]
    finally:
        node.terminate()
        node.wait(60)
