"""The text cases: compatible schemas, stored forms, refused schemas and their messages."""

import pytest
from schema_cases import Case, cases

from penstock.registry.formats import Schema, SchemaError, parse

FORMATS = ("AVRO", "JSON", "PROTOBUF")


def of_each_format(kind: str) -> list[object]:
    return [
        pytest.param(name, case, id=f"{name}: {case.title}"[:90])
        for name in FORMATS
        for case in cases(f"{name.lower()}_{kind}")
    ]


def verdict(reader: Schema, writer: Schema) -> str:
    found = reader.incompatibilities(writer)
    return (
        "\n".join(" ".join(filter(None, (each.kind, each.path, each.detail))) for each in found)
        or "compatible"
    )


@pytest.mark.parametrize(("name", "case"), of_each_format("compatibility"))
def test_compatibility(name: str, case: Case) -> None:
    old, new = (parse(name, case.sections[side]) for side in ("old", "new"))
    assert verdict(new, old) == case.sections["backward"]
    assert verdict(old, new) == case.sections["forward"]


@pytest.mark.parametrize(("name", "case"), of_each_format("compatibility"))
def test_a_schema_is_compatible_with_itself_and_with_its_normal_form(name: str, case: Case) -> None:
    for side in ("old", "new"):
        schema = parse(name, case.sections[side])
        normal = schema.normalized()
        assert verdict(schema, parse(name, schema.canonical())) == "compatible"
        assert verdict(schema, normal) == verdict(normal, schema) == "compatible"


@pytest.mark.parametrize(("name", "case"), of_each_format("text"))
def test_text(name: str, case: Case) -> None:
    schema = parse(name, case.sections["schema"])
    canonical = case.sections["canonical"]
    normalized = case.sections.get("normalized", canonical)
    assert schema.canonical().rstrip("\n") == canonical
    assert schema.normalized().canonical().rstrip("\n") == normalized
    if "ignore_extensions" in case.sections:
        assert schema.formatted("ignore_extensions").rstrip("\n") == case.sections["ignore_extensions"]


@pytest.mark.parametrize(("name", "case"), of_each_format("text"))
def test_what_is_stored_is_read_as_the_same(name: str, case: Case) -> None:
    schema = parse(name, case.sections["schema"])
    again = parse(name, schema.canonical())
    assert again.canonical() == schema.canonical()
    assert again.identity() == schema.identity()
    assert again.fingerprint() == schema.fingerprint()
    normal = schema.normalized()
    assert normal.normalized().canonical() == normal.canonical()


@pytest.mark.parametrize(("name", "case"), of_each_format("errors"))
def test_what_is_no_schema_is_refused(name: str, case: Case) -> None:
    with pytest.raises(SchemaError) as refused:
        parse(name, case.sections["schema"])
    assert str(refused.value) == case.sections["error"]
