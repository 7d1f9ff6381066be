"""The functions: the arguments they take, and the types of their results."""

from decimal import Decimal

import pytest
from sql_outcomes import setting

from penstock.sql import parse
from penstock.sql.analysis import analyze
from penstock.sql.evaluation.builtin import AGGREGATES
from penstock.sql.functions import BUILT_IN, FunctionKind, ValueArgument, result_type
from penstock.sql.language import types

# Calls of each function, and the types of their results.
CALLS = {
    "ABS(price)": "DECIMAL(6, 2)",
    "ROUND(price)": "DECIMAL(4, 0)",
    "ROUND(price, 1)": "DECIMAL(6, 2)",
    "ROUND(total)": "BIGINT",
    "GREATEST(id, 1, NULL)": "INTEGER",
    "GREATEST(id, price, total)": "DOUBLE",
    "GREATEST(price, 1234567.125)": "DECIMAL(10, 3)",
    "LEAST(note, 'x')": "STRING",
    "SQRT(id)": "DOUBLE",
    "COALESCE(NULL, id, customer)": "BIGINT",
    "IFNULL(tags, ARRAY['x'])": "ARRAY<STRING>",
    "CONCAT(raw, raw)": "BYTES",
    "LEN(raw)": "INTEGER",
    "ELT(2, note, 'x')": "STRING",
    "ENTRIES(props, TRUE)": "ARRAY<STRUCT<K STRING, V INTEGER>>",
    "AS_MAP(tags, ARRAY[1.5])": "MAP<STRING, DECIMAL(2, 1)>",
    "GENERATE_SERIES(customer, 5, 1)": "ARRAY<BIGINT>",
    "TRANSFORM(ARRAY[home], x => x->zip)": "ARRAY<INTEGER>",
    "REDUCE(props, 0, (s, k, v) => s + v)": "INTEGER",
    "TIMESTAMPADD(DAYS, 1, placed)": "TIMESTAMP",
    "DATESUB(HOURS, id, day)": "DATE",
    "UNIX_TIMESTAMP()": "BIGINT",
    "UNIX_TIMESTAMP(placed)": "BIGINT",
    "SPLIT(raw, raw)": "ARRAY<BYTES>",
    "JSON_RECORDS(note)": "MAP<STRING, STRING>",
    "SUM(price)": "DECIMAL(6, 2)",
    "SUM(id)": "INTEGER",
    "AVG(price)": "DOUBLE",
    "COUNT(*)": "BIGINT",
    "COLLECT_SET(home)": "ARRAY<STRUCT<STREET STRING, ZIP INTEGER>>",
    "LATEST_BY_OFFSET(note, FALSE)": "STRING",
    "LATEST_BY_OFFSET(note, 3, FALSE)": "ARRAY<STRING>",
    "TOPK(total, 3)": "ARRAY<DOUBLE>",
    "TOPK(total, note, id, 3)": "ARRAY<STRUCT<`sort_col` DOUBLE, `col0` STRING, `col1` INTEGER>>",
    "TOPKDISTINCT(note, 3)": "ARRAY<STRING>",
    "HISTOGRAM(note)": "MAP<STRING, BIGINT>",
    "CUBE_EXPLODE(tags)": "ARRAY<STRING>",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_has_the_type_of_its_signature(call: str) -> None:
    function = BUILT_IN[call.partition("(")[0]]
    group = "GROUP BY id" if function.kind is FunctionKind.AGGREGATE else ""
    text = f"SELECT {call} AS x FROM orders {group} EMIT CHANGES"
    plan = analyze(parse(text), setting(), text).plan
    assert plan is not None
    assert str(plan.root.schema[0].type) == CALLS[call]


def test_every_function_takes_what_its_signatures_say() -> None:
    """A signature of plain types is the one chosen for arguments of exactly these types."""
    tried = 0
    for function in BUILT_IN.values():
        assert function.description
        for signature in function.signatures:
            shapes = [parameter.shape for parameter in signature.parameters]
            if all(isinstance(shape, types.Primitive) for shape in (*shapes, signature.result)):
                given = [ValueArgument(shape) for shape in shapes if isinstance(shape, types.Primitive)]
                assert result_type(function, given) == signature.result, f"{function.name} {signature}"
                tried += 1
    assert tried > 120


def test_a_sum_that_its_type_can_not_hold_is_an_error() -> None:
    amount = types.Decimal(3, 1)
    total = AGGREGATES["SUM"].bind((amount,), (None,), {})
    state = total.add(total.initial(), Decimal("50.9"))
    assert total.result(total.add(state, Decimal("49.0"))) == Decimal("99.9")
    with pytest.raises(OverflowError, match=r"found 101.7, expected a number that fits DECIMAL\(3, 1\)"):
        total.add(state, Decimal("50.8"))
