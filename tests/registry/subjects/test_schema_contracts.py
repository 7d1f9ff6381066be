"""Metadata and rules: how a schema gets them, and their effect on it."""

from __future__ import annotations

import pytest
from played import STRING, Played, record, refused

RULE = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "a"}


def properties(**values: str) -> dict:
    return {"properties": values}


def test_another_contract_makes_another_schema() -> None:
    played = Played()
    first = played.put("s", STRING, metadata=properties(a="1"))
    assert (first["id"], first["metadata"]) == (1, properties(a="1"))
    assert played.put("s", STRING, metadata=properties(a="2"))["id"] == 2
    assert played.put("s", STRING, metadata=properties(a="1"))["version"] == 1
    ruled = played.put("s", STRING, ruleSet={"domainRules": [RULE]})
    assert (ruled["id"], ruled["metadata"]) == (3, properties(a="2")), "what is left out is as before"
    assert ruled["ruleSet"] == {"domainRules": [{**RULE, "disabled": False}]}
    assert played.put("s", STRING)["version"] == 3, "nothing said: it means the latest"


def test_a_schema_without_a_contract_is_looked_up_as_it_would_be_registered() -> None:
    played = Played()
    played.put("s", STRING, metadata=properties(a="1"))
    assert played.lookup("s", {"schema": STRING})["version"] == 1
    assert played.lookup("s", {"schema": STRING, "metadata": properties(a="1")})["id"] == 1
    with refused(40403, "Schema not found"):
        played.lookup("s", {"schema": STRING, "metadata": properties(a="2")})


def test_what_a_configuration_adds_is_below_and_above_what_a_schema_says() -> None:
    played = Played()
    played.do(
        played.set_config(
            "s",
            {
                "defaultMetadata": {**properties(a="d", b="d"), "tags": {"x": ["T"]}},
                "overrideMetadata": {**properties(b="o", c="o"), "sensitive": ["c"]},
                "defaultRuleSet": {"domainRules": [{**RULE, "name": "d"}, {**RULE, "expr": "d"}]},
                "overrideRuleSet": {"enableAt": "ALL", "migrationRules": [{**RULE, "mode": "UPGRADE"}]},
            },
        )
    )
    answer = played.put("s", STRING, metadata=properties(a="s", b="s"), ruleSet={"domainRules": [RULE]})
    assert answer["metadata"] == {
        "tags": {"x": ["T"]},
        "properties": {"a": "s", "b": "o", "c": "o"},
        "sensitive": ["c"],
    }
    names = [(each["name"], each["expr"]) for each in answer["ruleSet"]["domainRules"]]
    assert names == [("d", "a"), ("r", "a")]
    assert [each["mode"] for each in answer["ruleSet"]["migrationRules"]] == ["UPGRADE"]
    assert answer["ruleSet"]["enableAt"] == "ALL"
    # The same request again is forwarded to the leader, which finds the same version.
    body = {"schema": STRING, "metadata": properties(a="s", b="s"), "ruleSet": {"domainRules": [RULE]}}
    assert played.registered("s", body) is None
    assert played.register("s", body).records == ()


def test_a_schema_that_says_its_version_is_found_with_and_without() -> None:
    played = Played()
    first = played.put("s", STRING, version=1)
    assert first["metadata"] == properties(**{"confluent:version": "1"})
    assert played.put("s", STRING)["version"] == 1
    assert played.lookup("s", {"schema": STRING, "metadata": {}})["version"] == 1
    # Once a schema's metadata has its version, later ones get theirs.
    after = played.put("s", STRING, metadata=properties(a="1", **{"confluent:version": "7"}))
    assert after["metadata"] == properties(a="1", **{"confluent:version": "2"})


def test_a_version_that_is_said_has_to_be_the_right_one() -> None:
    played = Played()
    played.put("s", STRING, metadata=properties(a="1"))
    for said, code in (("1", None), ("2", 40403)):
        body = {"schema": STRING, "metadata": properties(a="1", **{"confluent:version": said})}
        if code is None:
            assert played.lookup("s", body)["version"] == 1
        else:
            with refused(code):
                played.lookup("s", body)


