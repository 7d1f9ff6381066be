"""Type checking of expressions. Errors show the place of the part that is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import Final

from sqlglot import exp

from penstock.sql.analysis.calls import located
from penstock.sql.catalog import Catalog
from penstock.sql.functions import (
    Argument,
    Call,
    LambdaArgument,
    UnitArgument,
    ValueArgument,
    resolved_call,
    result_type,
)
from penstock.sql.language import times, types
from penstock.sql.language.errors import SqlError, shortened
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.type_nodes import type_of as node_type
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct

OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_EQUALITIES: Final = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_ORDERINGS: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_LOGICAL: Final = (exp.And, exp.Or)
INTEGER_MAX: Final = 2**31 - 1


@dataclass(frozen=True)
class Types:
    """The type checker of expressions over typed columns.

    ``text`` is the script that errors show. None is the type of NULL.
    """

    catalog: Catalog
    columns: Mapping[str, SqlType | None]
    text: str

    def of(self, node: exp.Expr) -> SqlType | None:
        try:
            return self._of(node)
        except SqlError as error:
            raise self.located(error, node) from None

    def located(self, error: SqlError, node: exp.Expr) -> SqlError:
        """Set the place of an error to a node's place, unless it has a place or the node has none."""
        return located(error, node, self.text)

    def expect(self, node: exp.Expr, wanted: SqlType, what: str) -> None:
        """Check that an expression has a type or is coerced to it implicitly."""
        found = self.of(node)
        if not types.can_become(found, wanted):
            raise self.located(
                SqlError(f"found {_shown(node)} of {found}, expected {what} to be {wanted}"), node
            )

    def _of(self, node: exp.Expr) -> SqlType | None:
        for kinds, rule in _RULES:
            if isinstance(node, kinds):
                return rule(self, node)
        raise SqlError(f"found {_shown(node)}, which has no value")

    def _column(self, node: exp.Expr) -> SqlType | None:
        if node.name not in self.columns:
            raise SqlError(f"found no column {node.name}, expected an existing one")
        return self.columns[node.name]

    def _literal(self, node: exp.Expr) -> SqlType | None:
        assert isinstance(node, exp.Literal)
        if node.is_string:
            return types.STRING
        if "E" in node.name:
            if math.isinf(float(node.name)):
                raise SqlError(f"found {node.name}, expected a number that fits DOUBLE")
            return types.DOUBLE
        if "." in node.name:
            whole, _, fraction = node.name.partition(".")
            # At least one digit counts before the point, even if it is a zero.
            return types.decimal(max(1, len(whole.lstrip("0"))) + len(fraction), len(fraction))
        return types.INTEGER if int(node.name) <= INTEGER_MAX else types.BIGINT

    def _logical(self, node: exp.Expr) -> SqlType | None:
        # A chain of operators is a tree as deep as the chain is long, so iterate instead of recursing.
        while isinstance(node, _LOGICAL):
            self.expect(node.expression, types.BOOLEAN, f"each side of {type(node).__name__.upper()}")
            node = node.this
        self.expect(node, types.BOOLEAN, "each side of AND and OR")
        return types.BOOLEAN

    def _negation(self, node: exp.Expr) -> SqlType | None:
        self.expect(node.this, types.BOOLEAN, "what follows NOT")
        return types.BOOLEAN

    def _arithmetic(self, node: exp.Expr) -> SqlType | None:
        row: list[exp.Expr] = []
        while type(node) in OPERATORS:
            row.append(node)
            node = node.this
        left = self.of(node)
        for operation in reversed(row):
            operator = OPERATORS[type(operation)]
            right = self.of(operation.expression)
            if left is None or right is None:
                raise SqlError(f"found NULL beside {operator}, expected a number")
            left = types.arithmetic(operator, left, right)
        return left

    def _negative(self, node: exp.Expr) -> SqlType | None:
        found = self.of(node.this)
        if found is None or not types.is_numeric(found):
            raise SqlError(f"found - before {found or 'NULL'}, expected a number")
        if (
            isinstance(node.this, exp.Literal) and node.this.name.isdecimal()
        ):  # the minus belongs to the literal
            return types.INTEGER if int(node.this.name) <= INTEGER_MAX + 1 else types.BIGINT
        return found

    def _concatenation(self, node: exp.Expr) -> SqlType | None:
        operands: list[exp.Expr] = []
        while isinstance(node, exp.DPipe):
            operands.append(node.expression)
            node = node.this
        operands.append(node)
        found = [self.of(each) for each in operands]
        wanted = types.BYTES if types.BYTES in found else types.STRING
        for each in operands:
            self.expect(each, wanted, "each side of ||")
        return wanted

    def compare(self, left: exp.Expr, right: exp.Expr, *, ordered: bool) -> None:
        """Check that = can compare two expressions, or < if ``ordered``."""
        one, other = self.of(left), self.of(right)
        for time, beside in ((left, right), (right, left)):
            if is_time_column(time) and self.of(beside) == types.STRING:
                self._expect_time(beside)
                return
        if not types.is_comparable(one, other, ordered=ordered):
            sides = f"{one or 'NULL'} and {other or 'NULL'}"
            raise SqlError(
                f"found a comparison of {sides}, expected types that "
                f"{'have an order among each other' if ordered else 'compare with each other'}"
            )

    def _expect_time(self, node: exp.Expr) -> None:
        """Check, as ksqlDB does, that a literal compared with ROWTIME or a window's bound is a time."""
        if not isinstance(node, exp.Literal):
            return
        try:
            times.parse_timestamp(node.name)
        except ValueError as error:
            raise self.located(SqlError(str(error)), node) from None

    def _comparison(self, node: exp.Expr) -> SqlType | None:
        self.compare(node.this, node.expression, ordered=isinstance(node, _ORDERINGS))
        return types.BOOLEAN

    def _is_null(self, node: exp.Expr) -> SqlType | None:
        self.of(node.this)
        return types.BOOLEAN

    def _between(self, node: exp.Expr) -> SqlType | None:
        for bound in (node.args["low"], node.args["high"]):
            self.compare(node.this, bound, ordered=True)
        return types.BOOLEAN

    def _in(self, node: exp.Expr) -> SqlType | None:
        wanted = self.of(node.this)
        for item in node.expressions:
            self.joined(wanted, item)
        return types.BOOLEAN

    def _like(self, node: exp.Expr) -> SqlType | None:
        self.expect(node.this, types.STRING, "what LIKE looks at")
        self.expect(node.expression, types.STRING, "a pattern")
        return types.BOOLEAN

    def _case(self, node: exp.Expr) -> SqlType | None:
        result: SqlType | None = None
        for branch in node.args["ifs"]:
            if node.this is not None:
                self.compare(node.this, branch.this, ordered=False)
            else:
                self.expect(branch.this, types.BOOLEAN, "a condition")
            result = self.joined(result, branch.args["true"])
        default = node.args.get("default")
        return result if default is None else self.joined(result, default)

    def joined(self, known: SqlType | None, node: exp.Expr) -> SqlType | None:
        """The common type of earlier values and one more expression.

        A literal is coerced to the type of the earlier values, and so are literals inside a constructor.
        """
        if known is not None and not types.is_numeric(known) and literal_becomes(node, known):
            return known
        try:
            match known, node:
                case Array(element), exp.Array():
                    return Array(self._parts_joined(element, node.expressions))
                case Map(key, value), exp.Map():
                    key = self._parts_joined(key, node.args["keys"].expressions)
                    return Map(key, self._parts_joined(value, node.args["values"].expressions))
                case Struct(), exp.Struct():
                    return self._fields_joined(known, node)
            found = self.of(node)
            if known is not None and types.is_numeric(known) and found == types.STRING:
                found = _number_in(node) or found
            return types.common(known, found)
        except SqlError as error:
            raise self.located(error, node) from None

    def _parts_joined(self, known: SqlType, nodes: Sequence[exp.Expr]) -> SqlType:
        result: SqlType | None = known
        for node in nodes:
            result = self.joined(result, node)
        assert result is not None
        return result

    def _fields_joined(self, known: Struct, node: exp.Expr) -> Struct:
        fields: dict[str, SqlType] = dict(known.fields)
        for each in node.expressions:
            joined = self.joined(fields.get(each.name), each.expression)
            if joined is None:
                raise SqlError(f"found NULL for the field {each.name}, expected a type: CAST(NULL AS …)")
            fields[each.name] = joined
        return Struct(tuple(fields.items()))

    def all_joined(self, nodes: Sequence[exp.Expr], what: str) -> SqlType:
        result: SqlType | None = None
        for node in nodes:
            result = self.joined(result, node)
        if result is None:
            raise SqlError(f"found {what} without any typed value, expected at least one")
        return result

    def _cast(self, node: exp.Expr) -> SqlType | None:
        source, target = self.of(node.this), self.cast_target(node)
        if not types.can_cast(source, target):
            raise SqlError(
                f"found a cast of {source} to {target}, expected a type that can be cast to {target}"
            )
        return target

    def cast_target(self, node: exp.Expr) -> SqlType:
        return self.catalog.resolved(node_type(node.args["to"]))

    def _array(self, node: exp.Expr) -> SqlType | None:
        return Array(self.all_joined(node.expressions, "an array"))

    def _map(self, node: exp.Expr) -> SqlType | None:
        key = self.all_joined(node.args["keys"].expressions, "a map")
        return Map(key, self.all_joined(node.args["values"].expressions, "a map"))

    def _struct(self, node: exp.Expr) -> SqlType | None:
        fields: list[tuple[str, SqlType]] = []
        for each in node.expressions:
            type_ = self.of(each.expression)
            if type_ is None:
                raise SqlError(f"found NULL for the field {each.name}, expected a type: CAST(NULL AS …)")
            fields.append((each.name, type_))
        return Struct(tuple(fields))

    def _field(self, node: exp.Expr) -> SqlType | None:
        found, name = self.of(node.this), node.expression.name
        if not isinstance(found, Struct):
            raise SqlError(f"found ->{name} of {found or 'NULL'}, expected a STRUCT")
        field = found.field(name)
        if field is None:
            raise SqlError(f"found no field {name} in {found}, expected one of its fields")
        return field

    def _subscript(self, node: exp.Expr) -> SqlType | None:
        found, index = self.of(node.this), node.expressions[0]
        if isinstance(found, Array):
            self.expect(index, types.BIGINT, "a place in an array")
            return found.element
        if isinstance(found, Map):
            self.expect(index, found.key, "a key of the map")
            return found.value
        raise SqlError(f"found […] of {found or 'NULL'}, expected an ARRAY or a MAP")

    def _call(self, node: exp.Expr) -> SqlType | None:
        return result_type(self.catalog.function(node.name), self.arguments(node))

    def call(self, node: exp.Expr) -> Call:
        """Resolve the types of a call's arguments and of its result."""
        return resolved_call(self.catalog.function(node.name), self.arguments(node))

    def arguments(self, node: exp.Expr) -> list[Argument]:
        """The arguments of a call. `COUNT(*)` has none."""
        return [self._argument(each) for each in node.expressions if not isinstance(each, exp.Star)]

    def _argument(self, node: exp.Expr) -> Argument:
        if isinstance(node, exp.Var):
            return UnitArgument(node.name)
        if isinstance(node, exp.Lambda):
            names = [name.name for name in node.expressions]
            return LambdaArgument(len(names), self._lambda(node.this, names))
        return ValueArgument(self.of(node), isinstance(node, (exp.Literal, exp.Boolean)))

    def _lambda(
        self, body: exp.Expr, names: list[str]
    ) -> Callable[[Sequence[SqlType | None]], SqlType | None]:
        return lambda given: self.within(names, given).of(body)

    def within(self, names: Sequence[str], given: Sequence[SqlType | None]) -> Types:
        """The type checker for a lambda's body, with the types of its parameters."""
        return replace(self, columns={**self.columns, **dict(zip(names, given, strict=True))})


