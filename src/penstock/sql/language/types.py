"""ksqlDB's types, their notation, and the rules of coercion, arithmetic, casts and comparison."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.sql.language.errors import SqlError
from penstock.sql.language.keywords import quoted


class Base(Enum):
    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    TIME = "TIME"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True)
class Primitive:
    base: Base

    def __str__(self) -> str:
        return self.base.value


@dataclass(frozen=True)
class Decimal:
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True)
class Array:
    element: SqlType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class Map:
    key: SqlType
    value: SqlType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class Struct:
    fields: tuple[tuple[str, SqlType], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{quoted(name)} {type_}' for name, type_ in self.fields)}>"

    def field(self, name: str) -> SqlType | None:
        return dict(self.fields).get(name)


@dataclass(frozen=True)
class Named:
    """A type that CREATE TYPE defined. The catalog holds its definition."""

    name: str

    def __str__(self) -> str:
        return quoted(self.name)


SqlType = Primitive | Decimal | Array | Map | Struct | Named

BOOLEAN: Final = Primitive(Base.BOOLEAN)
INTEGER: Final = Primitive(Base.INTEGER)
BIGINT: Final = Primitive(Base.BIGINT)
DOUBLE: Final = Primitive(Base.DOUBLE)
STRING: Final = Primitive(Base.STRING)
BYTES: Final = Primitive(Base.BYTES)
TIME: Final = Primitive(Base.TIME)
DATE: Final = Primitive(Base.DATE)
TIMESTAMP: Final = Primitive(Base.TIMESTAMP)

PRIMITIVES: Final[dict[str, SqlType]] = {
    **{base.value: Primitive(base) for base in Base},
    "BOOL": BOOLEAN,
    "INT": INTEGER,
    "VARCHAR": STRING,
}

DECIMAL_PRECISION_MAX: Final = 38
_WIDTHS: Final = {INTEGER: 0, BIGINT: 1, DOUBLE: 3}
"""The number types in order of width (DECIMAL is 2). A narrower type is coerced to a wider one implicitly."""
_INTEGER_DIGITS: Final = {INTEGER: 10, BIGINT: 19}
_TEMPORAL: Final = (TIME, DATE, TIMESTAMP)


def decimal(precision: int, scale: int) -> Decimal:
    if not 1 <= precision <= DECIMAL_PRECISION_MAX:
        raise SqlError(f"found a precision of {precision}, expected 1 to {DECIMAL_PRECISION_MAX}")
    if not 0 <= scale <= precision:
        raise SqlError(f"found a scale of {scale}, expected 0 to the precision, {precision}")
    return Decimal(precision, scale)


def is_numeric(type_: SqlType) -> bool:
    return isinstance(type_, Decimal) or type_ in _WIDTHS


def _width(type_: SqlType) -> int:
    if isinstance(type_, Decimal):
        return 2
    return _WIDTHS[type_] if isinstance(type_, Primitive) else 0


def as_decimal(type_: SqlType) -> Decimal:
    """The DECIMAL that can hold every value of an integer type. A DECIMAL is returned unchanged."""
    return type_ if isinstance(type_, Decimal) else Decimal(_INTEGER_DIGITS[type_], 0)  # type: ignore[index]


def can_become(source: SqlType | None, target: SqlType) -> bool:
    """Whether a value is coerced implicitly. None is the type of NULL, which coerces to any type."""
    if source is None or source == target:
        return True
    if is_numeric(source) and is_numeric(target):
        if isinstance(source, Decimal) and isinstance(target, Decimal):
            whole = source.precision - source.scale <= target.precision - target.scale
            return whole and source.scale <= target.scale
        return _width(source) <= _width(target)
    match source, target:
        case Array(), Array():
            return can_become(source.element, target.element)
        case Map(), Map():
            return can_become(source.key, target.key) and can_become(source.value, target.value)
        case Struct(), Struct():
            known = dict(source.fields)
            return all(name not in known or can_become(known[name], type_) for name, type_ in target.fields)
    return False


def common(left: SqlType | None, right: SqlType | None) -> SqlType | None:
    """The type to which both are coerced implicitly. Raises a SqlError if there is none."""
    if left is None or right is None or left == right:
        return right if left is None else left
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    match left, right:
        case Array(), Array():
            element = common(left.element, right.element)
            assert element is not None
            return Array(element)
        case Map(), Map():
            key, value = common(left.key, right.key), common(left.value, right.value)
            assert key is not None
            assert value is not None
            return Map(key, value)
        case Struct(), Struct():
            fields: dict[str, SqlType] = dict(left.fields)
            for name, type_ in right.fields:
                both = common(fields.get(name), type_)
                assert both is not None
                fields[name] = both
            return Struct(tuple(fields.items()))
    raise SqlError(f"found {right} beside {left}, expected types with a common type")


def _common_number(left: SqlType, right: SqlType) -> SqlType:
    if not isinstance(left, Decimal) and not isinstance(right, Decimal):
        return max(left, right, key=_width)
    if DOUBLE in (left, right):
        return DOUBLE
    one, other = as_decimal(left), as_decimal(right)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return Decimal(min(whole + scale, DECIMAL_PRECISION_MAX), min(scale, DECIMAL_PRECISION_MAX))


def arithmetic(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """The type of a sum, difference, product, quotient or remainder.

    The precision of decimals grows as in SQL Server, whose rules ksqlDB follows.
    """
    if operator == "+" and left == right == STRING:
        return STRING
    if not (is_numeric(left) and is_numeric(right)):
        wrong = right if is_numeric(left) else left
        raise SqlError(
            f"found {left} {operator} {right}, expected numbers on both sides of {operator}, not {wrong}"
        )
    if DOUBLE in (left, right):
        return DOUBLE
    if not isinstance(left, Decimal) and not isinstance(right, Decimal):
        return max(left, right, key=_width)
    one, other = as_decimal(left), as_decimal(right)
    (p1, s1), (p2, s2) = (one.precision, one.scale), (other.precision, other.scale)
    if operator in "+-":
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    elif operator == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif operator == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    return Decimal(min(precision, DECIMAL_PRECISION_MAX), min(scale, DECIMAL_PRECISION_MAX))


def can_cast(source: SqlType | None, target: SqlType) -> bool:
    """Whether CAST converts one type to the other. It allows more than implicit coercion does."""
    if can_become(source, target) or source is None:
        return True
    if target == STRING:
        return source != BYTES
    if is_numeric(source) and is_numeric(target):
        return True
    if source == STRING:
        return is_numeric(target) or target in (BOOLEAN, BYTES) or target in _TEMPORAL
    if source == TIMESTAMP:
        return target in (TIME, DATE)
    if (source, target) == (DATE, TIMESTAMP):
        return True
    match source, target:
        case Array(), Array():
            return can_cast(source.element, target.element)
        case Map(), Map():
            return can_cast(source.key, target.key) and can_cast(source.value, target.value)
        case Struct(), Struct():
            known = dict(source.fields)
            return all(name not in known or can_cast(known[name], type_) for name, type_ in target.fields)
    return False


def is_comparable(left: SqlType | None, right: SqlType | None, *, ordered: bool) -> bool:
    """Whether = and <> can compare them, or if ``ordered``, <, <=, > and >=.

    Temporal types compare with strings.
    """
    if left is None or right is None:
        return False
    if is_numeric(left) and is_numeric(right):
        return True
    for one, other in ((left, right), (right, left)):
        if one in _TEMPORAL and other == STRING:
            return True
        if one == DATE and other == TIMESTAMP:
            return True
    if left != right:
        return False
    if isinstance(left, (Array, Map, Struct)) or left == BOOLEAN:
        return not ordered
    return True
