"""The declarations of table functions, and of scalar functions on arrays and maps, some with lambdas."""

from typing import Final

TABLE: Final = """
ARRAY_CONCAT: The elements of both arrays
  ARRAY<T>, ARRAY<T> → ARRAY<T>
ARRAY_CONTAINS: Whether an array contains a value
  ARRAY<T>, T → BOOLEAN
ARRAY_DISTINCT: The distinct elements, in order of their first occurrence
  ARRAY<T> → ARRAY<T>
ARRAY_EXCEPT: The distinct elements of the first array that are not in the second
  ARRAY<T>, ARRAY<T> → ARRAY<T>
ARRAY_INTERSECT: The distinct elements that are in both arrays
  ARRAY<T>, ARRAY<T> → ARRAY<T>
ARRAY_JOIN: The elements as one string, separated by a comma or another delimiter
  ARRAY<T> → STRING
  ARRAY<T>, STRING → STRING
ARRAY_LENGTH: The number of elements
  ARRAY<T> → INTEGER
ARRAY_MAX: The largest element
  ARRAY<O> → O
ARRAY_MIN: The smallest element
  ARRAY<O> → O
ARRAY_REMOVE: The elements that are not equal to a value
  ARRAY<T>, T → ARRAY<T>
ARRAY_SORT: The elements sorted, ascending or DESC, with nulls last
  ARRAY<O> → ARRAY<O>
  ARRAY<O>, STRING → ARRAY<O>
ARRAY_UNION: The distinct elements of both arrays
  ARRAY<T>, ARRAY<T> → ARRAY<T>
AS_MAP: A map from an array of keys and an array of values, null where that is shorter
  ARRAY<STRING>, ARRAY<T> → MAP<STRING, T>
ENTRIES: The entries of a map as structs of K and V, sorted by key if the second argument is true
  MAP<STRING, INTEGER>, BOOLEAN → ARRAY<STRUCT<K STRING, V INTEGER>>
  MAP<STRING, BIGINT>, BOOLEAN → ARRAY<STRUCT<K STRING, V BIGINT>>
  MAP<STRING, DOUBLE>, BOOLEAN → ARRAY<STRUCT<K STRING, V DOUBLE>>
  MAP<STRING, BOOLEAN>, BOOLEAN → ARRAY<STRUCT<K STRING, V BOOLEAN>>
  MAP<STRING, STRING>, BOOLEAN → ARRAY<STRUCT<K STRING, V STRING>>
FILTER: The elements, or entries, for which a lambda is true
  ARRAY<T>, T => BOOLEAN → ARRAY<T>
  MAP<K, V>, (K, V) => BOOLEAN → MAP<K, V>
GENERATE_SERIES: The numbers from a first to a last one, by a step
  INTEGER, INTEGER → ARRAY<INTEGER>
  INTEGER, INTEGER, INTEGER → ARRAY<INTEGER>
  BIGINT, BIGINT → ARRAY<BIGINT>
  BIGINT, BIGINT, INTEGER → ARRAY<BIGINT>
MAP_KEYS: The keys of a map
  MAP<STRING, T> → ARRAY<STRING>
MAP_UNION: The entries of both maps; for a key in both, the entry of the second
  MAP<STRING, T>, MAP<STRING, T> → MAP<STRING, T>
MAP_VALUES: The values of a map
  MAP<STRING, T> → ARRAY<T>
REDUCE: An initial value combined with each element, or entry, in turn
  ARRAY<T>, S, (S, T) => S → S
  MAP<K, V>, S, (S, K, V) => S → S
SLICE: The elements between two positions, both included and counted from 1; null if one is outside
  ARRAY<T>, INTEGER, INTEGER → ARRAY<T>
TRANSFORM: The results of a lambda for each element; of a map, one lambda for the keys and one for the values
  ARRAY<T>, T => R → ARRAY<R>
  MAP<K, V>, (K, V) => R, (K, V) => S → MAP<R, S>
"""

TABLE_FUNCTIONS: Final = """
CUBE_EXPLODE: A row for each way of setting some of an array's elements to null
  ARRAY<T> → ARRAY<T>
EXPLODE: A row for each element of an array
  ARRAY<T> → T
"""