def test_the_latest_with_metadata() -> None:
    played = Played()
    for a, b in (("1", "x"), ("1", "y"), ("2", "y")):
        played.put("s", STRING, metadata=properties(a=a, b=b))

    def found(**wanted: str) -> int:
        return played.latest_with_metadata("s", list(wanted), list(wanted.values()))["version"]

    assert [found(a="1"), found(b="y"), found(a="1", b="x"), found()] == [2, 3, 1, 3]
    with refused(40403, "Schema not found"):
        found(a="3")
    with refused(40401, "Subject 't' not found."):
        played.latest_with_metadata("t", ["a"], ["1"])
    played.do(played.delete_version("s", "3"))
    assert found(b="y") == 2
    assert played.latest_with_metadata("s", ["a"], ["2"], deleted=True)["version"] == 3


def test_reserved_fields_are_checked_where_fields_are() -> None:
    played = Played()
    reserved = properties(**{"confluent:reserved": "b, c,"})
    played.put("s", record("a:int"), metadata=reserved)
    grown = record("a:int", "b:int", default=0)
    assert played.compatibility("s", {"schema": grown, "metadata": reserved}) == {"is_compatible": True}
    played.do(played.set_config("s", {"validateFields": True}))
    with refused(40901, "The new schema has field that conflicts with the reserved field b."):
        played.register("s", {"schema": grown, "metadata": reserved})
    with refused(40901, "reserved field c removed from its metadata which is present in the old schema's"):
        played.register("s", {"schema": record("a:int"), "metadata": properties(x="1")})
    with refused(40901, "{validateFields: 'true', compatibility: 'BACKWARD'}"):
        played.register("s", {"schema": grown, "metadata": reserved})


@pytest.mark.parametrize(
    ("schema_type", "schema"),
    [
        ("JSON", '{"type":"object","properties":{"b":{"type":"string"}}}'),
        ("PROTOBUF", 'syntax = "proto3"; message M { oneof o { string b = 1; } }'),
    ],
)
def test_reserved_fields_of_the_other_formats(schema_type: str, schema: str) -> None:
    played = Played()
    played.do(played.set_config(None, {"validateFields": True}))
    body = {"schema": schema, "schemaType": schema_type}
    with refused(40901, "conflicts with the reserved field b."):
        played.register("s", {**body, "metadata": properties(**{"confluent:reserved": "b"})})
    assert played.put("s", schema, schemaType=schema_type)["id"] == 1


def test_names_of_json_fields_that_are_kept_for_others() -> None:
    played = Played()
    body = {"schema": '{"type":"object","properties":{"$$a":true}}', "schemaType": "JSON"}
    assert played.compatibility("s", body)["is_compatible"]
    played.do(played.set_config(None, {"validateFields": True}))
    with refused(42201, "Field names cannot start with $$ prefix"):
        played.register("s", body)


@pytest.mark.parametrize(
    ("rules", "code", "message"),
    [
        ({"domainRules": [RULE, RULE]}, 42210, "Found rule with duplicate name 'r'"),
        ({"domainRules": [RULE], "encodingRules": [RULE]}, 42210, "Found rule with duplicate name 'r'"),
        ({"domainRules": [{**RULE, "mode": "UPGRADE"}]}, 42210, "Domain rules can only be WRITE, READ, WRIT"),
        ({"migrationRules": [RULE]}, 42210, "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"),
        ({"domainRules": [{"type": "CEL"}]}, 42210, "Missing rule name"),
        ({"domainRules": [{**RULE, "name": ""}]}, 42210, "Empty rule name"),
        ({"domainRules": [{**RULE, "name": "1"}]}, 42210, "Illegal initial character in rule name: 1"),
        ({"domainRules": [{**RULE, "name": "a b"}]}, 42210, "Illegal character in rule name: a b"),
        ({"domainRules": [{**RULE, "name": "a" * 257}]}, 42210, "Rule name too long"),
        ({"domainRules": [{"name": "a"}]}, 42210, "Missing rule type"),
        ({"domainRules": [{**RULE, "onFailure": "A,B"}]}, 42210, "Multiple actions only valid"),
        ({"domainRules": [{**RULE, "kind": "OTHER"}]}, 400, "one of TRANSFORM, CONDITION, found 'OTHER'"),
        ({"domainRules": ["r"]}, 400, "ruleSet.domainRules: expected an object"),
        ({"domainRules": [{**RULE, "params": {"a": []}}]}, 400, "params.a: expected a string"),
        ({"enableAt": "HOME"}, 400, "ruleSet.enableAt"),
    ],
)
def test_rules_that_are_none(rules: dict, code: int, message: str) -> None:
    played = Played()
    with refused(code, message):
        played.register("s", {"schema": STRING, "ruleSet": rules})
    with refused(code):
        played.set_config("s", {"overrideRuleSet": rules})
