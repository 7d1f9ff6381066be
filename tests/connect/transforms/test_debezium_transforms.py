"""Random records and configurations: the same records and errors as from Debezium's own classes in a JVM."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from connect.converters.converter_oracle import seed
from connect.transforms.kafka_transforms import answers, difference, is_error, record_of, shown_record
from connect.transforms.random_records import RecordChance
from long_run import repetitions
from maven_jars import jars_of
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError
from penstock.connect.transforms.debezium import EventRouter
from penstock.connect.transforms.debezium.json_payload import NullFields, expanded
from penstock.connect.transforms.names import DEBEZIUM_TRANSFORMS

HERE = Path(__file__).parent
POM = HERE.parent / "cdc" / "debezium_pom.xml"
UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
ROUTER = "io.debezium.transforms.outbox.EventRouter"
COLUMNS = ("id", "aggregateid", "aggregatetype", "type", "payload", "at", "version", "part", "more")
TIMES = ("io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp", "io.debezium.time.NanoTimestamp")
RECORDS = 4


class OutboxChance(RecordChance):
    """Makes random rows of an outbox table; now and then a column is missing or of another type."""

    def envelope(self) -> tuple[dict[str, Any], Any]:
        """A schema and a value with Debezium's envelope."""
        columns = [name for name in COLUMNS if not self.happens(0.01)]
        described = [[name, self.column(name)] for name in columns]
        row: dict[str, Any] = {"type": "STRUCT", "optional": True, "fields": described}
        if self.happens(0.8):
            row["name"] = self.choice(["pre.public.outbox.Value", "Value"])
        fields = [
            ["before", row],
            ["after", row],
            ["op", {"type": "STRING", "optional": False}],
            ["ts_ms", {"type": "INT64", "optional": True}],
        ]
        name = "pre.public.outbox.Envelope" if self.happens(0.95) else "pre.Other"
        schema = {"type": "STRUCT", "optional": False, "name": name, "version": 2, "fields": fields}
        operation = self.choice(["c"] * 12 + ["r", "u", "d", "t"])
        after = None
        if operation not in "dt":
            after = ["struct", row, [self.cell(name, each) for name, each in described]]
        moment = None if self.happens(0.05) else ["int64", self.random.randint(0, 2 * 10**12)]
        return schema, ["struct", schema, [None, after, ["string", operation], moment]]

    def column(self, name: str) -> dict[str, Any]:
        kind: dict[str, Any] = {"type": "STRING", "optional": self.happens(0.5)}
        if name in ("version", "part"):
            kind["type"] = "INT32"
        elif name == "at":
            kind["type"] = "INT64"
            if self.happens(0.9):
                kind["name"] = self.choice(TIMES)
        elif name == "more":
            kind = self.schema(1)
            while "BYTES" in repr(kind):
                kind = self.schema(1)
        elif name == "payload" and self.happens(0.1):
            kind["type"] = "BYTES"
        elif self.happens(0.01):
            kind["type"] = "INT64"
        return kind

    def cell(self, name: str, schema: dict[str, Any]) -> Any:
        if schema["optional"] and self.happens(0.15):
            return None
        if name == "more":
            return self.value(schema)
        if schema["type"] == "INT32":
            return ["int32", self.random.randint(0, 5)]
        if schema["type"] == "INT64":
            return ["int64", self.random.randint(-(10**18), 10**18)]
        if schema["type"] == "BYTES":
            return ["bytes", "AQI="]
        if name == "payload":
            return ["string", self.payload()]
        return ["string", self.choice(["order", "user", "a-b", "Café", "x.y"])]

    def payload(self) -> str:
        kind = self.random.randrange(12)
        if kind == 0:
            return self.choice(["", " ", "\t\n", "x", "1", "[1, 2]", "[]", "{", '{"a": 1} x', "null"])
        return json.dumps(self.json_object(3))

    def json_object(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(["a", "b", "c", "d e", "f.g"], self.random.randint(0, 4))
        return {name: self.json_value(depth - 1) for name in names}

    def json_value(self, depth: int) -> Any:
        kind = self.random.randrange(9 if depth else 6)
        if kind < 5:
            return [None, True, "text", self.random.choice([0, 7, -(2**31), 2**31, 2**62]), 1.5][kind]
        if kind == 5:
            return self.choice(["", -0.5, 1e300, 3])
        if kind == 6:
            return self.json_object(depth)
        if kind == 7:  # of one kind: the order of fields of different objects depends on hashes in Java
            return [self.json_value(0)] * self.random.randint(0, 3)
        return [self.json_object(depth)] * self.random.randint(1, 2) + [None] * self.random.randint(0, 1)

    def question(self) -> dict[str, Any]:
        records = []
        for _ in range(RECORDS):
            record = {**self.record(), "sink": False}
            record["value_schema"], record["value"] = self.envelope()
            if self.happens(0.05):
                record["value"] = record["value_schema"] = None
            records.append(record)
        return {"op": "transform", "type": ROUTER, "config": self.config(), "records": records}

    def config(self) -> dict[str, str]:
        config: dict[str, str] = {}
        chances = {
            "table.field.event.id": ["id", "type", "missing"],
            "table.field.event.key": ["aggregateid", "type", "more", "missing"],
            "table.field.event.payload": ["payload", "more", "missing"],
            "table.field.event.timestamp": ["at", "at", "at", "missing"],
            "table.field.event.schema.version": ["version"],
            "route.by.field": ["type", "aggregateid", "missing"],
            "route.topic.replacement": ["${routedByValue}", "events-${routedByValue}", "fixed"],
            "route.topic.regex": ["(?<routedByValue>[a-z]+)", "(?<routedByValue>.*)"],
            "route.tombstone.on.empty.payload": ["true"],
            "table.op.invalid.behavior": ["fatal", "error", "WARN"],
            "table.field.additional.missing": ["ignore", "error"],
            "table.json.payload.null.behavior": ["optional_bytes"],
        }
        for name, choices in chances.items():
            if self.happens(0.3):
                config[name] = self.choice(choices)
        if self.happens(0.5):
            config["table.expand.json.payload"] = "true"
        if self.happens(0.6):
            places = ["type:header", "more:envelope", "type:envelope:kind", "part:partition", "more:header:m"]
            chosen = self.random.sample([*places, "missing:header"], self.random.randint(1, 3))
            config["table.fields.additional.placement"] = ",".join(chosen)
        return config


class ChangeChance(RecordChance):
    """Makes random changes with Debezium's envelope."""

    def question(self) -> dict[str, Any]:
        records = [self.change() for _ in range(RECORDS)]
        return {"op": "transform", "type": UNWRAP, "config": self.config(), "records": records}

    def change(self) -> dict[str, Any]:
        record = {**self.record(), "sink": False}
        columns = [[name, self.column()] for name in self.random.sample(["a", "b", "c", "d"], 3)]
        columns.append(["kind", {"type": "STRING", "optional": self.happens(0.5)}])
        row = {"type": "STRUCT", "optional": True, "name": "pre.t.Value", "fields": columns}
        source = {
            "type": "STRUCT",
            "optional": False,
            "name": "Source",
            "fields": [
                ["lsn", {"type": "INT64", "optional": True}],
                ["db", {"type": "STRING", "optional": False}],
            ],
        }
        block = {
            "type": "STRUCT",
            "optional": True,
            "name": "event.block",
            "fields": [["id", {"type": "STRING", "optional": False}]],
        }
        fields = [["before", row], ["after", row], ["source", source], ["transaction", block]]
        fields += [
            ["op", {"type": "STRING", "optional": False}],
            ["ts_ms", {"type": "INT64", "optional": True}],
        ]
        name = "pre.t.Envelope" if self.happens(0.95) else "pre.t.Other"
        schema = {"type": "STRUCT", "optional": False, "name": name, "version": 2, "fields": fields}
        operation = self.choice("cudtr")
        before = self.row(row) if operation in "ud" else None
        after = self.row(row) if operation in "cur" else None
        number = None if self.happens(0.3) else ["int64", self.random.randint(0, 10**9)]
        values = [
            *(before, after, ["struct", source, [number, ["string", "shop"]]]),
            *(
                ["struct", block, [["string", "5:7"]]] if self.happens(0.5) else None,
                ["string", operation],
                number,
            ),
        ]
        record["value_schema"], record["value"] = schema, ["struct", schema, values]
        if self.happens(0.15):
            record["value"] = record["value_schema"] = None
        return record

    def column(self) -> dict[str, Any]:
        kind: dict[str, Any] = self.schema(1)
        while "BYTES" in repr(kind) or "FLOAT" in repr(kind):
            kind = self.schema(1)
        return kind

    def row(self, schema: dict[str, Any]) -> Any:
        cells = [self.value(each) for _, each in schema["fields"][:-1]]
        kind = (
            None
            if schema["fields"][-1][1]["optional"] and self.happens(0.3)
            else self.choice(["x", " ", "y-z"])
        )
        return ["struct", schema, [*cells, None if kind is None else ["string", kind]]]

    def config(self) -> dict[str, str]:
        chances = {
            "delete.tombstone.handling.mode": [
                *["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "Delete-To-Tombstone"]
            ],
            "route.by.field": ["kind", "kind", "a"],
            "add.fields": [
                "op",
                "op,lsn",
                "source.lsn:l,transaction.id",
                "id,db,none",
                "ts_ms,op:o",
                "op,op",
            ],
            "add.headers": ["op", "source.db,ts_ms", "id:x,lsn"],
            "add.fields.prefix": ["", "m."],
            "add.headers.prefix": ["h_"],
            "replace.null.with.default": ["false"],
        }
        chosen = {}
        for name, choices in chances.items():
            if self.happens(0.7 if name.startswith("delete") else 0.4):
                chosen[name] = self.choice(choices)
        return chosen


def one_each(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The questions with one record each, because Debezium keeps schemas of earlier records."""
    return [{**each, "records": [record]} for each in questions for record in each["records"]]


def changes_only_the_schema(asked: dict[str, Any]) -> bool:
    """Whether Debezium finds a schema for the payload's JSON but no value, and keeps that schema."""
    if "table.expand.json.payload" not in asked["config"]:
        return False
    value = record_of(asked["records"][0]).value
    after = None if value is None else value["after"]
    name = asked["config"].get("table.field.event.payload", "payload")
    text = after[name] if after is not None and name in after else None
    if not isinstance(text, str) or not text.startswith(("[", "{")):
        return False
    try:
        expanded("payload", text, NullFields.IGNORE)
    except DataError:
        return True
    except ValueError:
        return False
    return False


@pytest.mark.kafka
@pytest.mark.long
def test_transforms_as_debezium(kafka_libs: Path, tmp_path: Path) -> None:
    rows, changes = OutboxChance(seed()), ChangeChance(seed())
    count = repetitions("PENSTOCK_DEBEZIUM", gate=40, long=4000)
    questions = one_each([each.question() for _ in range(count) for each in (rows, changes)])
    plugins = jars_of(POM, "debezium-3.6.1")
    outcomes: Counter[tuple[str, str]] = Counter()
    for asked, answer in zip(questions, answers(kafka_libs, tmp_path, questions, plugins), strict=True):
        name = asked["type"]
        transform = DEBEZIUM_TRANSFORMS[name]()
        transform.configure(asked["config"])
        assert not is_error(answer), (asked["config"], answer)
        if name == ROUTER and changes_only_the_schema(asked):
            outcomes[name, "skipped"] += 1
            continue
        record = record_of(asked["records"][0])
        outcomes[name, "error" if is_error(answer[0]) else "made"] += 1
        found = difference(
            answer[0],
            lambda transform=transform, record=record: shown_record(transform.apply(record)),
            any_text=True,
        )
        assert found is None, f"{asked['config']} {asked['records'][0]['value']}\n{found}"
    print(dict(outcomes))
    for name in (ROUTER, UNWRAP):
        assert outcomes[name, "made"] > len(questions) / 8
    assert outcomes[ROUTER, "skipped"] < len(questions) / 20


def test_a_payload_that_is_not_json_stays() -> None:
    chance = OutboxChance(1)
    record = chance.record()
    record["value_schema"], record["value"] = chance.envelope()
    router = EventRouter()
    router.configure({"table.expand.json.payload": "true"})
    made = record_of(record)
    after = made.value["after"]
    after["payload"] = "[1, 2]"
    routed = router.apply(made)
    assert routed is not None
    assert routed.value == "[1, 2]"
    assert routed.value_schema == after.schema.by_name["payload"].schema


@pytest.mark.parametrize("text", ["type", "type:nowhere", "a:b:c:d"])
def test_placements_that_are_not_valid(text: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"table\.fields\.additional\.placement"):
        EventRouter().configure({"table.fields.additional.placement": text})


def test_a_fatal_update() -> None:
    chance = OutboxChance(2)
    record = chance.record()
    while record["value_schema"] is None or record["value"][2][2] != ["string", "u"]:
        record["value_schema"], record["value"] = chance.envelope()
    router = EventRouter()
    router.configure({"table.op.invalid.behavior": "fatal"})
    with pytest.raises(ConnectError, match="Unexpected update"):
        router.apply(record_of(record))
