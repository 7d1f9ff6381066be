"""Chains of transforms from configurations, and promises that a comparison with Kafka does not show."""

import inspect
from typing import Any

import pytest

import penstock.connect.transforms.transform
from penstock.connect.data.records import ConnectRecord, Header, SinkRecord, SourceRecord
from penstock.connect.data.schema import INT32, STRING, Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ConfigInvalid, DataError
from penstock.connect.transforms import PREDICATES, TRANSFORMS, Chain, Predicate, Transform, build_chain
from penstock.connect.transforms.fields.schemas import OBJECTS_MAX, SCHEMAS_MAX, SchemaCache
from penstock.connect.transforms.transform import R

RECORD = SourceRecord(topic="orders", value={"id": 7, "card": "1234"}, source_offset={"line": 3})


def chain_of(**settings: str) -> Chain:
    """Build a chain from settings whose names have underscores in place of dots."""
    return build_chain({name.replace("_", "."): value for name, value in settings.items()})


def test_stages_change_a_record_in_their_order() -> None:
    chain = chain_of(
        transforms="mask, add, key",
        transforms_mask_type="MaskField$Value",
        transforms_mask_fields="card",
        transforms_add_type="org.apache.kafka.connect.transforms.InsertField$Value",
        transforms_add_topic_field="topic",
        transforms_key_type="ValueToKey",
        transforms_key_fields="id",
    )
    changed = chain.apply(RECORD)
    assert [stage.alias for stage in chain.stages] == ["mask", "add", "key"]
    assert (
        chain.stages[0].transform_class is TRANSFORMS["org.apache.kafka.connect.transforms.MaskField$Value"]
    )
    assert changed == SourceRecord(
        topic="orders",
        key={"id": 7},
        value={"id": 7, "card": "", "topic": "orders"},
        source_offset={"line": 3},
    )
    assert RECORD.value == {"id": 7, "card": "1234"}, "a transform changed the record that it was given"


@pytest.mark.parametrize(("negate", "topics"), [("false", ["kept"]), ("true", ["audit-1", "audit-2"])])
def test_a_predicate_selects_what_a_filter_drops(negate: str, topics: list[str]) -> None:
    chain = chain_of(
        transforms="drop",
        transforms_drop_type="Filter",
        transforms_drop_predicate="audited",
        transforms_drop_negate=negate,
        predicates="audited",
        predicates_audited_type="TopicNameMatches",
        predicates_audited_pattern="audit-.*",
    )
    records = [SinkRecord(topic=topic, offset=1) for topic in ("audit-1", "kept", "audit-2")]
    assert [record.topic for record in records if chain.apply(record) is not None] == topics


def test_the_stages_after_a_dropped_record_do_not_see_it() -> None:
    chain = chain_of(
        transforms="drop,fail",
        transforms_drop_type="Filter",
        transforms_fail_type="ExtractField$Key",
        transforms_fail_field="missing",
    )
    assert chain.apply(RECORD) is None


REFUSED = [
    ({"transforms": "a,a"}, "Invalid value [a, a] for configuration transforms: Duplicate alias provided."),
    ({"transforms": "a"}, "Invalid value null for configuration transforms.a.type: Not a Transformation"),
    ({"predicates": "p"}, "Invalid value null for configuration predicates.p.type: Not a Predicate"),
    (
        {"transforms": "a", "transforms.a.type": "ValueToKey"},
        'Missing required configuration "transforms.a.fields" which has no default value.',
    ),
    (
        {"transforms": "a", "transforms.a.type": "Filter", "transforms.a.negate": "true"},
        "Config 'transforms.a.negate' was provided but there is no config 'transforms.a.predicate' "
        "defining a predicate to be negated.",
    ),
    (
        {"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"},
        "Invalid value p for configuration transforms.a.predicate: "
        "Expected one of the predicates: there are none",
    ),
]


