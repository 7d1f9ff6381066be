"""Generated records: their values by arg.properties, and the same ones after any restart."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.connect import ConfigInvalid, ConnectRecord, SourceTaskTest, Struct, validate_value
from penstock.connect.connectors.generator import DatagenConnector
from penstock.connect.connectors.generator.quickstarts import QUICKSTARTS
from penstock.connect.connectors.generator.task import DatagenTask


def run(**more: str) -> SourceTaskTest:
    given = {name.replace("_", "."): value for name, value in more.items()}
    return SourceTaskTest(
        DatagenTask(), {"kafka.topic": "made", "max.interval": "0"} | given, exactly_once=True
    )


def check(record: ConnectRecord) -> None:
    assert record.value_schema is not None
    validate_value(record.value_schema, record.value)


def made(count: int, type: Any, **properties: Any) -> list[Any]:
    """Values of one type with these properties, checked against their schema."""
    if isinstance(type, str):
        type = {"type": type}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "v", "type": type | {"arg.properties": properties}}],
    }
    with run(schema_string=json.dumps(schema), iterations=str(count), random_seed="1") as test:
        records = test.take(count)
    for record in records:
        check(record)
    return [record.value["v"] for record in records]


@pytest.mark.parametrize("name", QUICKSTARTS)
def test_quickstarts_are_the_same_after_restarts(name: str) -> None:
    config = {"quickstart": name, "iterations": "700"}
    with run(**config, random_seed="7") as test:
        whole = test.take(700)
        assert test.poll() == []
        field = QUICKSTARTS[name].key_field
        for record in whole[:100]:
            check(record)
            assert record.key == record.value[field]
    with run(**config, random_seed="7") as test:
        test.poll()
        test.restart(DatagenTask())
        test.poll()
        test.crash(DatagenTask())
        while len(test.records) < 700:
            test.poll()
        assert test.records == whole
    with run(**config) as test:  # each start would choose another seed, if the offset did not have it
        test.take(500)
        first_seed = test.offset({"task.id": 0})
        test.restart(DatagenTask())
        test.take(200)
        last_seed = test.offset({"task.id": 0})
        assert first_seed is not None
        assert last_seed is not None
        assert first_seed["random.seed"] == last_seed["random.seed"]


def test_values_follow_their_properties() -> None:
    assert set(made(200, "int", range={"min": -2, "max": 2})) == {-2, -1, 0, 1}
    assert all(1.5 <= each <= 2.5 for each in made(100, "double", range={"min": 1.5, "max": 2.5}))
    assert made(7, "long", iteration={"start": 1, "restart": 7, "step": 3}) == [1, 4, 1, 4, 1, 4, 1]
    assert made(5, "int", iteration={"start": 0, "restart": 3, "initial": 2}) == [2, 0, 1, 2, 0]
    assert made(4, "int", iteration={"start": 3, "restart": 0}) == [3, 2, 1, 3]
    assert made(3, "string", iteration={"start": 8}, prefix="<", suffix=">") == ["<8>", "<9>", "<10>"]
    assert made(4, "boolean", iteration={"start": True}) == [True, False, True, False]
    assert set(made(50, "boolean", odds=1.0)) == {True}
    assert set(made(100, "string", options=["a", "b"])) == {"a", "b"}
    pattern = r"[A-F]{2}(-|_)\d+[^x]?(on|off){1,2}\w"
    assert all(re.fullmatch(pattern, each) for each in made(300, "string", regex=pattern))
    assert {len(each) for each in made(200, "string", length={"min": 1, "max": 4})} == {1, 2, 3}
    assert {len(each) for each in made(20, "bytes", length=3)} == {3}
    array = {"type": "array", "items": {"type": "int", "arg.properties": {"options": [5]}}}
    assert made(2, array, length=2) == [[5, 5], [5, 5]]
    mapping = made(1, {"type": "map", "values": "boolean"}, length=1, keys={"regex": "k"})
    assert mapping in ([{"k": True}], [{"k": False}])
    enum = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
    assert set(made(50, enum)) == {"A", "B"}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert set(made(20, decimal, options=["\u0001"])) == {Decimal("0.01")}
    day = {"type": "int", "logicalType": "date"}
    assert str(made(1, day, range={"min": 1, "max": 2})[0]) == "1970-01-02"
    record = {"type": "record", "name": "s", "fields": [{"name": "n", "type": ["null", "int"]}]}
    found = made(40, record, options=[{"n": 1}, {"n": None}])
    assert {each["n"] for each in found if isinstance(each, Struct)} == {1, None}


def test_unions_have_each_member(tmp_path: Path) -> None:
    fields = [{"name": "v", "type": ["null", "int"]}, {"name": "w", "type": ["string", "int"]}]
    file = tmp_path / "s.avsc"
    file.write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    with run(schema_filename=str(file), iterations="60") as test:
        values = [record.value for record in test.take(60)]
    assert {each["v"] is None for each in values} == {True, False}
    assert {each["w"]["string"] is None for each in values} == {True, False}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"options": []}, "options of int are empty"),
        ({"options": ["x"]}, "the option 'x' is no value of int"),
        ({"range": {"min": 1, "max": 1}}, "the range 1 to 1 of int is empty"),
        ({"iteration": {"start": 1, "restart": 5, "step": -1}}, "has no values"),
        ({"range": 5}, "expected an object"),
    ],
)
def test_properties_that_make_no_values(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        made(1, "int", **properties)


def test_the_schema_is_checked() -> None:
    def errors(**more: str) -> dict[str, list[str]]:
        given = {name.replace("_", "."): value for name, value in more.items()}
        found = DatagenConnector().validate({"kafka.topic": "made"} | given)
        return {each.name: each.errors for each in found if each.errors}

    assert errors(quickstart="users") == {}
    assert "needs one of" in errors()["quickstart"][0]
    assert "needs one of" in errors(quickstart="users", schema_string="{}")["schema.string"][0]
    assert "Unable to parse" in errors(schema_string="{")["schema.string"][0]
    assert "no field 'x'" in errors(quickstart="users", schema_keyfield="x")["quickstart"][0]


def test_there_is_time_between_records() -> None:
    with run(quickstart="users", max_interval="20") as test:
        assert [len(test.poll()) for _ in range(3)] == [1, 1, 1]
