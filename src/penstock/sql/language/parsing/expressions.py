"""The parser of expressions, which makes sqlglot's nodes. A node's `meta["start"]` is its offset in the text.

Precedence from low to high: OR, AND, NOT; one predicate (comparison, BETWEEN, IN, LIKE, IS …), which does not
chain; ||; + -; * / %; signs; `[…]` and `->`. All calls are `exp.Anonymous`, because ksqlDB's functions
differ from sqlglot's functions of the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from sqlglot import exp

from penstock.sql.language.keywords import RESERVED, WINDOW_UNITS
from penstock.sql.language.parsing.cursor import Cursor
from penstock.sql.language.parsing.lexer import Kind, Token
from penstock.sql.language.parsing.type_names import parse_type
from penstock.sql.language.type_nodes import node_of

_Node = TypeVar("_Node", bound=exp.Expr)

OPERATORS_MAX: Final = 100
"""Limits a chain of operators. A chain makes a tree as deep as the chain is long."""
LEVELS_MAX: Final = 150
"""Limits the depth of a tree. Functions that walk a tree make a few recursive calls per level, and Python
allows a thousand."""

# Error messages name these instead of a dozen tokens.
_OPERATOR: Final = "an operator"
_OPERAND: Final = "an expression"

_COMPARISONS: Final[dict[str, type[exp.Binary]]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_OPERATORS: Final[tuple[dict[str, type[exp.Binary]], ...]] = (
    {"||": exp.DPipe},
    {"+": exp.Add, "-": exp.Sub},
    {"*": exp.Mul, "/": exp.Div, "%": exp.Mod},
)


def identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=False)


def placed(node: _Node, token: Token) -> _Node:
    node.meta["start"] = token.start
    return node


def parse_expression(cursor: Cursor) -> exp.Expr:
    return _bounded(cursor, _expression)


def parse_value(cursor: Cursor) -> exp.Expr:
    """Parse an operand of a comparison."""
    return _bounded(cursor, _value)


def _bounded(cursor: Cursor, parse: Callable[[Cursor], exp.Expr]) -> exp.Expr:
    start = cursor.token
    node = parse(cursor)
    levels, level = 0, [node]
    while level:
        levels += 1
        level = [below for each in level for below in each.iter_expressions()]
    if levels > LEVELS_MAX:
        raise cursor.error(f"found an expression of {levels} levels, expected up to {LEVELS_MAX}", start)
    return node


def _expression(cursor: Cursor) -> exp.Expr:
    with cursor.nested():
        return _chain(cursor, {"OR": exp.Or}, lambda: _chain(cursor, {"AND": exp.And}, lambda: _not(cursor)))


def _chain(
    cursor: Cursor, operators: dict[str, type[exp.Binary]], operand: Callable[[], exp.Expr]
) -> exp.Expr:
    start = cursor.token
    node = operand()
    count = 0
    while (found := cursor.accept_one(*operators, what=_OPERATOR)) is not None:
        count += 1
        if count > OPERATORS_MAX:
            raise cursor.error(f"found more than {OPERATORS_MAX} operators in a row")
        node = placed(operators[found](this=node, expression=operand()), start)
    return node


def _not(cursor: Cursor) -> exp.Expr:
    start = cursor.token
    if cursor.accept("NOT", what=_OPERAND):
        with cursor.nested():
            return placed(exp.Not(this=_not(cursor)), start)
    return _predicated(cursor)


def _predicated(cursor: Cursor) -> exp.Expr:
    start = cursor.token
    value = _value(cursor)
    found = cursor.accept_one(*_COMPARISONS, what=_OPERATOR)
    if found is not None:
        return placed(_COMPARISONS[found](this=value, expression=_value(cursor)), start)
    if cursor.accept("IS", what=_OPERATOR):
        return placed(_is(cursor, value), start)
    negated = cursor.accept("NOT", what=_OPERATOR)
    node: exp.Expr
    if cursor.accept("BETWEEN", what=_OPERATOR):
        low = _value(cursor)
        cursor.expect("AND")
        node = exp.Between(this=value, low=low, high=_value(cursor))
    elif cursor.accept("IN", what=_OPERATOR):
        cursor.expect("(")
        node = exp.In(this=value, expressions=_listed(cursor, ")"))
    elif cursor.accept("LIKE", what=_OPERATOR):
        node = exp.Like(this=value, expression=_value(cursor))
        if cursor.accept("ESCAPE"):
            node = exp.Escape(this=node, expression=_escape(cursor))
    elif negated:
        cursor.fail()
    else:
        return value
    return placed(exp.Not(this=placed(node, start)) if negated else node, start)


def _escape(cursor: Cursor) -> exp.Expr:
    token = cursor.token
    text = cursor.string("a character in quotes")
    if len(text) != 1:
        raise cursor.error(f"found {token.source}, expected one character to escape with", token)
    return exp.Literal.string(text)


def _is(cursor: Cursor, value: exp.Expr) -> exp.Expr:
    negated = cursor.accept("NOT")
    if cursor.accept("NULL"):
        is_null = exp.Is(this=value, expression=exp.Null())
        return exp.Not(this=is_null) if negated else is_null
    cursor.expect("DISTINCT")
    cursor.expect("FROM")
    kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
    return kind(this=value, expression=_value(cursor))


def _value(cursor: Cursor, level: int = 0) -> exp.Expr:
    if level == len(_OPERATORS):
        return _signed(cursor)
    return _chain(cursor, _OPERATORS[level], lambda: _value(cursor, level + 1))


def _signed(cursor: Cursor) -> exp.Expr:
    start = cursor.token
    sign = cursor.accept_one("-", "+", what=_OPERAND)
    if sign is None:
        return _primary(cursor)
    if sign == "-" and cursor.token.kind is Kind.INTEGER:
        return placed(exp.Neg(this=_primary(cursor, is_negative=True)), start)
    with cursor.nested():
        operand = _signed(cursor)
    return placed(exp.Neg(this=operand), start) if sign == "-" else operand


def _primary(cursor: Cursor, *, is_negative: bool = False) -> exp.Expr:
    """Parse an operand with its subscripts and fields. `->*` is left to the parser of SELECT items."""
    start = cursor.token
    node = literal(cursor, is_negative=True) if is_negative else _operand(cursor)
    steps = 0
    while True:
        steps += 1
        if steps > OPERATORS_MAX:
            raise cursor.error(f"found more than {OPERATORS_MAX} subscripts and fields in a row")
        if cursor.accept("[", what=_OPERATOR):
            index = _value(cursor)
            cursor.expect("]")
            node = placed(exp.Bracket(this=node, expressions=[index]), start)
        elif not cursor.sees("->", "*") and cursor.accept("->", what=_OPERATOR):
            field = identifier(cursor.name("a field's name"))
            node = placed(exp.Dot(this=node, expression=field), start)
        else:
            return node


def _operand(cursor: Cursor) -> exp.Expr:
    token = cursor.token
    if token.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.STRING):
        return literal(cursor)
    if cursor.accept("(", what=_OPERAND):
        inner = _expression(cursor)
        cursor.expect(")")
        return placed(exp.Paren(this=inner), token)
    if token.kind is Kind.WORD:
        special = _SPECIAL.get(token.text)
        if special is not None and (
            token.text not in _CONSTRUCTORS or _CONSTRUCTORS[token.text] == cursor.ahead().text
        ):
            cursor.advance()
            return placed(special(cursor), token)
        if token.text == "DECIMAL" and cursor.ahead().kind is Kind.STRING:
            return _decimal_literal(cursor)
    name = cursor.name(_OPERAND)
    if cursor.accept("(", what=_OPERATOR):
        return placed(exp.Anonymous(this=name.upper(), expressions=_arguments(cursor, name.upper())), token)
    if not cursor.sees(".", "*") and cursor.accept(".", what=_OPERATOR):
        column = cursor.name("a column's name")
        return placed(exp.Column(this=identifier(column), table=identifier(name)), token)
    return placed(exp.Column(this=identifier(name)), token)


def literal(cursor: Cursor, *, constant_only: bool = False, is_negative: bool = False) -> exp.Expr:
    """Parse a number, string, boolean or NULL.

    ``constant_only`` allows a minus sign, as in WITH (…). ``is_negative`` says that there was one: BIGINT has
    one more integer below zero than above.
    """
    token = cursor.token
    if constant_only and cursor.accept("-"):
        if cursor.token.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
            cursor.wants("a number")
            cursor.fail()
        return placed(exp.Neg(this=literal(cursor, is_negative=True)), token)
    if token.kind is Kind.STRING:
        return placed(exp.Literal.string(cursor.advance().text), token)
    if token.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
        if token.kind is Kind.INTEGER and int(token.text[:40]) >= 2**63 + is_negative:
            raise cursor.error(f"found {token.text[:40]}, expected an integer below 2^63")
        return placed(exp.Literal.number(cursor.advance().text.upper()), token)
    for word, make in (("TRUE", True), ("FALSE", False)):
        if cursor.accept(word):
            return placed(exp.Boolean(this=make), token)
    if cursor.accept("NULL"):
        return placed(exp.Null(), token)
    cursor.wants("a literal")
    cursor.fail()


def _decimal_literal(cursor: Cursor) -> exp.Expr:
    cursor.advance()
    token = cursor.token
    text = cursor.string()
    digits = text.lstrip("-").replace(".", "", 1)
    if not digits.isdecimal() or len(digits) > 38:
        raise cursor.error(f"found {token.source}, expected a decimal number of up to 38 digits", token)
    scale = len(text.partition(".")[2])
    kind = exp.DataType(
        this=exp.DType.DECIMAL,
        expressions=[
            exp.DataTypeParam(this=exp.Literal.number(size)) for size in (max(len(digits), 1), scale)
        ],
    )
    return placed(exp.Cast(this=exp.Literal.string(text), to=kind), token)


def _listed(cursor: Cursor, closing: str) -> list[exp.Expr]:
    found = [_expression(cursor)]
    while cursor.accept(","):
        found.append(_expression(cursor))
    cursor.expect(closing)
    return found


def _arguments(cursor: Cursor, function: str) -> list[exp.Expr]:
    if cursor.accept(")"):
        return []
    token = cursor.token
    if cursor.accept("*"):
        cursor.expect(")")
        return [placed(exp.Star(), token)]
    found = [_unit(cursor) if _at_unit(cursor, function) else _argument(cursor)]
    while cursor.accept(","):
        found.append(_argument(cursor))
        if isinstance(found[-2], exp.Lambda) and not isinstance(found[-1], exp.Lambda):
            raise cursor.error("found an argument after a lambda, expected lambdas to be last")
    cursor.expect(")")
    return found


def _at_unit(cursor: Cursor, function: str) -> bool:
    """Whether a unit such as DAYS is next. Some units may also be column names, in other functions' calls."""
    token = cursor.token
    is_unit = token.kind is Kind.WORD and token.text in WINDOW_UNITS
    return is_unit and (token.text in RESERVED or function in _OF_UNITS) and cursor.ahead().text == ","


