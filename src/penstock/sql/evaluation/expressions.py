"""Generation of Python source for expressions.

There is one function per kind of node. It writes the statements that must run first and returns the source
of the value.

As in ksqlDB, NULL is an error for operators of numbers and of logic, and an error makes the whole expression
null. In some parts of an expression an error makes only that part null: in casts, in elements of arrays,
maps and structs, and in calls and fields that are arguments of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal as Number
from typing import Any, Final, Protocol

from sqlglot import exp

from penstock.sql.analysis.expression_types import OPERATORS, Types
from penstock.sql.evaluation import arithmetic, comparisons
from penstock.sql.evaluation.casts import cast
from penstock.sql.evaluation.code import NULL, Code, NullValue
from penstock.sql.evaluation.like import is_like, like_pattern
from penstock.sql.evaluation.writer import Writer
from penstock.sql.functions import Call, LambdaType
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

_COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_LOGICAL: Final = (exp.And, exp.Or)
SIMPLE: Final = (exp.Column, exp.Literal, exp.Boolean, exp.Null)
"""Nodes that cannot fail."""
_GUARDED_ARGUMENTS: Final = (exp.Anonymous, exp.Dot)
COLUMN: Final = "_c"
"""The prefix of the names of columns, by which they are found in the generated source."""


class Calls(Protocol):
    """A lookup of the Python function for a call with resolved types."""

    def bound(self, name: str, call: Call) -> Callable[..., Any]: ...


def null_found(beside: str) -> None:
    raise NullValue(f"found NULL beside {beside}, expected a value")


class Expressions:
    """A generator of source for expressions over columns.

    It appends each part whose errors are reported to ``parts``; the generated code passes its index to the
    function `failed`.
    """

    def __init__(
        self, writer: Writer, types_: Types, columns: Mapping[str, Code], calls: Calls, parts: list[exp.Expr]
    ) -> None:
        self.writer = writer
        self.types = types_
        self.columns = dict(columns)
        self.calls = calls
        self.parts = parts

    # Values of all nodes

    def value(self, node: exp.Expr) -> Code:
        """Generate an expression, and return the source of its value."""
        for kinds, rule in _RULES:
            if isinstance(node, kinds):
                return rule(self, node)
        raise TypeError(f"found {type(node).__name__}, which has no value")

    def named(self, code: Code) -> Code:
        """Assign a value to a name, so that it may be used more than once."""
        if code.is_name:
            return code
        return Code(self.writer.temporary(code.text), code.type, code.nullable, is_name=True)

    def operand(self, node: exp.Expr) -> Code:
        return self.named(self.value(node))

    def constant(self, value: Any, type_: SqlType | None) -> Code:
        if value is None:
            return NULL
        plain = isinstance(value, (bool, int)) or (isinstance(value, str) and COLUMN not in value)
        text = repr(value) if plain else self.global_(value)
        return Code(text, type_, nullable=False, is_name=True, value=value)

    def global_(self, value: Any) -> str:
        return self.writer.names.constant(value)

    def guarded(self, node: exp.Expr, make: Callable[[], Code]) -> Code:
        """Generate a part whose errors are reported and make only that part null."""
        writer = self.writer
        name = writer.names.fresh("t")
        with writer.result(name):
            with writer.counted_block("try:"):
                code = make()
                writer.write(f"{name} = {code.text}")
            with writer.block("except Exception as error:"):
                writer.write(f"{name} = None")
                writer.write(f"failed({self.part(node)}, error)")
        return Code(name, code.type, nullable=True, is_name=True)

    def part(self, node: exp.Expr) -> int:
        """Register a node for error reports, and return its index."""
        self.parts.append(node)
        return len(self.parts) - 1

    def refuse_null(self, code: Code, beside: str) -> None:
        """Generate a check that raises an error if a name's value is null."""
        if code.nullable:
            self.writer.write(f"if {code.text} is None: {self.global_(null_found)}({beside!r})")

    # Columns and literals

    def _column(self, node: exp.Expr) -> Code:
        return self.columns[node.name]

    def _literal(self, node: exp.Expr) -> Code:
        type_ = self.types.of(node)
        if type_ == types.STRING:
            return self.constant(node.name, type_)
        if type_ == types.DOUBLE:
            return self.constant(float(node.name), type_)
        return self.constant(Number(node.name) if "." in node.name else int(node.name), type_)

    # Logic

    def condition(self, node: exp.Expr, beside: str) -> Code:
        """Generate a boolean that is never null."""
        code = self.value(node)
        if code.type is None:
            code = self.named(Code("None", types.BOOLEAN))
        if code.nullable:
            code = self.named(code)
            self.refuse_null(code, beside)
        return code

    def _logical(self, node: exp.Expr) -> Code:
        kind = type(node)
        word, operator = ("AND", "and") if kind is exp.And else ("OR", "or")
        row: list[exp.Expr] = []
        while type(node) is kind:
            row.append(node.expression)
            node = node.this
        decided = [self.condition(node, word).text]
        for operand in reversed(row):
            with self.writer.apart() as lines:
                right = self.condition(operand, word)
            if lines:
                decided = [self._decided(decided, operator, lines, right)]
            else:
                decided.append(right.text)
        return Code(f"({f' {operator} '.join(decided)})", types.BOOLEAN, nullable=False)

    def _decided(self, before: list[str], operator: str, lines: list[str], right: Code) -> str:
        """Run the right side's statements only if the sides before it do not decide the result."""
        name = self.writer.temporary(f" {operator} ".join(before))
        with self.writer.block(f"if {'' if operator == 'and' else 'not '}{name}:"):
            self.writer.lines += lines
            self.writer.write(f"{name} = {right.text}")
        return name

    def _not(self, node: exp.Expr) -> Code:
        return Code(f"(not {self.condition(node.this, 'NOT').text})", types.BOOLEAN, nullable=False)

    # Comparisons

    def _compare(self, node: exp.Expr) -> Code:
        left, right = self.operand(node.this), self.operand(node.expression)
        return self.comparison(_COMPARISONS[type(node)], left, right)

    def comparison(self, symbol: str, left: Code, right: Code) -> Code:
        """Generate a comparison of two names. It is false if either is null."""
        checks = _not_null(left, right)
        text = " and ".join([*checks, self._compared(symbol, left, right)])
        return Code(f"({text})", types.BOOLEAN, nullable=False)

    def _compared(self, symbol: str, left: Code, right: Code) -> str:
        names = self.writer.names
        return comparisons.compared(names, symbol, *comparisons.sides(names, left, right))

    def _distinct(self, node: exp.Expr) -> Code:
        left, right = self.operand(node.this), self.operand(node.expression)
        text = f"({self._compared('!=', left, right)})"
        nullable = [_is_null(each) for each in (left, right) if each.nullable]
        if nullable:
            text = f"({_is_null(left)} != {_is_null(right)} if {' or '.join(nullable)} else {text})"
        if isinstance(node, exp.NullSafeEQ):
            text = f"(not {text})"
        return Code(text, types.BOOLEAN, nullable=False)

    def _is_null(self, node: exp.Expr) -> Code:
        return Code(_is_null(self.operand(node.this)), types.BOOLEAN, nullable=False)

    def _between(self, node: exp.Expr) -> Code:
        value = self.operand(node.this)
        low, high = self.operand(node.args["low"]), self.operand(node.args["high"])
        within = [self._compared(">=", value, low), self._compared("<=", value, high)]
        if not high.nullable:
            checks = [*_not_null(value, low), *within]
        else:
            # A value below the lower bound is decided without the upper bound.
            checks = [*_not_null(value, low), within[0], *_not_null(high), within[1]]
        return Code(f"({' and '.join(checks)})", types.BOOLEAN, nullable=False)

    def _in(self, node: exp.Expr) -> Code:
        items = [item for item in node.expressions if not isinstance(item, exp.Null)]
        wanted: SqlType | None = None
        for each in (node.this, *items):
            wanted = self.types.joined(wanted, each)
        value = self.named(self.coerced(node.this, wanted))
        found = [self.named(self.coerced(item, wanted)) for item in items]
        known = [code.value for code in found if code.value is not None]
        if len(known) == len(found):
            text = f"{value.text} in {self.global_(frozenset(known))}"
        else:
            text = f"({' or '.join(self._equal(value, code) for code in found)})"
        return Code(f"({' and '.join([*_not_null(value), text])})", types.BOOLEAN, nullable=False)

    @staticmethod
    def _equal(value: Code, item: Code) -> str:
        return " and ".join([*_not_null(item), f"{value.text} == {item.text}"])

    def _like(self, node: exp.Expr) -> Code:
        escape = ""
        if isinstance(node, exp.Escape):
            escape, node = node.expression.name, node.this
        text = self._text(node.this, "LIKE")
        pattern = self._text(node.expression, "LIKE")
        if pattern.value is not None and not _ends_with_escape(pattern.value, escape):
            match = self.global_(like_pattern(pattern.value, escape).fullmatch)
            return Code(f"({match}({text.text}) is not None)", types.BOOLEAN, nullable=False)
        call = f"{self.global_(is_like)}({text.text}, {pattern.text}, {escape!r})"
        return Code(self.writer.temporary(call), types.BOOLEAN, nullable=False, is_name=True)

    def _text(self, node: exp.Expr, beside: str) -> Code:
        code = self.operand(node)
        self.refuse_null(code, beside)
        return code

    # Operators

    def _arithmetic(self, node: exp.Expr) -> Code:
        row: list[exp.Expr] = []
        while type(node) in OPERATORS:
            row.append(node)
            node = node.this
        left = self.operand(node)
        for operation in reversed(row):
            operator, right = OPERATORS[type(operation)], self.operand(operation.expression)
            assert left.type is not None
            assert right.type is not None
            result = types.arithmetic(operator, left.type, right.type)
            left = arithmetic.operation(self.writer, operator, left, right, result)
        return left

    def _negative(self, node: exp.Expr) -> Code:
        if isinstance(node.this, exp.Literal):
            literal = self._literal(node.this)
            return self.constant(arithmetic.opposite(literal.value), self.types.of(node))
        return arithmetic.negated(self.writer, self.operand(node.this))

    def _concatenation(self, node: exp.Expr) -> Code:
        """Concatenate strings or bytes, skipping those that are null."""
        row: list[exp.Expr] = []
        while isinstance(node, exp.DPipe):
            row.append(node.expression)
            node = node.this
        found = [self.operand(each) for each in (node, *reversed(row))]
        type_ = types.BYTES if any(each.type == types.BYTES for each in found) else types.STRING
        empty = "b''" if type_ == types.BYTES else "''"
        parts = (f"({each.text} or {empty})" if each.nullable else each.text for each in found)
        return Code(self.writer.temporary(" + ".join(parts)), type_, nullable=False, is_name=True)

    # CASE and CAST

    def _case(self, node: exp.Expr) -> Code:
        wanted = self.types.of(node)
        value = None if node.this is None else self.operand(node.this)
        writer = self.writer
        name = writer.names.fresh("t")
        with writer.result(name), writer.counted_block("while True:"):
            for branch in node.args["ifs"]:
                if value is None:
                    condition = self.condition(branch.this, "WHEN")
                else:
                    condition = self.comparison("==", value, self.operand(branch.this))
                with writer.block(f"if {condition.text}:"):
                    writer.write(f"{name} = {self.coerced(branch.args['true'], wanted).text}")
                    writer.write("break")
            default = node.args.get("default")
            result = NULL if default is None else self.coerced(default, wanted)
            writer.write(f"{name} = {result.text}")
            writer.write("break")
        return Code(name, wanted, is_name=True)

    def coerced(self, node: exp.Expr, wanted: SqlType | None) -> Code:
        """Generate a value with an implicit coercion to ``wanted``."""
        if wanted is not None and self.types.of(node) not in (None, wanted):
            return self._converted(node, wanted)
        return self.value(node)

    def _cast(self, node: exp.Expr) -> Code:
        return self._converted(node.this, self.types.cast_target(node), node)

    def _converted(self, node: exp.Expr, target: SqlType, whole: exp.Expr | None = None) -> Code:
        """Convert a value. An error is reported for ``whole`` and makes the value null."""
        if isinstance(node, SIMPLE):
            code = self.value(node)
            if code.type is None:
                return Code("None", target, is_name=True)
            if code.type == target:
                return code
            if code.value is not None:
                known = _tried(cast(code.type, target), code.value)
                if known is not None:
                    return self.constant(known, target)
        return self.guarded(whole or node, lambda: self._cast_code(self.operand(node), target))

    def _cast_code(self, operand: Code, target: SqlType) -> Code:
        made = None if operand.type is None else cast(operand.type, target)
        if made is None:
            return Code(operand.text, target, operand.nullable, operand.is_name)
        text = f"{self.global_(made)}({operand.text})"
        return Code(f"None if {operand.text} is None else {text}" if operand.nullable else text, target)

    # Arrays, maps and structs

    def _element(self, node: exp.Expr, wanted: SqlType | None) -> Code:
        """Generate an element of an array, map or struct. An error makes only this element null."""
        if isinstance(node, SIMPLE):
            return self.named(self.coerced(node, wanted))
        return self.guarded(node, lambda: self.coerced(node, wanted))

    def _array(self, node: exp.Expr) -> Code:
        type_ = self.types.of(node)
        assert isinstance(type_, Array)
        elements = ", ".join(self._element(each, type_.element).text for each in node.expressions)
        return Code(f"[{elements}]", type_, nullable=False)

    def _map(self, node: exp.Expr) -> Code:
        type_ = self.types.of(node)
        assert isinstance(type_, Map)
        keys, values = node.args["keys"].expressions, node.args["values"].expressions
        entries = ", ".join(
            f"{self._element(key, type_.key).text}: {self._element(value, type_.value).text}"
            for key, value in zip(keys, values, strict=True)
        )
        return Code(f"{{{entries}}}", type_, nullable=False)

    def _struct(self, node: exp.Expr) -> Code:
        type_ = self.types.of(node)
        assert isinstance(type_, Struct)
        fields = ", ".join(
            f"{name!r}: {self._element(each.expression, field).text}"
            for each, (name, field) in zip(node.expressions, type_.fields, strict=True)
        )
        return Code(f"{{{fields}}}", type_, nullable=False)

    def _field(self, node: exp.Expr) -> Code:
        struct = self.operand(node.this)
        assert isinstance(struct.type, Struct)
        text, name = f"{struct.text}[{node.expression.name!r}]", node.expression.name
        if struct.nullable:
            text = f"(None if {struct.text} is None else {text})"
        return Code(text, struct.type.field(name))

    def _subscript(self, node: exp.Expr) -> Code:
        base = self.operand(node.this)
        if isinstance(base.type, Map):
            index = self.named(self.coerced(node.expressions[0], base.type.key))
            text, type_ = f"{base.text}.get({index.text})", base.type.value
        else:
            assert isinstance(base.type, Array)
            index = self.operand(node.expressions[0])
            text, type_ = f"{self.global_(element_at)}({base.text}, {index.text})", base.type.element
        return Code(f"(None if {base.text} is None else {text})" if base.nullable else text, type_)

    # Calls

    def _call(self, node: exp.Expr) -> Code:
        call = self.types.call(node)
        if call.result is None:
            return NULL  # all arguments are NULL, as in COALESCE(NULL, NULL)
        arguments = [
            self._argument(each, wanted)
            for each, wanted in zip(node.expressions, call.arguments, strict=True)
        ]
        function = self.global_(self.calls.bound(node.name, call))
        return Code(self.writer.temporary(f"{function}({', '.join(arguments)})"), call.result, is_name=True)

    def _argument(self, node: exp.Expr, wanted: SqlType | LambdaType | None) -> str:
        if isinstance(wanted, LambdaType):
            return self._lambda(node, wanted)
        if isinstance(node, exp.Var):
            return repr(node.name)
        if isinstance(node.unnest(), _GUARDED_ARGUMENTS):
            return self.guarded(node, lambda: self.coerced(node, wanted)).text
        return self.named(self.coerced(node, wanted)).text

    def _lambda(self, node: exp.Expr, type_: LambdaType) -> str:
        """Define a lambda right where it is used, so that it can read the row's columns."""
        writer, outer_columns, outer_types = self.writer, self.columns, self.types
        names = [name.name for name in node.expressions]
        parameters = [writer.names.fresh("x") for _ in names]
        self.types = outer_types.within(names, type_.parameters)
        given = zip(names, parameters, type_.parameters, strict=True)
        self.columns = {**outer_columns, **{name: Code(x, each, is_name=True) for name, x, each in given}}
        head = f"def {writer.names.fresh('f')}({', '.join(parameters)}):"
        with writer.function(head):
            writer.write(f"return {self.coerced(node.this, type_.result).text}")
        self.columns, self.types = outer_columns, outer_types
        return head[len("def ") : head.index("(")]


