"""Columns written as Avro, read back by fastavro, for random schemas and values."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from avro_values import Schemas, expected

from penstock.arrow.avro.mapping import arrow_type
from penstock.arrow.avro.writing import Writer, schema_of
from penstock.arrow.encoding import Unwritable
from penstock.arrow.formats import make_format
from penstock.client.settings import ConfigError
from penstock.registry.formats import parse


def root(schema):
    return parse("AVRO", json.dumps(schema)).root


def by_fastavro(schema, data):
    parsed = fastavro.parse_schema(schema)
    return [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in data]


def written_by_fastavro(schema, values):
    parsed = fastavro.parse_schema(schema)
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, value)
        yield buffer.getvalue()


@pytest.mark.parametrize("seed", range(40))
def test_random_columns_are_read_by_fastavro(seed):
    """fastavro reads them like its own output; we read them back, each value in its branch of a union."""
    schemas = Schemas(3000 + seed)
    for _ in range(4):
        schema = {"type": "record", "name": "Root", "fields": [{"name": "v", "type": schemas.schema()}]}
        given = [schemas.value(schema) for _ in range(schemas.random.choice([0, 1, 2, 30]))]
        values = [expected(schema, each) for each in given]
        column = pa.array(values, arrow_type(root(schema)))
        padded = pa.concat_arrays([column, column]).slice(len(values))  # a slice as well
        for each in (column, padded):
            data = Writer(root(schema), column.type).write(each)
            data.validate(full=True)
            theirs = by_fastavro(schema, written_by_fastavro(schema, given))
            assert by_fastavro(schema, data.to_pylist()) == theirs, (seed, schema)
            found = make_format("avro", json.dumps(schema)).decode(data)
            assert found.bad == {}
            assert found.array.to_pylist(maps_as_pydicts="strict") == values, (seed, schema)


UNION = ["null", "string", {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}, "bytes"]


def test_a_column_may_have_some_of_a_unions_members():
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": UNION}]}
    kind = pa.struct(
        [("a", pa.struct([("member1", pa.struct([("x", pa.int32())])), ("member0", pa.string())]))]
    )
    values = [{"a": {"member0": "s"}}, {"a": None}, {"a": {"member1": {"x": 3}}}]
    data = Writer(root(schema), kind).write(pa.array(values, kind))
    assert by_fastavro(schema, data.to_pylist()) == [{"a": "s"}, {"a": None}, {"a": {"x": 3}}]


@pytest.mark.parametrize("kinds", [["string", "enum"], ["enum", "string"]])
def test_of_members_that_are_one_type_the_widest_is_written(kinds):
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": [enum if k == "enum" else k for k in kinds]}],
    }
    data = Writer(root(schema), pa.struct([("a", pa.string())])).write(
        pa.array([{"a": "no symbol"}, {"a": "A"}])
    )
    assert by_fastavro(schema, data.to_pylist()) == [{"a": "no symbol"}, {"a": "A"}]


def test_a_uuid_is_written_as_it_is_read():
    schema = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    column = pa.array(["00010203-0405-0607-0809-0a0b0c0d0e0f"])
    assert Writer(root(schema), column.type).write(column).to_pylist() == [bytes(range(16))]


def test_a_moment_before_1970_is_of_its_own_millisecond():
    column = pa.array([-1500, -1000, -1, 999], pa.timestamp("us", "UTC"))
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    data = Writer(root(schema), column.type).write(column).to_pylist()
    assert by_fastavro("long", data) == [-2, -1, -1, 0]
    assert data == list(written_by_fastavro(schema, column.to_pylist()))


def test_a_schema_is_made_of_a_column():
    kind = pa.struct(
        [
            ("a", pa.int64()),
            ("d", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us", "UTC")),
            ("lines", pa.list_(pa.struct([("sku", pa.string())]))),
            ("words", pa.map_(pa.string(), pa.int32())),
        ]
    )
    made = schema_of(kind, "orders")
    assert arrow_type(root(made)) == pa.struct(
        [
            f if f.name != "lines" else f.with_type(pa.list_(pa.field("element", f.type.value_type)))
            for f in kind
        ]
    )
    values = [dict.fromkeys(kind.names), {"a": 1, "d": None, "at": 5, "lines": [{"sku": None}], "words": []}]
    data = Writer(root(made), kind).write(pa.array(values, kind)).to_pylist()
    read = [fastavro.schemaless_reader(io.BytesIO(d), fastavro.parse_schema(made), None) for d in data]
    assert read[0] == dict.fromkeys(kind.names)
    assert (read[1]["a"], read[1]["lines"], read[1]["words"]) == (1, [{"sku": None}], {})


def record(kind):
    return root({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})


@pytest.mark.parametrize(
    ("schema", "kind", "told"),
    [
        (record("int"), pa.struct([("a", pa.int64())]), "field 'a' is of type int64, which the schema's int"),
        (record("int"), pa.struct([("b", pa.int32())]), "field 'b' is in the column, but not in the schema"),
        (record("int"), pa.int32(), "it is of type int32, which the schema's R"),
        (
            record(["int", "string"]),
            pa.struct([("a", pa.int32())]),
            r"field 'a' is of type int32, .* expected a struct of member0 \(int\), member1 \(string\)",
        ),
        (
            record(["int", "string"]),
            pa.struct([("a", pa.struct([("member2", pa.int32())]))]),
            "field 'a' is of type struct<member2: int32>, which the schema's union can't hold",
        ),
    ],
)
def test_columns_that_do_not_fit_are_told(schema, kind, told):
    with pytest.raises(ConfigError, match=told):
        Writer(schema, kind)


TWO = pa.struct([("a", pa.struct([("member0", pa.int32()), ("member1", pa.string())]))])


@pytest.mark.parametrize(
    ("schema", "column", "told"),
    [
        (
            record("int"),
            pa.array([{"a": None}], pa.struct([("a", pa.int32())])),
            "field 'a' is null in a row",
        ),
        (
            record({"type": "enum", "name": "E", "symbols": ["A"]}),
            pa.array([{"a": "B"}]),
            "field 'a' is 'B', expected one of A",
        ),
        (
            record({"type": "fixed", "name": "F", "size": 3}),
            pa.array([{"a": b"xx"}]),
            "a value that is not 3 bytes",
        ),
        (
            record(["null", "int", "string"]),
            pa.array([{"a": {"member0": None, "member1": None}}], TWO),
            "field 'a' has 0 members in a row that are not null, expected one",
        ),
        (
            record(["null", "int", "string"]),
            pa.array([{"a": {"member0": 1, "member1": "x"}}], TWO),
            "field 'a' has 2 members in a row that are not null, expected one",
        ),
        (
            record(["int", "string"]),
            pa.array([{"a": None}], TWO),
            "field 'a' is null in a row, which the schema does not allow",
        ),
        (
            record({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}),
            pa.array([{"a": "x" * 16}]),
            "field 'a' is 'xxxxxxxxxxxxxxxx', expected a UUID",
        ),
        (
            record("double"),
            pa.array([{"a": 2**53 + 1}]),
            "field 'a' has a number that double can't represent",
        ),
    ],
)
def test_rows_that_the_schema_does_not_hold_are_told(schema, column, told):
    with pytest.raises(Unwritable, match=told):
        Writer(schema, column.type).write(column)
