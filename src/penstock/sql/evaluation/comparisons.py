"""Generation of Python source for comparisons of values with comparable types.

A comparison with NULL is false, except that IS DISTINCT FROM treats NULL like any other value.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from penstock.java.strings import utf16
from penstock.sql.evaluation import order
from penstock.sql.evaluation.code import Code
from penstock.sql.evaluation.numbers import shortest_decimal
from penstock.sql.evaluation.writer import Names
from penstock.sql.language import times, types
from penstock.sql.language.types import Decimal, SqlType

_TIMES: Final = (types.TIME, types.TIMESTAMP, types.DATE)


def sides(names: Names, one: Code, other: Code) -> tuple[str, str, SqlType | None]:
    """Convert both sides to a common type; return their source and that type. Neither side may be null."""
    found = (one.type, other.type)
    if one.type == other.type:
        return one.text, other.text, one.type
    if any(isinstance(each, Decimal) for each in found):
        return _as_decimal(names, one), _as_decimal(names, other), types.Decimal(1, 0)
    if types.DOUBLE in found:
        return _as_double(one), _as_double(other), types.DOUBLE
    wanted = next((each for each in _TIMES if each in found), None)
    if wanted is None and types.STRING in found:  # ROWTIME or a window's bound is compared with a string
        wanted = types.TIMESTAMP
    if wanted is not None:
        return _as_time(names, one, wanted), _as_time(names, other, wanted), wanted
    return one.text, other.text, types.BIGINT


def _as_decimal(names: Names, code: Code) -> str:
    return f"{names.constant(shortest_decimal)}({code.text})" if code.type == types.DOUBLE else code.text


def _as_double(code: Code) -> str:
    """Convert a BIGINT to DOUBLE before the comparison, as Java does. Python would compare exactly."""
    return f"float({code.text})" if code.type == types.BIGINT else code.text


def _as_time(names: Names, code: Code, wanted: SqlType) -> str:
    if code.type != types.STRING:
        return (
            f"{code.text} * {times.DAY_MS}"
            if (code.type, wanted) == (types.DATE, types.TIMESTAMP)
            else code.text
        )
    if code.value is not None:
        with suppress(ValueError):
            return repr(times.PARSERS[wanted](code.value))
    return f"{names.constant(times.PARSERS[wanted])}({code.text})"


def _less(one: str, other: str) -> bool:
    """Compare in Java's order, which differs from Python's only for characters beyond U+FFFF."""
    return utf16(one) < utf16(other)


def compared(names: Names, symbol: str, left: str, right: str, type_: SqlType | None) -> str:
    """Generate the comparison of two names of the same type. Neither may be null."""
    if type_ == types.DOUBLE and symbol == "!=":
        return f"({left} < {right} or {left} > {right})"  # NaN is not different from anything
    if type_ == types.STRING and symbol not in ("==", "!="):
        less = names.constant(_less)
        one, other = (left, right) if symbol in ("<", ">=") else (right, left)
        beyond = f"{'' if symbol in '<>' else 'not '}{less}({one}, {other})"
        return f"({left} {symbol} {right} if {left}.isascii() or {right}.isascii() else {beyond})"
    if type_ == types.BYTES and symbol not in ("==", "!="):
        key = names.constant(order.of_bytes)
        return f"{key}({left}) {symbol} {key}({right})"
    return f"{left} {symbol} {right}"
