"""One Python function for all expressions of a step."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Inexact, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from penstock.sql.analysis.expression_types import Types
from penstock.sql.catalog import Catalog, Column
from penstock.sql.dialect import print_expression
from penstock.sql.evaluation.calls import FunctionCalls
from penstock.sql.evaluation.code import Code, NullValue
from penstock.sql.evaluation.expressions import COLUMN, SIMPLE, Expressions
from penstock.sql.evaluation.user_functions import UserFunctions
from penstock.sql.evaluation.writer import Names, Writer
from penstock.sql.functions import Function
from penstock.sql.types import SqlType

Row = tuple[Any, ...]
Report = Callable[[str, Exception], None]
_COLUMN: Final = re.compile(rf"{COLUMN}(\d+)_")


def _silent(text: str, error: Exception) -> None:
    """Where nobody asked for reports."""


class _Compiled:
    """``report`` is called with the text of an expression, or of a part of one, and what went wrong in it."""

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
        """The body of the function."""
        raise NotImplementedError

    def _expressions(self, writer: Writer) -> Expressions:
        expressions, columns, functions, user_functions, _ = self._made_of
        types = Types(Catalog(functions=functions), {each.name: each.type for each in columns}, "")
        for expression in expressions:
            types.of(expression)  # what comes behind relies on it
        places = {
            column.name: Code(f"{COLUMN}{place}_", column.type, is_name=True)
            for place, column in enumerate(columns)
        }
        return Expressions(writer, types, places, FunctionCalls(functions, user_functions), self._parts)

    def _compile(self, writer: Writer) -> Callable[[Row], Any]:
        """The function whose body was written."""
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
        self.report(print_expression(self._parts[part]), _told(error))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_of, {"report": self.report}


def _told(error: Exception) -> Exception:
    """The error in the words of SQL, where it came from an operator of Python."""
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
    """A row of values for a row of columns. Where an expression fails its value is None, and the error is
    reported. ``function`` is the same without the step of a call.
    """

    def _write(self, writer: Writer, made: Expressions) -> None:
        wanted = self._made_of[4]
        values = [_value(made, *each) for each in zip(self._made_of[0], wanted, strict=True)]
        writer.write(f"return ({''.join(f'{value}, ' for value in values)})")

    def __call__(self, row: Row) -> Row:
        values: Row = self.function(row)
        return values


class Condition(_Compiled):
    """Whether a condition holds for a row; an error, which is reported, and NULL are False."""

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
    """One value for a row of columns; None where it fails, which is reported."""

    def _write(self, writer: Writer, made: Expressions) -> None:
        (expression,), (wanted,) = self._made_of[0], self._made_of[4]
        writer.write(f"return {_value(made, expression, wanted)}")

    def __call__(self, row: Row) -> Any:
        return self.function(row)


def _value(made: Expressions, expression: exp.Expr, wanted: SqlType | None) -> str:
    """The source of a value that is None where the expression fails."""

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
    """A function of rows of ``columns`` that gives the expressions' values; those for which a type is
    ``wanted`` become it, as a value does that is inserted into a column. Raises a SqlError for what has no
    type.
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
    """A function of rows that tells whether a condition holds."""
    return Condition((condition,), columns, functions, user_functions or UserFunctions(), (None,))


def compile_value(
    expression: exp.Expr,
    columns: Sequence[Column],
    functions: Mapping[str, Function],
    user_functions: UserFunctions | None = None,
    wanted: SqlType | None = None,
) -> Value:
    """A function of rows that gives one value."""
    return Value((expression,), columns, functions, user_functions or UserFunctions(), (wanted,))
