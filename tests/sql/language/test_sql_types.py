"""Types: their text form, and which value is accepted for which type."""

from itertools import product

import pytest

from penstock.sql import SqlError, parse
from penstock.sql.language import types
from penstock.sql.language.type_nodes import node_of, type_of
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct, can_become, can_cast, common

ALL_TYPES: list[SqlType] = [
    *dict.fromkeys(types.PRIMITIVES.values()),
    Decimal(4, 2),
    Decimal(10, 0),
    Array(types.INTEGER),
    Array(types.DOUBLE),
    Map(types.STRING, types.BIGINT),
    Struct((("A", types.INTEGER), ("B", Array(types.STRING)))),
]


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_a_type_is_written_and_read(type_: SqlType) -> None:
    statement = parse(f"CREATE TYPE t AS {type_}")
    assert getattr(statement, "type", None) == type_
    assert type_of(node_of(type_)) == type_


def test_types_become_wider_ones_alone() -> None:
    """Each type and the types it becomes implicitly; a cast can do all of these, too."""
    becomes = {
        (str(one), str(other))
        for one, other in product(ALL_TYPES, repeat=2)
        if one != other and can_become(one, other)
    }
    numbers = {("INTEGER", "BIGINT"), ("INTEGER", "DOUBLE"), ("BIGINT", "DOUBLE")}
    decimals = {
        (number, size) for number in ("INTEGER", "BIGINT") for size in ("DECIMAL(4, 2)", "DECIMAL(10, 0)")
    }
    doubles = {("DECIMAL(4, 2)", "DOUBLE"), ("DECIMAL(10, 0)", "DOUBLE")}
    assert becomes == numbers | decimals | doubles | {("ARRAY<INTEGER>", "ARRAY<DOUBLE>")}
    assert all(can_cast(one, other) for one, other in product(ALL_TYPES, repeat=2) if can_become(one, other))


def test_the_common_type_is_one_that_both_become() -> None:
    for one, other in product(ALL_TYPES, repeat=2):
        try:
            both = common(one, other)
        except SqlError:
            assert not can_become(one, other)
            continue
        assert both is not None
        assert both == common(other, one)
        assert can_become(one, both)
        assert can_become(other, both)


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        ("+", types.INTEGER, types.BIGINT, types.BIGINT),
        ("+", types.STRING, types.STRING, types.STRING),
        ("+", Decimal(4, 2), Decimal(5, 1), Decimal(7, 2)),
        ("-", Decimal(4, 2), types.INTEGER, Decimal(13, 2)),
        ("*", Decimal(4, 2), Decimal(5, 1), Decimal(10, 3)),
        ("/", Decimal(4, 2), Decimal(5, 1), Decimal(11, 8)),
        ("%", Decimal(4, 2), Decimal(5, 1), Decimal(4, 2)),
        ("*", Decimal(30, 2), Decimal(30, 2), Decimal(38, 4)),
        ("/", Decimal(4, 2), types.DOUBLE, types.DOUBLE),
    ],
)
def test_arithmetic(operator: str, left: SqlType, right: SqlType, result: SqlType) -> None:
    assert types.arithmetic(operator, left, right) == result
