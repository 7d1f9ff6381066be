"""`penstock consume` and `produce` with formats, against a node and a registry, beside Confluent's client."""

import base64
import io
import json
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory

from penstock.cli.main import main
from penstock.registry.formats import parse
from penstock.registry.formats.protobuf.schema import ProtobufSchema
from penstock.sql.formats.protobuf.rows import descriptor_of
from penstock.testing import Cluster
from registry_node import ask, started

ORDER = {
    "type": "record",
    "name": "Order",
    "doc": "A text that is longer than a file name may be." * 10,
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string buyer_name = 2; }'
SHOP = """
syntax = "proto3";
package shop;
message Order { int64 id = 1; message Line { string sku = 1; } }
message Other { int32 n = 1; }
"""
JSON_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}

Run = Callable[..., "Done"]


class Done(NamedTuple):
    """The output of a command."""

    stdout: bytes
    stderr: bytes


@pytest.fixture(scope="module")
def registry(penstock_cluster: Cluster) -> Iterator[str]:
    server = started(penstock_cluster.bootstrap_servers, f"formats-{uuid.uuid4().hex[:8]}")
    yield server.url
    server.close()


@pytest.fixture
def run(
    penstock_cluster: Cluster,
    registry: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> Run:
    """Run a command in this process, as the script `penstock` would."""
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", penstock_cluster.bootstrap_servers)
    monkeypatch.setenv("PENSTOCK_REGISTRY", registry)

    def run(*words: str, stdin: str = "", code: int = 0) -> Done:
        monkeypatch.setattr(sys, "argv", ["penstock", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        done = Done(*capsysbinary.readouterr())
        assert ended.value.code == code, f"{words}: {done}"
        return done

    return run


@pytest.fixture
def topic() -> str:
    return f"formats-{uuid.uuid4().hex[:8]}"


ALL = ("--from-beginning", "--exit-at-end")


def test_numbers_and_strings_are_written_as_kafkas_serializers_write_them(
    run: Run, topic: str, penstock_cluster: Cluster
) -> None:
    run(
        "produce", topic, "-K", ":", "--key-format", "long", "--value-format", "double", stdin="7:1.5\n-1:2\n"
    )
    raw = run("consume", topic, *ALL, "-f", r"%R%k%s").stdout
    assert raw == (b"\0\0\0\x08" + b"\0" * 7 + b"\x07" + b"\x3f\xf8" + b"\0" * 6) + (
        b"\0\0\0\x08" + b"\xff" * 8 + b"\x40" + b"\0" * 7
    )
    words = ("--key-format", "long", "--value-format", "double")
    assert run("consume", topic, *ALL, *words, "--key").stdout == b"7\t1.5\n-1\t2.0\n"
    [first, _] = run("consume", topic, *ALL, *words, "--json").stdout.splitlines()
    assert (json.loads(first)["key"], json.loads(first)["value"]) == (7, 1.5)


def test_a_format_string_prints_the_parts_that_it_names(run: Run, topic: str) -> None:
    run("produce", topic, "-k", "a", "-H", "h=1", stdin="x\ny\n")
    printed = run("consume", topic, *ALL, "-f", r"%t[%p]@%o %k=%v (%S) %h\n").stdout.decode()
    assert printed == f"{topic}[0]@0 a=x (1) h=1\n{topic}[0]@1 a=y (1) h=1\n"


def test_json_lines_round_trip_with_formats(run: Run, topic: str) -> None:
    words = ("--key-format", "long", "--value-format", "json")
    line = '{"key": 5, "value": {"price": 1.10}, "headers": []}'
    run("produce", topic, "--json-lines", *words, stdin=f'{line}\n{{"key": 6, "value": null}}\n')
    printed = run("consume", topic, *ALL, *words, "--json").stdout
    assert b'"key": 5, "value": {"price":1.10}' in printed
    assert b'"key": 6, "value": null' in printed
    run("produce", topic, "--json-lines", *words, stdin=printed.decode())
    assert run("consume", topic, "-o", "2", "-e", *words, "--key").stdout == b'5\t{"price":1.10}\n6\tnull\n'


def test_avro_is_written_for_confluents_client(
    run: Run, topic: str, penstock_cluster: Cluster, registry: str
) -> None:
    lines = '{"id": 1, "note": null}\n{"note": {"string": "hé"}, "id": 2}\n'
    run("produce", topic, "--value-format", "avro", "--value-schema", json.dumps(ORDER), stdin=lines)
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    context = SerializationContext(topic, MessageField.VALUE)
    found = [deserialize(data, context) for data in values(penstock_cluster, topic, 2)]
    assert found == [{"id": 1, "note": None}, {"id": 2, "note": "hé"}]
    printed = run("consume", topic, *ALL, "--value-format", "avro").stdout.decode()
    assert printed == '{"id":1,"note":null}\n{"id":2,"note":{"string":"hé"}}\n'


def test_avro_of_confluents_client_is_read_with_the_schema_that_wrote_it(
    run: Run, topic: str, penstock_cluster: Cluster, registry: str
) -> None:
    client = SchemaRegistryClient({"url": registry})
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    longer = {**ORDER, "fields": [*ORDER["fields"], {"name": "paid", "type": "boolean", "default": False}]}
    for schema, value in ((ORDER, {"id": 1, "note": "a"}), (longer, {"id": 2, "note": None, "paid": True})):
        producer.produce(topic, AvroSerializer(client, json.dumps(schema))(value, context))
    assert producer.flush(30) == 0
    printed = run("consume", topic, *ALL, "--value-format", "avro").stdout.decode()
    assert printed == '{"id":1,"note":{"string":"a"}}\n{"id":2,"note":null,"paid":true}\n'
    # With no schema given, produce takes the latest of the subject.
    run("produce", topic, "--value-format", "avro", stdin='{"id": 3, "note": null, "paid": false}\n')
    # An id selects an older one.
    first = ask(registry, "GET", f"/subjects/{topic}-value/versions/1").body["id"]
    words = ("--value-format", "avro", "--value-schema", str(first))
    run("produce", topic, *words, stdin='{"id": 4, "note": null}\n')
    last = run("consume", topic, "-o", "2", "-e", "--value-format", "avro").stdout
    assert last == b'{"id":3,"note":null,"paid":false}\n{"id":4,"note":null}\n'


def test_protobuf_and_json_schema_round_trip(
    run: Run, topic: str, penstock_cluster: Cluster, registry: str, tmp_path: Any
) -> None:
    (tmp_path / "order.proto").write_text(PROTO)
    words = ("--key-format", "protobuf", "--value-format", "json-schema")
    schemas = ("--key-schema", str(tmp_path / "order.proto"), "--value-schema", json.dumps(JSON_SCHEMA))
    run("produce", topic, "-K", "|", *words, *schemas, stdin='{"id": 7}|{"id": 1, "x": 1.10}\n')
    printed = run("consume", topic, *ALL, *words, "--key").stdout
    assert printed == b'{"id":"7","buyerName":""}\t{"id":1,"x":1.10}\n'
    [value] = values(penstock_cluster, topic, 1)
    context = SerializationContext(topic, MessageField.VALUE)
    deserialize = JSONDeserializer(None, schema_registry_client=SchemaRegistryClient({"url": registry}))
    assert deserialize(value, context) == {"id": 1, "x": 1.1}
    refused = run("produce", topic, "--value-format", "json-schema", stdin='{"x": 1}\n', code=2)
    assert b"'id' is a required property" in refused.stderr


def test_produce_writes_the_message_that_is_named(
    run: Run, topic: str, penstock_cluster: Cluster, registry: str
) -> None:
    words = ("--value-format", "protobuf")
    line = ("--value-schema", SHOP, "--value-message", "shop.Order.Line")
    run("produce", topic, *words, *line, stdin='{"sku": "tea"}\n')
    run("produce", topic, *words, "--value-message", "shop.Other", stdin='{"n": 7}\n')
    assert run("consume", topic, *ALL, *words).stdout == b'{"sku":"tea"}\n{"n":7}\n'
    schema = parse("PROTOBUF", SHOP)
    assert isinstance(schema, ProtobufSchema)
    made = message_factory.GetMessageClass(descriptor_of(schema, (0, 0)))
    client = SchemaRegistryClient({"url": registry})
    deserialize = ProtobufDeserializer(made, {"use.deprecated.format": False}, client)
    first = values(penstock_cluster, topic, 2)[0]
    assert deserialize(first, SerializationContext(topic, MessageField.VALUE)).sku == "tea"


def test_an_unknown_message_is_refused_before_its_schema_is_registered(
    run: Run, topic: str, registry: str
) -> None:
    words = ("--value-format", "protobuf", "--value-schema", SHOP, "--value-message", "Line")
    refused = run("produce", topic, *words, stdin="{}\n", code=2).stderr.decode()
    said = "--value-message: the Protobuf schema has no message 'Line', expected one of shop.Order, "
    assert f"{said}shop.Order.Line, shop.Other" in " ".join(refused.split())
    assert ask(registry, "GET", f"/subjects/{topic}-value/versions").status == 404


def test_a_record_that_is_not_in_the_format_ends_the_command_unless_it_is_skipped(
    run: Run, topic: str
) -> None:
    run("produce", topic, "--value-format", "long", stdin="1\n")
    run("produce", topic, stdin="bad\n")
    run("produce", topic, "--value-format", "long", stdin="2\n")
    group = ("--group", f"g-{topic}", "--value-format", "long")
    said = f"topic '{topic}', partition 0, offset 1: cannot decode the value: found 'bad', expected 8 bytes"
    ended = run("consume", topic, *ALL, *group, code=1)
    assert ended.stdout == b"1\n"
    assert said in " ".join(ended.stderr.decode().split())
    # The group has committed what was printed, so that the next run finds the record again.
    again = run("consume", topic, *ALL, *group, code=1)
    assert again.stdout == b""
    skipped = run("consume", topic, *ALL, *group, "--skip-undecodable")
    assert skipped.stdout == b"2\n"
    assert said in " ".join(skipped.stderr.decode().split())


def test_a_value_whose_schema_is_unknown_or_of_another_type_is_undecodable(
    run: Run, topic: str, registry: str
) -> None:
    other = ask(registry, "POST", f"/subjects/{topic}-value/versions", {"schema": '"string"'}).body["id"]
    records = [b"\0\0\x0f\xff\xffx", b"\0" + other.to_bytes(4, "big") + b"\x02x", b"text"]
    lines = [json.dumps({"value_base64": base64.b64encode(each).decode()}) for each in records]
    run("produce", topic, "--json-lines", stdin="\n".join(lines))
    done = run("consume", topic, *ALL, "--value-format", "json-schema", "--skip-undecodable")
    said = " ".join(done.stderr.decode().split())
    assert done.stdout == b""
    assert "offset 0: cannot decode the value: found the schema id 1048575, expected one that the" in said
    assert (
        f"offset 1: cannot decode the value: found the schema {other} of AVRO, expected one of JSON" in said
    )
    assert "offset 2: cannot decode the value: found 74 65 78 74, expected a zero byte" in said


def test_a_line_that_does_not_fit_ends_produce_after_the_lines_before_it(run: Run, topic: str) -> None:
    ended = run("produce", topic, "--value-format", "int", stdin="1\n2\nthree\n4\n", code=2)
    assert b"line 3: found 'three', expected a whole number of 4 bytes" in ended.stderr
    assert b"2 records acknowledged before the invalid line" in ended.stderr
    assert run("consume", topic, *ALL, "--value-format", "int").stdout == b"1\n2\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "expected a JSON object, found an array"),
        ('{"value": 1.5}', "value: expected text or null, found the number 1.5"),
        ('{"value": "x", "partition": 1.5}', "partition: expected a whole number, found the number 1.5"),
        ("{", "expected JSON"),
    ],
)
def test_a_json_line_that_is_no_record_is_refused(run: Run, topic: str, line: str, said: str) -> None:
    refused = run("produce", topic, "--json-lines", stdin=line, code=2)
    assert "line 1: " in refused.stderr.decode()
    assert said in refused.stderr.decode()


def test_wrong_options_are_named(run: Run, topic: str) -> None:
    assert b"found '%q' at character 1" in run("consume", topic, "-f", "%q", code=2).stderr
    assert b"excludes --json" in run("consume", topic, "-f", "%s", "--json", code=2).stderr
    assert b"--value-schema: expected it only" in run("produce", topic, "--value-schema", "x", code=2).stderr
    assert (
        b"--value-message: expected it only" in run("produce", topic, "--value-message", "M", code=2).stderr
    )
    missing = run("produce", topic, "--value-format", "avro", code=1).stderr
    assert f"subject '{topic}-value': found no schema in the registry, expected one, or".encode() in missing
    for given in ("order.avsc", "{", "7777"):
        refused = run("produce", topic, "--value-format", "avro", "--value-schema", given, code=2).stderr
        assert f"--value-schema: found '{given}' (".encode() in refused
        assert b"expected a file, an id or a schema" in refused
    gone = ("--value-format", "avro", "--registry", "http://127.0.0.1:1")
    assert b"`penstock registry start` starts one" in run("produce", topic, *gone, code=3).stderr


def values(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"values-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        found: list[bytes | None] = []
        while len(found) < count:
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None
                found.append(message.value())
        return found
    finally:
        consumer.close()