_Rule = Callable[[Types, exp.Expr], SqlType | None]
_RULES: Final[tuple[tuple[tuple[type[exp.Expr], ...], _Rule], ...]] = (
    ((exp.Column,), Types._column),
    ((exp.Literal,), Types._literal),
    ((exp.Boolean,), lambda _, node: types.BOOLEAN),
    ((exp.Null,), lambda _, node: None),
    ((exp.Paren,), lambda self, node: self.of(node.this)),
    (_LOGICAL, Types._logical),
    ((exp.Not,), Types._negation),
    (tuple(OPERATORS), Types._arithmetic),
    ((exp.Neg,), Types._negative),
    ((exp.DPipe,), Types._concatenation),
    (_EQUALITIES + _ORDERINGS, Types._comparison),
    ((exp.Is,), Types._is_null),
    ((exp.Between,), Types._between),
    ((exp.In,), Types._in),
    ((exp.Like,), Types._like),
    ((exp.Escape,), lambda self, node: self.of(node.this)),
    ((exp.Case,), Types._case),
    ((exp.Cast,), Types._cast),
    ((exp.Array,), Types._array),
    ((exp.Map,), Types._map),
    ((exp.Struct,), Types._struct),
    ((exp.Dot,), Types._field),
    ((exp.Bracket,), Types._subscript),
    ((exp.Anonymous,), Types._call),
)


