"""The evaluation of a plan's expressions, and the implementations of all functions.

Expressions are compiled to Python functions of rows. A row is a tuple of values in the order of its columns.
TIME, DATE and TIMESTAMP are integers (milliseconds of the day, days since 1970, milliseconds since 1970), a
DECIMAL has exactly its type's scale, and a STRUCT is a dict with every field; other types are the Python
types of the same kind. Values are immutable by convention. Steps of plans don't belong here.
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
