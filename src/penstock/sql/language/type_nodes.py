"""Conversion of our types to sqlglot's nodes, which a CAST in an expression holds, and back."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from penstock.sql.language import types
from penstock.sql.language.types import Array, Decimal, Map, Named, SqlType, Struct

_NODES: Final[dict[SqlType, exp.DType]] = {
    types.BOOLEAN: exp.DType.BOOLEAN,
    types.INTEGER: exp.DType.INT,
    types.BIGINT: exp.DType.BIGINT,
    types.DOUBLE: exp.DType.DOUBLE,
    types.STRING: exp.DType.TEXT,
    types.BYTES: exp.DType.VARBINARY,
    types.TIME: exp.DType.TIME,
    types.DATE: exp.DType.DATE,
    types.TIMESTAMP: exp.DType.TIMESTAMP,
}
_TYPES: Final = {node: type_ for type_, node in _NODES.items()}


def node_of(type_: SqlType) -> exp.DataType:
    """Convert a type to its sqlglot node."""
    match type_:
        case Decimal(precision, scale):
            sizes = [exp.DataTypeParam(this=exp.Literal.number(size)) for size in (precision, scale)]
            return exp.DataType(this=exp.DType.DECIMAL, expressions=sizes)
        case Array(element):
            return exp.DataType(this=exp.DType.ARRAY, expressions=[node_of(element)], nested=True)
        case Map(key, value):
            return exp.DataType(this=exp.DType.MAP, expressions=[node_of(key), node_of(value)], nested=True)
        case Struct(fields):
            columns = [
                exp.ColumnDef(this=exp.Identifier(this=name, quoted=False), kind=node_of(field))
                for name, field in fields
            ]
            return exp.DataType(this=exp.DType.STRUCT, expressions=columns, nested=True)
        case Named(name):
            return exp.DataType(this=exp.DType.USERDEFINED, kind=name)
    return exp.DataType(this=_NODES[type_])


def type_of(node: exp.Expr) -> SqlType:
    """Convert a node that `node_of` made back to its type."""
    assert isinstance(node, exp.DataType)
    inner = node.expressions
    match node.this:
        case exp.DType.DECIMAL:
            precision, scale = (int(size.this.this) for size in inner)
            return Decimal(precision, scale)
        case exp.DType.ARRAY:
            return Array(type_of(inner[0]))
        case exp.DType.MAP:
            return Map(type_of(inner[0]), type_of(inner[1]))
        case exp.DType.STRUCT:
            return Struct(tuple((field.name, type_of(field.args["kind"])) for field in inner))
        case exp.DType.USERDEFINED:
            return Named(node.args["kind"])
    return _TYPES[node.this]
