"""Values are checked against their schemas by the rules of Connect's ConnectSchema and Struct."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from penstock.connect import (
    DataError,
    Schema,
    Struct,
    Type,
    date_schema,
    decimal_schema,
    time_schema,
    timestamp_schema,
    validate_value,
)
from penstock.connect.data.schema import BOOLEAN, BYTES, FLOAT64, INT8, INT64, OPTIONAL_STRING, STRING

POINT = Schema.struct(
    {"x": INT64, "label": OPTIONAL_STRING, "z": Schema(Type.INT64, default=9)}, name="Point"
)

GOOD: list[tuple[Schema, Any]] = [
    (INT8, -128),
    (INT64, 2**63 - 1),
    (FLOAT64, 1.5),
    (BOOLEAN, True),
    (BYTES, b"\xff"),
    (OPTIONAL_STRING, None),
    (Schema.array(STRING), ["a"]),
    (Schema.map(STRING, OPTIONAL_STRING), {"a": None}),
    (decimal_schema(2), Decimal("1.25")),
    (date_schema(), date(2026, 1, 1)),
    (time_schema(), time(1, 2, 3)),
    (timestamp_schema(), datetime(2026, 1, 1, tzinfo=UTC)),
    (POINT, Struct(POINT, {"x": 1})),
]

BAD: list[tuple[Schema, Any, str]] = [
    (INT8, 128, r"INT8: 128 \(int\) for value"),
    (INT64, True, "INT64: True"),
    (INT64, "7", "INT64: '7'"),
    (FLOAT64, 1, "FLOAT64: 1"),
    (STRING, None, "null used for required value, schema type: STRING"),
    (Schema.array(STRING), ["a", None], "null used for required element of array value"),
    (Schema.map(STRING, INT64), {1: 1}, "for key of map value"),
    (Schema.map(STRING, INT64), {"a": "b"}, "for value of map value"),
    (decimal_schema(2), b"\x7d", 'schema "org.apache.kafka.connect.data.Decimal" with type BYTES'),
    (date_schema(), datetime(2026, 1, 1, tzinfo=UTC), "data.Date"),
    (POINT, {"x": 1}, "type STRUCT: {'x': 1}"),
    (POINT, Struct(POINT, {}), 'null used for required field "x"'),
    (POINT, Struct(POINT, {"x": "1"}), 'for field "x"'),
    (POINT, Struct(Schema.struct({"x": INT64}), {"x": 1}), "has another schema: Schema{STRUCT}"),
    (Schema(Type.ARRAY), [1], "no schema defined for the parts of value"),
]


@pytest.mark.parametrize(("schema", "value"), GOOD)
def test_values_that_fit(schema: Schema, value: Any) -> None:
    validate_value(schema, value)


@pytest.mark.parametrize(("schema", "value", "problem"), BAD)
def test_values_that_do_not_fit_are_named(schema: Schema, value: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem.replace("{", r"\{")):
        validate_value(schema, value)


def test_a_field_without_a_value_has_its_default() -> None:
    point = Struct(POINT, {"x": 1})
    assert (point["z"], point.without_default("z"), point.get("nothing", 5)) == (9, None, 5)
    assert point.to_dict() == {"x": 1, "label": None, "z": 9}
    assert "label" in point
    assert "nothing" not in point


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(DataError, match=r"^nothing is not a valid field name$"):
        Struct(POINT, {"nothing": 1})
    with pytest.raises(DataError, match=r"^Not a struct schema: Schema\{STRING\}$"):
        Struct(STRING)
    with pytest.raises(DataError, match=r"^Cannot look up fields on non-struct type$"):
        STRING.field("x")


def test_structs_inside_lists_and_maps_become_dicts() -> None:
    inner = Struct(POINT, {"x": 1})
    outer = Schema.struct({"all": Schema.array(POINT), "named": Schema.map(STRING, POINT)})
    plain = {"x": 1, "label": None, "z": 9}
    made = Struct(outer, {"all": [inner], "named": {"a": inner}})
    assert made.to_dict() == {"all": [plain], "named": {"a": plain}}


def test_equal_structs_are_the_same_key_of_a_map() -> None:
    schema = Schema.struct({"price": decimal_schema(2), "tags": Schema.map(STRING, Schema.array(STRING))})
    one = Struct(schema, {"price": Decimal("1.0"), "tags": {"a": ["b"], "c": []}})
    other = Struct(schema, {"price": Decimal("1.00"), "tags": {"c": [], "a": ["b"]}})
    assert one == other
    assert {one: 1}[other] == 1
    assert one != Struct(schema, {"price": Decimal("1.0")})


def test_schemas_are_equal_by_all_their_parts() -> None:
    again = Schema.struct(
        {"x": INT64, "label": OPTIONAL_STRING, "z": Schema(Type.INT64, default=9)}, name="Point"
    )
    assert again == POINT
    assert hash(again) == hash(POINT)
    assert again.as_optional() != POINT
    assert decimal_schema(2) != decimal_schema(3)
