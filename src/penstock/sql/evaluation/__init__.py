"""Expressions of plans, compiled to functions of rows: tuples of values in the order of columns.

A value of each type is what Python has for it: TIME, DATE and TIMESTAMP are integers (milliseconds of the
day, days and milliseconds since 1970), DECIMAL has exactly its type's scale, a STRUCT is a dict with every
field. Values are never changed once they are made.
"""

from penstock.sql.evaluation.code import NullValue
from penstock.sql.evaluation.compiled import (
    Condition,
    RowFunction,
    compile_condition,
    compile_row,
    compile_value,
)
from penstock.sql.evaluation.user_functions import UserFunctionError, UserFunctions

__all__ = [
    "Condition",
    "NullValue",
    "RowFunction",
    "UserFunctionError",
    "UserFunctions",
    "compile_condition",
    "compile_row",
    "compile_value",
]
