"""The declarations of table functions, and of scalar functions on arrays and maps, some with lambdas."""

from typing import Final

TABLE: Final = """
ARRAY_CONCAT: The elements of both arrays
  ARRAY<T>, ARRAY<T> → ARRAY<T>
ARRAY_CONTAINS: Whether an array has an element
  ARRAY<T>, T → BOOLEAN
ARRAY_DISTINCT: Each element once, in the order in which they come first
  ARRAY<T> → ARRAY<T>
ARRAY_EXCEPT: Each element of the first array, once, that is not in the second
  ARRAY<T>, ARRAY<T> → ARRAY<T>
ARRAY_INTERSECT: Each element, once, that both arrays have
  ARRAY<T>, ARRAY<T> → ARRAY<T>
ARRAY_JOIN: The elements as one text, with a comma or another delimiter between them
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
ARRAY_SORT: The elements in order, ascending or DESC; nulls stand last
  ARRAY<O> → ARRAY<O>
  ARRAY<O>, STRING → ARRAY<O>
ARRAY_UNION: Each element of both arrays, once
  ARRAY<T>, ARRAY<T> → ARRAY<T>
AS_MAP: A map of an array of keys and one of values
  ARRAY<STRING>, ARRAY<T> → MAP<STRING, T>
ENTRIES: The entries of a map as structs of K and V, in the order of keys if asked
  MAP<STRING, INTEGER>, BOOLEAN → ARRAY<STRUCT<K STRING, V INTEGER>>
  MAP<STRING, BIGINT>, BOOLEAN → ARRAY<STRUCT<K STRING, V BIGINT>>
  MAP<STRING, DOUBLE>, BOOLEAN → ARRAY<STRUCT<K STRING, V DOUBLE>>
  MAP<STRING, BOOLEAN>, BOOLEAN → ARRAY<STRUCT<K STRING, V BOOLEAN>>
  MAP<STRING, STRING>, BOOLEAN → ARRAY<STRUCT<K STRING, V STRING>>
FILTER: The elements, or entries, that a lambda holds true
  ARRAY<T>, T => BOOLEAN → ARRAY<T>
  MAP<K, V>, (K, V) => BOOLEAN → MAP<K, V>
GENERATE_SERIES: The numbers from one to another, by a step
  INTEGER, INTEGER → ARRAY<INTEGER>
  INTEGER, INTEGER, INTEGER → ARRAY<INTEGER>
  BIGINT, BIGINT → ARRAY<BIGINT>
  BIGINT, BIGINT, INTEGER → ARRAY<BIGINT>
MAP_KEYS: The keys of a map
  MAP<STRING, T> → ARRAY<STRING>
MAP_UNION: The entries of both maps; the second one's where a key is in both
  MAP<STRING, T>, MAP<STRING, T> → MAP<STRING, T>
MAP_VALUES: The values of a map
  MAP<STRING, T> → ARRAY<T>
REDUCE: A start value combined with each element, or entry, in turn
  ARRAY<T>, S, (S, T) => S → S
  MAP<K, V>, S, (S, K, V) => S → S
SLICE: The elements from one number to another, both from 1 and included
  ARRAY<T>, INTEGER, INTEGER → ARRAY<T>
TRANSFORM: What a lambda makes of each element; of a map, one of the keys and one of the values
  ARRAY<T>, T => R → ARRAY<R>
  MAP<K, V>, (K, V) => R, (K, V) => S → MAP<R, S>
"""

TABLE_FUNCTIONS: Final = """
CUBE_EXPLODE: A row for each way of setting some of an array's elements to null
  ARRAY<T> → ARRAY<T>
EXPLODE: A row for each element of an array
  ARRAY<T> → T
"""
