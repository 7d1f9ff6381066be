"""The meaning of statements in a catalogue, in text cases: each statement has a plan or is refused."""

import os
import random

import pytest
from sql_cases import Case, cases_of
from sql_outcomes import plans, setting

from penstock.sql import SqlError, parse, parse_script
from penstock.sql.analysis import DefaultFormats, analyze
from penstock.sql.catalog import Catalog, Column, Role
from penstock.sql.language import types

CASES = list(cases_of("plans"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_text_means_what_the_case_says(case: Case) -> None:
    assert plans(case.sql) == case.expected


def _shuffled(words: list[str], other: list[str], choose: random.Random) -> list[str]:
    made = list(words)
    for _ in range(choose.randrange(1, 3)):
        at = choose.randrange(len(made))
        made[at] = choose.choice(other)
    return made


def test_shuffled_statements_raise_nothing_else() -> None:
    """Words of one case are put into another: most results parse, and have a plan or are refused."""
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    choose = random.Random(seed)
    texts = [case.sql.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split() for case in CASES]
    catalog = setting()
    meant = refused = 0
    for _ in range(800):
        text = " ".join(_shuffled(choose.choice(texts), choose.choice(texts), choose))
        try:
            for each in parse_script(text):
                try:
                    analyze(each.statement, catalog, text, each.place.offset)
                    meant += 1
                except SqlError as error:
                    refused += 1
                    assert error.place is not None  # noqa: PT017 - every error must have a place
        except SqlError:
            continue
    assert meant > 20
    assert refused > 20


def _typed(expression: str) -> str:
    text = f"SELECT {expression} AS x FROM orders EMIT CHANGES"
    plan = analyze(parse(text), setting(), text).plan
    assert plan is not None
    return str(plan.root.schema[0].type)


def test_the_deepest_expressions_have_a_type() -> None:
    assert _typed(f"{'ABS(' * 38}{'1 + ' * 100}id{')' * 38}") == "INTEGER"
    with pytest.raises(SqlError, match="->STREET of STRING"):
        _typed(f"{'(' * 38}home{'->street' * 99}{')' * 38}")


def test_an_error_without_a_text_has_no_place() -> None:
    with pytest.raises(SqlError) as caught:
        analyze(parse("SELECT x FROM orders EMIT CHANGES"), setting())
    assert caught.value.place is None
    assert str(caught.value).startswith("found no column X in ORDERS")


def test_columns_may_come_from_a_registry() -> None:
    create = parse("CREATE STREAM s (k INT KEY) WITH (FORMAT='AVRO')")
    known = [Column("V", types.STRING)]
    source = analyze(create, Catalog(), registered=known).catalog.source("S")
    assert source.columns == (Column("K", types.INTEGER, Role.KEY), *known)


def test_columns_of_key_and_value_may_come_from_a_registry() -> None:
    known = [Column("ROWKEY", types.INTEGER, Role.KEY), Column("V", types.STRING)]
    create = parse("CREATE STREAM s WITH (FORMAT='JSON_SR')")
    assert analyze(create, Catalog(), registered=known).catalog.source("S").columns == tuple(known)
    create = parse("CREATE STREAM s (w INT) WITH (KEY_FORMAT='JSON_SR', VALUE_FORMAT='JSON')")
    columns = analyze(create, Catalog(), registered=known).catalog.source("S").columns
    assert columns == (known[0], Column("W", types.INTEGER))


def test_a_server_has_formats_for_those_that_name_none() -> None:
    create = parse("CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='s')")
    defaults = DefaultFormats(key="JSON", value="AVRO")
    source = analyze(create, Catalog(), defaults=defaults).catalog.source("S")
    assert (source.key_format, source.value_format) == ("JSON", "AVRO")
    with pytest.raises(SqlError, match="found no VALUE_FORMAT"):
        analyze(create, Catalog())


@pytest.mark.parametrize(
    ("properties", "delimiter"),
    [("", "|"), ("WITH (VALUE_DELIMITER='TAB')", "TAB"), ("WITH (VALUE_FORMAT='JSON')", None)],
)
def test_a_result_has_its_source_s_delimiter(properties: str, delimiter: str | None) -> None:
    settings = "WITH (KAFKA_TOPIC='t', VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='|')"
    catalog = analyze(parse(f"CREATE STREAM s (v INT) {settings}"), Catalog()).catalog
    catalog = analyze(parse(f"CREATE STREAM copied {properties} AS SELECT v FROM s"), catalog).catalog
    assert dict(catalog.source("COPIED").settings).get("VALUE_DELIMITER") == delimiter
