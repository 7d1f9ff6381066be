"""The implementations of the built-in functions.

`SCALARS` compute one value per row, `TABLE_FUNCTIONS` several, and `AGGREGATES` one per group. Each is bound
to the types of its arguments once, when a plan is compiled. The states of aggregates consist of lists, dicts,
strings, bytes and numbers, because they are written to a store and its changelog.
"""

from penstock.sql.evaluation.builtin.aggregates import AGGREGATES, LIMITS
from penstock.sql.evaluation.builtin.scalars import SCALARS, Scalar
from penstock.sql.evaluation.builtin.table_functions import TABLE_FUNCTIONS

__all__ = ["AGGREGATES", "LIMITS", "SCALARS", "TABLE_FUNCTIONS", "Scalar"]
