"""The declarations of aggregate functions."""

from typing import Final

TABLE: Final = """
ATTR: The value that all rows have; null where they differ
  T → T
AVG: The mean of all values that are not null
  DOUBLE → DOUBLE
COLLECT_LIST: All values as an array
  T → ARRAY<T>
COLLECT_SET: All different values as an array
  T → ARRAY<T>
CORRELATION: Pearson's correlation of two columns
  DOUBLE, DOUBLE → DOUBLE
COUNT: How many rows there are, or how many values are not null
  → BIGINT
  T → BIGINT
COUNT_DISTINCT: About how many different values there are
  T → BIGINT
EARLIEST_BY_OFFSET: The value that came first, or the first n; nulls count if the last argument is false
  T → T
  T, BOOLEAN! → T
  T, INTEGER! → ARRAY<T>
  T, INTEGER!, BOOLEAN! → ARRAY<T>
HISTOGRAM: How often each value occurs
  STRING → MAP<STRING, BIGINT>
LATEST_BY_OFFSET: The value that came last, or the last n; nulls count if the last argument is false
  T → T
  T, BOOLEAN! → T
  T, INTEGER! → ARRAY<T>
  T, INTEGER!, BOOLEAN! → ARRAY<T>
MAX: The largest value
  C → C
MIN: The smallest value
  C → C
STDDEV_SAMP: The sample standard deviation
  DOUBLE → DOUBLE
STDDEV_SAMPLE: The sample standard deviation
  DOUBLE → DOUBLE
SUM: The sum of all values that are not null, in their own type
  N → N
SUM_LIST: The sum of all elements of all arrays
  ARRAY<INTEGER> → INTEGER
  ARRAY<BIGINT> → BIGINT
  ARRAY<DOUBLE> → DOUBLE
TOPK: The k largest values, or structs of them and further columns
  C, ANY..., INTEGER! → RANKED
TOPKDISTINCT: The k largest different values
  C, INTEGER! → ARRAY<C>
"""
