"""The declarations of ksqlDB's functions: their names, kinds, signatures and one-line descriptions.

Only declarations and their matching against calls belong here. `penstock.sql.evaluation` computes functions.
"""

from typing import Final

from penstock.sql.functions import (
    aggregates_table,
    collections_table,
    numbers_table,
    strings_table,
    times_table,
)
from penstock.sql.functions.matching import (
    Argument,
    Call,
    LambdaArgument,
    LambdaType,
    UnitArgument,
    ValueArgument,
    resolved_call,
    result_type,
)
from penstock.sql.functions.notation import Function, FunctionKind, Parameter, Signature, functions_of

__all__ = [
    "BUILT_IN",
    "Argument",
    "Call",
    "Function",
    "FunctionKind",
    "LambdaArgument",
    "LambdaType",
    "Parameter",
    "Signature",
    "UnitArgument",
    "ValueArgument",
    "resolved_call",
    "result_type",
]

_TABLES: Final = (
    (FunctionKind.SCALAR, numbers_table.TABLE),
    (FunctionKind.SCALAR, strings_table.TABLE),
    (FunctionKind.SCALAR, collections_table.TABLE),
    (FunctionKind.SCALAR, times_table.TABLE),
    (FunctionKind.TABLE, collections_table.TABLE_FUNCTIONS),
    (FunctionKind.AGGREGATE, aggregates_table.TABLE),
)
BUILT_IN: Final = {
    function.name: function for kind, table in _TABLES for function in functions_of(kind, table)
}
