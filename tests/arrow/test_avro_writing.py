"""Columns written as Avro: what fastavro reads of it, for random schemas and values."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from avro_values import Schemas, expected, has_spread_union

from penstock.arrow.avro.mapping import arrow_type
from penstock.arrow.avro.writing import Writer, schema_of
from penstock.arrow.encoding import Unwritable
from penstock.client.settings import ConfigError
from penstock.registry.formats import parse


def root(schema):
    return parse("AVRO", json.dumps(schema)).root


def plain(value):
    """Without what fastavro adds to values of unions."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(40))
def test_random_columns_are_read_by_fastavro(seed):
    schemas = Schemas(3000 + seed)
    written = 0
    while written < 4:
        schema = {"type": "record", "name": "Root", "fields": [{"name": "v", "type": schemas.schema()}]}
        if has_spread_union(schema):
            continue
        written += 1
        values = [
            expected(schema, schemas.value(schema)) for _ in range(schemas.random.choice([0, 1, 2, 30]))
        ]
        column = pa.array(values, arrow_type(root(schema)))
        parsed = fastavro.parse_schema(schema)
        padded = pa.concat_arrays([column, column]).slice(len(values))  # a slice as well
        for each in (column, padded):
            data = Writer(root(schema), column.type).write(each)
            data.validate(full=True)
            read = [plain(fastavro.schemaless_reader(io.BytesIO(d), parsed, None)) for d in data.to_pylist()]
            assert read == values, (seed, schema)


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
        (record(["int", "string"]), pa.struct([("a", pa.int32())]), "field 'a' is a union of several types"),
    ],
)
def test_columns_that_do_not_fit_are_told(schema, kind, told):
    with pytest.raises(ConfigError, match=told):
        Writer(schema, kind)


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
    ],
)
def test_rows_that_the_schema_does_not_hold_are_told(schema, column, told):
    with pytest.raises(Unwritable, match=told):
        Writer(schema, column.type).write(column)
