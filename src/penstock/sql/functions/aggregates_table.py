"""The declarations of aggregate functions."""

from typing import Final

TABLE: Final = """
ATTR: The value that all rows share, or null if they differ
  T → T
AVG: The mean of all values that are not null
  DOUBLE → DOUBLE
COLLECT_LIST: All values as an array
  T → ARRAY<T>
COLLECT_SET: All distinct values as an array
  T → ARRAY<T>
CORRELATION: Pearson's correlation of two columns
  DOUBLE, DOUBLE → DOUBLE
COUNT: The number of rows, or of values that are not null
  → BIGINT
  T → BIGINT
COUNT_DISTINCT: The approximate number of distinct values
  T → BIGINT
EARLIEST_BY_OFFSET: The first value, or the first n; nulls are included if the last argument is false
  T → T
  T, BOOLEAN! → T
  T, INTEGER! → ARRAY<T>
  T, INTEGER!, BOOLEAN! → ARRAY<T>
HISTOGRAM: The number of occurrences of each value
  STRING → MAP<STRING, BIGINT>
LATEST_BY_OFFSET: The last value, or the last n; nulls are included if the last argument is false
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
SUM: The sum of all values that are not null, of the same type
  N → N
SUM_LIST: The sum of all elements of all arrays
  ARRAY<INTEGER> → INTEGER
  ARRAY<BIGINT> → BIGINT
  ARRAY<DOUBLE> → DOUBLE
TOPK: The k largest values, or structs of them and of further columns
  C, ANY..., INTEGER! → RANKED
TOPKDISTINCT: The k largest distinct values
  C, INTEGER! → ARRAY<C>
"""
