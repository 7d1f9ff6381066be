"""A sqlglot dialect that prints expressions in ksqlDB's syntax.

It only prints; `penstock.sql.language.parsing` parses. Trees keep their parentheses (`exp.Paren`), so a
printed expression parses to the same tree again.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.generator import Generator as SqlGenerator

from penstock.sql.language.keywords import quoted, string_literal
from penstock.sql.language.type_nodes import type_of


def _literal(generator: SqlGenerator, node: exp.Literal) -> str:
    return string_literal(node.name) if node.is_string else node.name


def _column(generator: SqlGenerator, node: exp.Column) -> str:
    name = generator.sql(node, "this")
    return f"{generator.sql(node, 'table')}.{name}" if node.args.get("table") else name


def _call(generator: SqlGenerator, node: exp.Anonymous) -> str:
    return f"{quoted(node.name)}({', '.join(generator.sql(argument) for argument in node.expressions)})"


def _lambda(generator: SqlGenerator, node: exp.Lambda) -> str:
    names = [quoted(name.name) for name in node.expressions]
    head = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"{head} => {generator.sql(node, 'this')}"


def _map(generator: SqlGenerator, node: exp.Map) -> str:
    pairs = zip(node.args["keys"].expressions, node.args["values"].expressions, strict=True)
    return f"MAP({', '.join(f'{generator.sql(key)} := {generator.sql(value)}' for key, value in pairs)})"


def _fields(generator: SqlGenerator, node: exp.Struct) -> str:
    fields = (f"{quoted(field.name)} := {generator.sql(field, 'expression')}" for field in node.expressions)
    return f"STRUCT({', '.join(fields)})"


def _between(infix: str) -> Any:
    return lambda generator, node: (
        f"{generator.sql(node, 'this')} {infix} {generator.sql(node, 'expression')}"
    )


class KsqlDialect(Dialect):
    """ksqlDB's dialect. sqlglot registers it under its class name; our code calls `print_expression`."""

    class Generator(SqlGenerator):
        TRANSFORMS: Final = {  # type: ignore[misc]
            **SqlGenerator.TRANSFORMS,
            exp.Identifier: lambda generator, node: quoted(node.name),
            exp.Literal: _literal,
            exp.Column: _column,
            exp.Anonymous: _call,
            exp.Lambda: _lambda,
            exp.Array: lambda generator, node: f"ARRAY[{generator.expressions(node, flat=True)}]",
            exp.Map: _map,
            exp.Struct: _fields,
            exp.DataType: lambda generator, node: str(type_of(node)),
            exp.Dot: lambda generator, node: (
                f"{generator.sql(node, 'this')}->{generator.sql(node, 'expression')}"
            ),
            exp.DPipe: _between("||"),
            exp.Mod: _between("%"),
            exp.Div: _between("/"),
            exp.NullSafeEQ: _between("IS NOT DISTINCT FROM"),
            exp.NullSafeNEQ: _between("IS DISTINCT FROM"),
            exp.Like: _between("LIKE"),
            exp.Escape: _between("ESCAPE"),
            exp.Bracket: lambda generator, node: (
                f"{generator.sql(node, 'this')}[{generator.expressions(node, flat=True)}]"
            ),
            exp.Cast: lambda generator, node: (
                f"CAST({generator.sql(node, 'this')} AS {generator.sql(node, 'to')})"
            ),
        }


_DIALECT: Final = KsqlDialect()


def print_expression(node: exp.Expr) -> str:
    """Print an expression as text that parses to the same expression."""
    return _DIALECT.generate(node, copy=False, comments=False)
