"""Compilation of all expressions of a step into one Python function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Inexact, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from penstock.sql.analysis.expression_types import Types
from penstock.sql.catalog import Catalog, Column
from penstock.sql.evaluation.calls import FunctionCalls
from penstock.sql.evaluation.code import Code, NullValue
from penstock.sql.evaluation.expressions import COLUMN, SIMPLE, Expressions
from penstock.sql.evaluation.user_functions import UserFunctions
from penstock.sql.evaluation.writer import Names, Writer
from penstock.sql.functions import Function
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.types import SqlType

Row = tuple[Any, ...]
Report = Callable[[str, Exception], None]
_COLUMN: Final = re.compile(rf"{COLUMN}(\d+)_")


def _silent(text: str, error: Exception) -> None:
    """Ignore an error. This is the default report."""


class _Compiled:
    """A function compiled from expressions.

    For each error it calls ``report`` with the text of the failed expression, or part of one, and the error.
    """

    def __init__(
        self,
        expressions: Sequence[exp.Expr],
        columns: Sequence[Column],
        functions: Mapping[str, Function],
        user_functions: UserFunctions,
        wanted: Sequence[SqlType | None],
    ) -> None:
        self.report: Report = _silent
        called = {call.name for each in expressions for call in each.find_all(exp.Anonymous)}
        used = {name: functions[name] for name in sorted(called & functions.keys())}
        self._made_of = (tuple(expressions), tuple(columns), used, user_functions.only(used), tuple(wanted))
        self._parts: list[exp.Expr] = []
        writer = Writer(Names())
        self._write(writer, self._expressions(writer))
        self.function = self._compile(writer)

    def _write(self, writer: Writer, made: Expressions) -> None:
        """Write the body of the function."""
        raise NotImplementedError

    def _expressions(self, writer: Writer) -> Expressions:
        expressions, columns, functions, user_functions, _ = self._made_of
        types = Types(Catalog(functions=functions), {each.name: each.type for each in columns}, "")
        for expression in expressions:
            types.of(expression)  # raises for invalid types; code generation relies on this check
        places = {
            column.name: Code(f"{COLUMN}{place}_", column.type, is_name=True)
            for place, column in enumerate(columns)
        }
        return Expressions(writer, types, places, FunctionCalls(functions, user_functions), self._parts)

    def _compile(self, writer: Writer) -> Callable[[Row], Any]:
        """Compile the function from its written body."""
        body = "\n".join(writer.lines)
        uses: dict[str, int] = {}
        for found in _COLUMN.finditer(body):
            uses[found.group()] = uses.get(found.group(), 0) + 1
        head = [f"    {name} = r[{_place(name)}]" for name, count in uses.items() if count > 1]
        body = _COLUMN.sub(
            lambda found: f"r[{found.group(1)}]" if uses[found.group()] == 1 else found.group(), body
        )
        source = "\n".join(["def compiled(r):", *head, body])
        namespace = {**writer.names.globals, "failed": self._failed}
        exec(compile(source, "<sql>", "exec"), namespace)
        made: Callable[[Row], Any] = namespace["compiled"]
        return made

    def _failed(self, part: int, error: Exception) -> None:
        self.report(print_expression(self._parts[part]), _reported(error))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of, {"report": self.report}


def _reported(error: Exception) -> Exception:
    """Translate an error of a Python operator to SQL's terms. Other errors are returned unchanged."""
    if isinstance(error, TypeError) and "NoneType" in str(error):
        return NullValue("found NULL beside an operator, expected a value")
    if isinstance(error, ZeroDivisionError):
        return ZeroDivisionError("found a division by zero")
    if isinstance(error, (Inexact, InvalidOperation)):
        return OverflowError("found a result of more digits than its type has")
    return error


def _place(name: str) -> int:
    return int(name[len(COLUMN) : -1])


class RowFunction(_Compiled):
    """A function from a row of columns to a row of values.

    If an expression fails, its value is None and the error is reported. Calling ``function`` directly has
    the same result and saves one Python call.
    """

    def _write(self, writer: Writer, made: Expressions) -> None:
        wanted = self._made_of[4]
        values = [_value(made, *each) for each in zip(self._made_of[0], wanted, strict=True)]
        writer.write(f"return ({''.join(f'{value}, ' for value in values)})")

    def __call__(self, row: Row) -> Row:
        values: Row = self.function(row)
        return values


class Condition(_Compiled):
    """A test of a condition on a row. It is False for NULL, and for an error, which is reported."""

    def _write(self, writer: Writer, made: Expressions) -> None:
        (expression,) = self._made_of[0]
        with writer.counted_block("try:"):
            writer.write(f"return {made.condition(expression, 'a condition').text}")
        with writer.block("except Exception as error:"):
            writer.write(f"failed({made.part(expression)}, error)")
            writer.write("return False")

    def __call__(self, row: Row) -> bool:
        holds: bool = self.function(row)
        return holds


class Value(_Compiled):
    """A function from a row of columns to one value, which is None after an error. The error is reported."""

    def _write(self, writer: Writer, made: Expressions) -> None:
        (expression,), (wanted,) = self._made_of[0], self._made_of[4]
        writer.write(f"return {_value(made, expression, wanted)}")

    def __call__(self, row: Row) -> Any:
        return self.function(row)


def _value(made: Expressions, expression: exp.Expr, wanted: SqlType | None) -> str:
    """Generate the source of an expression's value, which is None if the expression fails."""

    def make() -> Code:
        return made.value(expression) if wanted is None else made.coerced(expression, wanted)

    if isinstance(expression.unnest(), SIMPLE):
        return make().text
    return made.guarded(expression, make).text


def compile_row(
    expressions: Sequence[exp.Expr],
    columns: Sequence[Column],
    functions: Mapping[str, Function],
    user_functions: UserFunctions | None = None,
    wanted: Sequence[SqlType | None] | None = None,
) -> RowFunction:
    """Compile expressions to a function from rows of ``columns`` to rows of their values.

    Values are coerced to the types in ``wanted`` that are not None, like values inserted into a column.
    Raises a SqlError if an expression has a type error.
    """
    return RowFunction(
        expressions,
        columns,
        functions,
        user_functions or UserFunctions(),
        wanted or [None] * len(expressions),
    )


def compile_condition(
    condition: exp.Expr,
    columns: Sequence[Column],
    functions: Mapping[str, Function],
    user_functions: UserFunctions | None = None,
) -> Condition:
    """Compile a condition to a function that tests a row."""
    return Condition((condition,), columns, functions, user_functions or UserFunctions(), (None,))


def compile_value(
    expression: exp.Expr,
    columns: Sequence[Column],
    functions: Mapping[str, Function],
    user_functions: UserFunctions | None = None,
    wanted: SqlType | None = None,
) -> Value:
    """Compile one expression to a function from a row to its value."""
    return Value((expression,), columns, functions, user_functions or UserFunctions(), (wanted,))
