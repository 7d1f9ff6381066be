"""The declarations of scalar functions on numbers, and of those that choose among values of any type."""

from typing import Final

TABLE: Final = """
ABS: The absolute value of the number
  N → N
ACOS: Arc cosine, in radians
  DOUBLE → DOUBLE
ASIN: Arc sine, in radians
  DOUBLE → DOUBLE
ATAN: Arc tangent, in radians
  DOUBLE → DOUBLE
ATAN2: The angle of the point with coordinates y and x, in radians
  DOUBLE, DOUBLE → DOUBLE
CBRT: Cube root
  DOUBLE → DOUBLE
CEIL: The smallest integer that is not below the number
  N → N
COS: Cosine of an angle in radians
  DOUBLE → DOUBLE
COSH: Hyperbolic cosine
  DOUBLE → DOUBLE
COT: Cotangent of an angle in radians
  DOUBLE → DOUBLE
DEGREES: Radians as degrees
  DOUBLE → DOUBLE
EXP: e to the power of the number
  DOUBLE → DOUBLE
FLOOR: The largest integer that is not above the number
  N → N
GEO_DISTANCE: Great-circle distance between two points, latitude before longitude, in KM or MILES
  DOUBLE, DOUBLE, DOUBLE, DOUBLE → DOUBLE
  DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING → DOUBLE
GREATEST: The largest argument that is not null
  INTEGER, INTEGER... → INTEGER
  BIGINT, BIGINT... → BIGINT
  DECIMAL, DECIMAL... → DECIMAL
  DOUBLE, DOUBLE... → DOUBLE
  STRING, STRING... → STRING
  BYTES, BYTES... → BYTES
  DATE, DATE... → DATE
  TIME, TIME... → TIME
  TIMESTAMP, TIMESTAMP... → TIMESTAMP
LEAST: The smallest argument that is not null
  INTEGER, INTEGER... → INTEGER
  BIGINT, BIGINT... → BIGINT
  DECIMAL, DECIMAL... → DECIMAL
  DOUBLE, DOUBLE... → DOUBLE
  STRING, STRING... → STRING
  BYTES, BYTES... → BYTES
  DATE, DATE... → DATE
  TIME, TIME... → TIME
  TIMESTAMP, TIMESTAMP... → TIMESTAMP
LN: Natural logarithm
  DOUBLE → DOUBLE
LOG: Logarithm, natural or with a base that comes first
  DOUBLE → DOUBLE
  DOUBLE, DOUBLE → DOUBLE
PI: The number π
  → DOUBLE
POWER: A base to the power of an exponent
  DOUBLE, DOUBLE → DOUBLE
RADIANS: Degrees as radians
  DOUBLE → DOUBLE
RANDOM: A random number from 0 (included) to 1 (excluded)
  → DOUBLE
ROUND: The number rounded to an integer or to a number of decimal places, halves up
  INTEGER → BIGINT
  BIGINT → BIGINT
  DOUBLE → BIGINT
  DECIMAL → WHOLE
  DOUBLE, INTEGER → DOUBLE
  DECIMAL, INTEGER → DECIMAL
SIGN: -1, 0 or 1 if the number is below, equal to or above zero
  DOUBLE → INTEGER
SIN: Sine of an angle in radians
  DOUBLE → DOUBLE
SINH: Hyperbolic sine
  DOUBLE → DOUBLE
SQRT: Square root
  DOUBLE → DOUBLE
TAN: Tangent of an angle in radians
  DOUBLE → DOUBLE
TANH: Hyperbolic tangent
  DOUBLE → DOUBLE
TRUNC: The number truncated to an integer or to a number of decimal places
  INTEGER → BIGINT
  BIGINT → BIGINT
  DOUBLE → BIGINT
  DECIMAL → WHOLE
  DOUBLE, INTEGER → DOUBLE
  DECIMAL, INTEGER → DECIMAL
AS_VALUE: A copy of a key column's value, as a column of the value
  T → T
COALESCE: The first argument that is not null
  T, T... → T
IFNULL: The first argument, or the second if it is null
  T, T → T
NULLIF: Null if both arguments are equal, else the first
  T, T → T
"""
