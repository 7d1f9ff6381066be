"""Generation of Python source for arithmetic operators. Operands are names; a null operand is an error."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Final

from penstock.sql.evaluation import numbers
from penstock.sql.evaluation.code import Code
from penstock.sql.evaluation.writer import Writer
from penstock.sql.language import types
from penstock.sql.language.types import Decimal, SqlType

_DECIMAL_METHODS: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_INTEGER_HELPERS: Final = {"/": numbers.quotient, "%": numbers.remainder}
_DOUBLE_HELPERS: Final = {"/": numbers.double_quotient, "%": numbers.double_remainder}


def operation(writer: Writer, operator: str, left: Code, right: Code, result: SqlType) -> Code:
    """Generate ``left operator right`` with a result of type ``result``."""
    if result == types.STRING:
        text = f"{_joinable(left)} + {_joinable(right)}"
    elif isinstance(result, Decimal):
        text = _decimal(writer, operator, left, right, result)
    elif result == types.DOUBLE:
        one, other = (f"float({each.text})" if _is_exact(each) else each.text for each in (left, right))
        helper = _DOUBLE_HELPERS.get(operator)
        text = f"{writer.names.constant(helper)}({one}, {other})" if helper else f"{one} {operator} {other}"
    else:
        return _integer(writer, operator, left.text, right.text, result)
    return Code(writer.temporary(text), result, nullable=False, is_name=True)


def _is_exact(code: Code) -> bool:
    """Whether a number must be rounded to a double explicitly, as Java's operators do and Python's do not."""
    return isinstance(code.type, Decimal) or code.type == types.BIGINT


def _joinable(code: Code) -> str:
    """Replace null by the text `null`, as Java's + does."""
    return f"('null' if {code.text} is None else {code.text})" if code.nullable else code.text


def _decimal(writer: Writer, operator: str, left: Code, right: Code, result: Decimal) -> str:
    names = writer.names
    context = numbers.within(result.precision)
    fit = names.constant(numbers.at_scale)
    if operator == "%":
        rest = names.constant(numbers.decimal_remainder)
        return f"{fit}({rest}({left.text}, {right.text}, {names.constant(context)}), {result.scale})"
    method = names.constant(getattr(context, _DECIMAL_METHODS[operator]))
    return f"{fit}({method}({left.text}, {right.text}), {result.scale})"


def _integer(writer: Writer, operator: str, left: str, right: str, result: SqlType) -> Code:
    helper = _INTEGER_HELPERS.get(operator)
    text = f"{writer.names.constant(helper)}({left}, {right})" if helper else f"{left} {operator} {right}"
    name = writer.temporary(text)
    if operator != "%":
        wrap(writer, name, result)
    return Code(name, result, nullable=False, is_name=True)


def wrap(writer: Writer, name: str, type_: SqlType) -> None:
    """Wrap an integer around the bounds of its type, as Java does."""
    small = type_ == types.INTEGER
    bound = numbers.INTEGER_BOUND if small else numbers.BIGINT_BOUND
    helper = writer.names.constant(numbers.wrapped_integer if small else numbers.wrapped_bigint)
    writer.write(f"if not {-bound} <= {name} < {bound}: {name} = {helper}({name})")


def negated(writer: Writer, operand: Code) -> Code:
    type_ = operand.type
    if isinstance(type_, Decimal):
        minus = writer.names.constant(numbers.EXACT.minus)
        name = writer.temporary(f"{minus}({operand.text})")
    else:
        name = writer.temporary(f"-{operand.text}")
        if type_ != types.DOUBLE:
            assert type_ is not None
            wrap(writer, name, type_)
    return Code(name, type_, nullable=False, is_name=True)


def opposite(value: int | float | Number) -> int | float | Number:
    """Negate a literal, whose type takes the minus into account, so the result always fits."""
    return numbers.EXACT.minus(value) if isinstance(value, Number) else -value