def element_at(values: list[Any], place: int) -> Any:
    """The element at a position from 1, or from the end if negative. None if there is no such element."""
    index = place - 1 if place >= 0 else len(values) + place
    return values[index] if 0 <= index < len(values) else None


def _is_null(code: Code) -> str:
    return f"({code.text} is None)" if code.nullable else "False"


def _not_null(*codes: Code) -> list[str]:
    return [f"{code.text} is not None" for code in codes if code.nullable]


def _ends_with_escape(pattern: str, escape: str) -> bool:
    try:
        like_pattern(pattern, escape)
    except ValueError:
        return True
    return False


def _tried(made: Callable[[Any], Any] | None, value: Any) -> Any:
    """Compute a constant in advance. None after an error, which must then be reported for each row."""
    try:
        return value if made is None else made(value)
    except (ValueError, ArithmeticError):
        return None


_Rule = Callable[[Expressions, exp.Expr], Code]
_RULES: Final[tuple[tuple[tuple[type[exp.Expr], ...], _Rule], ...]] = (
    ((exp.Column,), Expressions._column),
    ((exp.Literal,), Expressions._literal),
    ((exp.Boolean,), lambda self, node: self.constant(node.this, types.BOOLEAN)),
    ((exp.Null,), lambda self, node: NULL),
    ((exp.Paren,), lambda self, node: self.value(node.this)),
    (_LOGICAL, Expressions._logical),
    ((exp.Not,), Expressions._not),
    (tuple(OPERATORS), Expressions._arithmetic),
    ((exp.Neg,), Expressions._negative),
    ((exp.DPipe,), Expressions._concatenation),
    (tuple(_COMPARISONS), Expressions._compare),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), Expressions._distinct),
    ((exp.Is,), Expressions._is_null),
    ((exp.Between,), Expressions._between),
    ((exp.In,), Expressions._in),
    ((exp.Like, exp.Escape), Expressions._like),
    ((exp.Case,), Expressions._case),
    ((exp.Cast,), Expressions._cast),
    ((exp.Array,), Expressions._array),
    ((exp.Map,), Expressions._map),
    ((exp.Struct,), Expressions._struct),
    ((exp.Dot,), Expressions._field),
    ((exp.Bracket,), Expressions._subscript),
    ((exp.Anonymous,), Expressions._call),
)
