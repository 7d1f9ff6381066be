"""The parser of SELECT and its clauses, in ksqlDB's order."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from penstock.sql.language.keywords import DURATION_DAYS_MAX, DURATION_MS_MAX, WINDOW_UNITS
from penstock.sql.language.parsing.cursor import Cursor
from penstock.sql.language.parsing.expressions import identifier, parse_expression, parse_value, placed
from penstock.sql.language.statements import (
    Emit,
    JoinedRelation,
    JoinKind,
    Query,
    Relation,
    SelectItem,
    Window,
    WindowKind,
    Within,
)

_NO_ALIAS: Final = ("EMIT", "PARTITION", "ASSERT")
_JOINS: Final = {
    "JOIN": JoinKind.INNER,
    "INNER": JoinKind.INNER,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
}


def parse_query(cursor: Cursor) -> Query:
    cursor.expect("SELECT")
    items = [_item(cursor)]
    while cursor.accept(","):
        items.append(_item(cursor))
    cursor.expect("FROM")
    source = _relation(cursor)
    joins: list[JoinedRelation] = []
    while (word := cursor.accept_one(*_JOINS)) is not None:
        joins.append(_join(cursor, word))
    return Query(
        tuple(items),
        source,
        tuple(joins),
        window=_window(cursor) if cursor.accept("WINDOW") else None,
        where=parse_expression(cursor) if cursor.accept("WHERE") else None,
        group_by=_keys(cursor) if _accept_by(cursor, "GROUP") else (),
        partition_by=_keys(cursor) if _accept_by(cursor, "PARTITION") else (),
        having=parse_expression(cursor) if cursor.accept("HAVING") else None,
        emit=Emit(cursor.expect_one("CHANGES", "FINAL")) if cursor.accept("EMIT") else None,
        limit=cursor.integer("a number of rows") if cursor.accept("LIMIT") else None,
    )


def _item(cursor: Cursor) -> SelectItem:
    start = cursor.token
    if cursor.accept("*"):
        return SelectItem(placed(exp.Star(), start))
    if cursor.at_name() and cursor.ahead().text == "." and cursor.ahead(2).text == "*":
        table = cursor.name("a source")
        cursor.expect(".", "*")
        return SelectItem(placed(exp.Column(this=exp.Star(), table=identifier(table)), start))
    expression = parse_expression(cursor)
    if cursor.sees("->", "*"):
        if not isinstance(expression, _PRIMARY):
            raise cursor.error(
                "found ->* after an operand of an operator, expected it only after a single struct"
            )
        cursor.expect("->", "*")
        return SelectItem(placed(exp.Dot(this=expression, expression=exp.Star()), start))
    if cursor.accept("AS") or (cursor.at_name() and cursor.token.text not in _NO_ALIAS):
        return SelectItem(expression, cursor.name("an alias"))
    cursor.wants("AS")
    return SelectItem(expression)


_PRIMARY: Final = (exp.Column, exp.Dot, exp.Bracket, exp.Anonymous, exp.Struct, exp.Paren, exp.Case, exp.Cast)


def _relation(cursor: Cursor) -> Relation:
    start = cursor.token.start
    name = cursor.name("a stream or table")
    if cursor.accept("AS") or (cursor.at_name() and cursor.token.text not in _NO_ALIAS):
        return Relation(name, cursor.name("an alias"), start)
    return Relation(name, None, start)


def _join(cursor: Cursor, word: str) -> JoinedRelation:
    if word != "JOIN":
        if word != "INNER":
            cursor.accept("OUTER")
        cursor.expect("JOIN")
    relation = _relation(cursor)
    within = _within(cursor) if cursor.accept("WITHIN") else None
    cursor.expect("ON")
    return JoinedRelation(_JOINS[word], relation, within, parse_expression(cursor))


def _within(cursor: Cursor) -> Within:
    if cursor.accept("("):
        before = duration_ms(cursor)
        cursor.expect(",")
        after = duration_ms(cursor)
        cursor.expect(")")
    else:
        before = after = duration_ms(cursor)
    return Within(before, after, _grace(cursor) if cursor.accept("GRACE") else None)


def _grace(cursor: Cursor) -> int:
    cursor.expect("PERIOD")
    return duration_ms(cursor)


def duration_ms(cursor: Cursor) -> int:
    """Parse a duration such as `5 MINUTES`."""
    token = cursor.token
    count = cursor.integer("a duration")
    unit = cursor.expect_one(*WINDOW_UNITS)
    duration = count * WINDOW_UNITS[unit]
    if duration > DURATION_MS_MAX:
        problem = f"found {count} {unit}, expected a duration of up to {DURATION_DAYS_MAX} DAYS"
        raise cursor.error(problem, token)
    return duration


def _window(cursor: Cursor) -> Window:
    if cursor.at_name() and cursor.ahead().text in WindowKind.__members__:
        cursor.advance()  # a window may have a name, but nothing can refer to it
    kind = WindowKind(cursor.expect_one(*(kind.value for kind in WindowKind)))
    cursor.expect("(")
    if kind is not WindowKind.SESSION:
        cursor.expect("SIZE")
    size_ms = _positive_ms(cursor)
    advance_ms: int | None = None
    if kind is WindowKind.HOPPING:
        cursor.expect(",")
        cursor.expect("ADVANCE")
        cursor.expect("BY")
        token = cursor.token
        advance_ms = _positive_ms(cursor)
        if advance_ms > size_ms:
            raise cursor.error(f"found an advance of {advance_ms} ms, expected no more than the size", token)
    retention_ms = grace_ms = None
    while cursor.accept(","):
        if retention_ms is None and grace_ms is None and cursor.accept("RETENTION"):
            retention_ms = duration_ms(cursor)
        else:
            cursor.expect("GRACE")
            grace_ms = _grace(cursor)
            break
    cursor.expect(")")
    return Window(kind, size_ms, advance_ms, retention_ms, grace_ms)


def _positive_ms(cursor: Cursor) -> int:
    token = cursor.token
    duration = duration_ms(cursor)
    if duration == 0:
        raise cursor.error("found a window of size 0, expected a positive duration", token)
    return duration


def _accept_by(cursor: Cursor, word: str) -> bool:
    if not cursor.accept(word):
        return False
    cursor.expect("BY")
    return True


def _keys(cursor: Cursor) -> tuple[exp.Expr, ...]:
    """Parse a list of keys, `a, b` or `(a, b)`."""
    first = parse_value(cursor) if not _is_list(cursor) else None
    if first is None:
        cursor.expect("(")
    found = [parse_value(cursor) if first is None else first]
    while cursor.accept(","):
        found.append(parse_value(cursor))
    if first is None:
        cursor.expect(")")
    return tuple(found)


def _is_list(cursor: Cursor) -> bool:
    """Whether a parenthesis here encloses a list, rather than starting an expression."""
    if not cursor.sees("("):
        return False
    depth, place = 0, 0
    while True:
        text = cursor.ahead(place).source
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if depth == 1 and text == ",":
            return True
        if depth == 0 or text in ("", ";"):
            return False
        place += 1