def _unit(cursor: Cursor) -> exp.Expr:
    token = cursor.advance()
    return placed(exp.Var(this=token.text), token)


def _argument(cursor: Cursor) -> exp.Expr:
    token = cursor.token
    names = _lambda_names(cursor)
    if names is None:
        return _expression(cursor)
    for _ in range(len(names) * 2 + (2 if token.text == "(" else 0)):
        cursor.advance()
    with cursor.nested():
        body = _expression(cursor)
    if len(set(names)) < len(names):
        raise cursor.error(f"found ({', '.join(names)}), expected different names", token)
    return placed(exp.Lambda(this=body, expressions=[identifier(name) for name in names]), token)


def _lambda_names(cursor: Cursor) -> list[str] | None:
    """The parameters of a lambda that starts here, or None. Does not advance."""
    if cursor.at_name() and cursor.ahead().text == "=>":
        return [cursor.token.text]
    if not cursor.sees("("):
        return None
    names: list[str] = []
    place = 1
    while cursor.ahead(place).kind in (Kind.WORD, Kind.NAME):
        names.append(cursor.ahead(place).text)
        separator = cursor.ahead(place + 1).text
        place += 2
        if separator == ")":
            return names if cursor.ahead(place).text == "=>" else None
        if separator != ",":
            return None
    return None