@pytest.mark.parametrize(("properties", "message"), REFUSED)
def test_a_faulty_configuration_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        build_chain(properties)
    assert str(refused.value) == message


def test_an_unknown_transform_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigInvalid, match=r"'Nothing', expected one of .*\.Cast\$Key"):
        chain_of(transforms="a", transforms_a_type="Nothing")


def test_the_example_of_the_documentation_runs() -> None:
    doc = inspect.getdoc(penstock.connect.transforms.transform) or ""
    example = doc.partition("A complete transform:\n\n")[2].partition("\n\n`apply` never")[0]
    names: dict[str, Any] = {}
    exec(inspect.cleandoc(example), names)  # documentation is run as it stands
    properties = {"transforms": "a", "transforms.a.type": "own", "transforms.a.field": "name"}
    changed = build_chain(properties, lambda _name: names["Capitals"]).apply(
        SourceRecord(topic="t", value={"name": "ann", "id": 1})
    )
    assert changed is not None
    assert changed.value == {"name": "ANN", "id": 1}


class Closable(Transform, Predicate):
    """Counts how often it is closed, and fails each time."""

    closed = 0

    def apply(self, record: R) -> R | None:
        return record

    def test(self, record: ConnectRecord) -> bool:
        return True

    def close(self) -> None:
        type(self).closed += 1
        raise RuntimeError("close")


def test_all_stages_are_closed_if_one_of_them_raises() -> None:
    properties = {
        "transforms": "a,b",
        "transforms.a.type": "own",
        "transforms.b.type": "own",
        "transforms.b.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "own",
    }
    chain = build_chain(properties, lambda _name: Closable, lambda _name: Closable)
    with pytest.raises(RuntimeError):
        chain.close()
    assert Closable.closed == 3


def test_every_shipped_class_has_a_definition_that_documents_its_keys() -> None:
    assert (len(TRANSFORMS), len(PREDICATES)) == (26, 3)
    shipped: list[Any] = [*TRANSFORMS.values(), *PREDICATES.values()]
    undocumented = [
        f"{found.__name__} {name}"
        for found in shipped
        for name, key in found.definition.keys.items()
        if not key.doc
    ]
    assert not undocumented


def test_headers_keep_their_order_and_their_duplicates() -> None:
    chain = chain_of(
        transforms="add",
        transforms_add_type="InsertHeader",
        transforms_add_header="h",
        transforms_add_value_literal="[1, 2]",
    )
    changed = chain.apply(SinkRecord(topic="t", offset=1, headers=(Header("h", "first"),)))
    assert changed is not None
    assert [(each.key, each.value) for each in changed.headers] == [("h", "first"), ("h", [1, 2])]
    assert isinstance(changed, SinkRecord)
    assert changed.offset == 1


def test_a_value_that_a_field_needs_is_missing() -> None:
    schema = Schema.struct({"a": STRING, "b": INT32})
    chain = chain_of(transforms="a", transforms_a_type="ReplaceField$Value", transforms_a_exclude="a")
    record = SourceRecord(topic="t", value_schema=schema, value=Struct(schema, {"a": "x"}))
    with pytest.raises(DataError, match='null used for required field: "b", schema type: INT32'):
        chain.apply(record)


def test_a_cache_of_schemas_derives_once_and_forgets() -> None:
    derived: list[str | None] = []

    def derive(schema: Schema) -> str | None:
        derived.append(schema.name)
        return schema.name

    cache = SchemaCache(derive)
    for _ in range(3 * OBJECTS_MAX):
        assert cache.get(Schema(INT32.type, name="same")) == "same"
    assert derived == ["same"], "equal schemas are other objects each time"
    for number in range(SCHEMAS_MAX):
        cache.get(Schema(INT32.type, name=str(number)))
    kept = Schema(INT32.type, name="same")
    assert cache.get(kept) == "same"
    assert derived.count("same") == 2, "the oldest schema was not forgotten"