def _shown(node: exp.Expr) -> str:
    return shortened(print_expression(node))


def is_time_column(node: exp.Expr) -> bool:
    """Whether a node is a time column of type BIGINT, which ksqlDB also compares with strings."""
    return isinstance(node, exp.Column) and node.name.endswith(("ROWTIME", "WINDOWSTART", "WINDOWEND"))


def _number_in(node: exp.Expr) -> SqlType | None:
    """The type of the number that a string literal contains, or None."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    for wanted in (types.INTEGER, types.BIGINT):
        if _reads_as(node.name, wanted):
            return wanted
    try:
        _, digits, exponent = Number(node.name.strip()).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    return types.decimal(max(len(digits) + max(0, exponent), scale), scale)


def literal_becomes(node: exp.Expr, wanted: SqlType) -> bool:
    """Whether a literal is coerced to a type.

    Literals are coerced further than other expressions: any literal to STRING, and a string to a type that
    it can be parsed as.
    """
    if isinstance(node, exp.Neg):
        return wanted == types.STRING and isinstance(node.this, exp.Literal)
    if wanted == types.STRING:
        return isinstance(node, (exp.Literal, exp.Boolean))
    if not isinstance(node, exp.Literal) or not node.is_string:
        return False
    if wanted == types.BOOLEAN:
        text = node.name.strip().lower()
        return bool(text) and any(word.startswith(text) for word in ("true", "false", "yes", "no"))
    if types.is_numeric(wanted):
        return _reads_as(node.name, wanted)
    return wanted in (types.TIME, types.DATE, types.TIMESTAMP, types.BYTES)


def _reads_as(text: str, wanted: SqlType) -> bool:
    try:
        if wanted in (types.INTEGER, types.BIGINT):
            most = INTEGER_MAX if wanted == types.INTEGER else 2**63 - 1
            return -most - 1 <= int(text) <= most
        float(text)
    except ValueError:
        return False
    return wanted == types.DOUBLE or isinstance(wanted, Decimal)
