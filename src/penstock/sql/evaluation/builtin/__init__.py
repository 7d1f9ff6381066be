"""What the built-in functions compute.

`SCALARS` give a value for a row, `TABLE_FUNCTIONS` several, `AGGREGATES` one for a group. Each is bound to
the types of its arguments once, where a plan is compiled. States of aggregates are made of lists, dicts,
texts, bytes and numbers: they go to a store and its changelog.
"""

from penstock.sql.evaluation.builtin.aggregates import AGGREGATES, LIMITS
from penstock.sql.evaluation.builtin.scalars import SCALARS, Scalar
from penstock.sql.evaluation.builtin.table_functions import TABLE_FUNCTIONS

__all__ = ["AGGREGATES", "LIMITS", "SCALARS", "TABLE_FUNCTIONS", "Scalar"]