def _case(cursor: Cursor) -> exp.Expr:
    this = None if cursor.sees("WHEN") else _value(cursor)
    branches: list[exp.If] = []
    while cursor.accept("WHEN"):
        condition = _expression(cursor)
        cursor.expect("THEN")
        branches.append(exp.If(this=condition, true=_expression(cursor)))
    if not branches:
        cursor.fail()
    default = _expression(cursor) if cursor.accept("ELSE") else None
    cursor.expect("END")
    return exp.Case(this=this, ifs=branches, default=default)


def _cast(cursor: Cursor) -> exp.Expr:
    cursor.expect("(")
    value = _expression(cursor)
    cursor.expect("AS")
    target = node_of(parse_type(cursor))
    cursor.expect(")")
    return exp.Cast(this=value, to=target)


def _array(cursor: Cursor) -> exp.Expr:
    cursor.expect("[")
    return exp.Array(expressions=[] if cursor.accept("]") else _listed(cursor, "]"))


def _map(cursor: Cursor) -> exp.Expr:
    cursor.expect("(")
    keys: list[exp.Expr] = []
    values: list[exp.Expr] = []
    while not cursor.accept(")"):
        if keys:
            cursor.expect(",")
        keys.append(_expression(cursor))
        cursor.expect(":=")
        values.append(_expression(cursor))
    return exp.Map(keys=exp.Array(expressions=keys), values=exp.Array(expressions=values))


def _struct(cursor: Cursor) -> exp.Expr:
    cursor.expect("(")
    fields: dict[str, exp.Expr] = {}
    while not cursor.accept(")"):
        if fields:
            cursor.expect(",")
        token = cursor.token
        name = cursor.name("a field's name")
        if name in fields:
            raise cursor.error(f"found the field {name} twice, expected different names", token)
        cursor.expect(":=")
        fields[name] = exp.PropertyEQ(this=identifier(name), expression=_expression(cursor))
    return exp.Struct(expressions=list(fields.values()))


def _constant(make: Callable[[], exp.Expr]) -> Callable[[Cursor], exp.Expr]:
    return lambda _: make()


_SPECIAL: Final[dict[str, Callable[[Cursor], exp.Expr]]] = {
    "CASE": _case,
    "CAST": _cast,
    "ARRAY": _array,
    "MAP": _map,
    "STRUCT": _struct,
    "NULL": _constant(exp.Null),
    "TRUE": _constant(lambda: exp.Boolean(this=True)),
    "FALSE": _constant(lambda: exp.Boolean(this=False)),
}
_OF_UNITS: Final = ("DATEADD", "DATESUB", "TIMEADD", "TIMESUB", "TIMESTAMPADD", "TIMESTAMPSUB")
_CONSTRUCTORS: Final = {"ARRAY": "[", "MAP": "(", "STRUCT": "("}
"""Words that start a constructor if their bracket follows, and otherwise are names."""
