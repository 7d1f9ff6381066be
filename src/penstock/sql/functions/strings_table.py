"""The declarations of scalar functions on strings, bytes, JSON and URLs."""

from typing import Final

TABLE: Final = r"""
CHR: The character of a code point, or of an escaped UTF-16 code such as \u0041
  INTEGER → STRING
  STRING → STRING
CONCAT: All arguments that are not null, one after the other
  STRING... → STRING
  BYTES... → BYTES
CONCAT_WS: All arguments but the first that are not null, with the first between them
  STRING, STRING... → STRING
  BYTES, BYTES... → BYTES
ELT: The argument of that number, from 1
  INTEGER, STRING... → STRING
ENCODE: A text brought from one of hex, utf8, ascii and base64 to another
  STRING, STRING, STRING → STRING
FIELD: At which number, from 1, the first argument stands among the others, or 0
  STRING, STRING... → INTEGER
FROM_BYTES: Bytes as text, in hex, utf8, ascii or base64
  BYTES, STRING → STRING
INITCAP: Each word with a capital, the rest small
  STRING → STRING
INSTR: Where a text stands in another one, from 1, or 0; from a position, for the n-th time
  STRING, STRING → INTEGER
  STRING, STRING, INTEGER → INTEGER
  STRING, STRING, INTEGER, INTEGER → INTEGER
LCASE: In small letters
  STRING → STRING
LEN: The number of characters, or of bytes
  STRING → INTEGER
  BYTES → INTEGER
LPAD: Filled from the left, or cut, to a length
  STRING, INTEGER, STRING → STRING
  BYTES, INTEGER, BYTES → BYTES
MASK: Letters, digits and the rest replaced by X, x, n and - or what is given for them
  STRING → STRING
  STRING, STRING, STRING, STRING, STRING → STRING
MASK_KEEP_LEFT: Masked but for so many characters at the start
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MASK_KEEP_RIGHT: Masked but for so many characters at the end
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MASK_LEFT: The first characters masked
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MASK_RIGHT: The last characters masked
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MD5: The MD5 digest of a text, in hex
  STRING → STRING
REGEXP_EXTRACT: The first match of a pattern in a text, or one of its groups
  STRING, STRING → STRING
  STRING, STRING, INTEGER → STRING
REGEXP_EXTRACT_ALL: All matches of a pattern in a text, or of one of its groups
  STRING, STRING → ARRAY<STRING>
  STRING, STRING, INTEGER → ARRAY<STRING>
REGEXP_REPLACE: All matches of a pattern replaced
  STRING, STRING, STRING → STRING
REGEXP_SPLIT_TO_ARRAY: What stands between the matches of a pattern
  STRING, STRING → ARRAY<STRING>
REPLACE: All occurrences of a text replaced
  STRING, STRING, STRING → STRING
RPAD: Filled from the right, or cut, to a length
  STRING, INTEGER, STRING → STRING
  BYTES, INTEGER, BYTES → BYTES
SPLIT: What stands between the delimiters; the single characters where it is empty
  STRING, STRING → ARRAY<STRING>
  BYTES, BYTES → ARRAY<BYTES>
SPLIT_TO_MAP: Entries of keys and values, each with a delimiter, as a map
  STRING, STRING, STRING → MAP<STRING, STRING>
SUBSTRING: From a position, from 1, or from the end where it is negative; up to a length
  STRING, INTEGER → STRING
  STRING, INTEGER, INTEGER → STRING
  BYTES, INTEGER → BYTES
  BYTES, INTEGER, INTEGER → BYTES
TO_BYTES: A text in hex, utf8, ascii or base64 as bytes
  STRING, STRING → BYTES
TRIM: Without white space at both ends
  STRING → STRING
UCASE: In capitals
  STRING → STRING
UUID: A random UUID, or the one of 16 bytes
  → STRING
  BYTES → STRING
BIGINT_FROM_BYTES: A BIGINT of 8 bytes, BIG_ENDIAN or LITTLE_ENDIAN
  BYTES → BIGINT
  BYTES, STRING → BIGINT
DOUBLE_FROM_BYTES: A DOUBLE of 8 bytes, BIG_ENDIAN or LITTLE_ENDIAN
  BYTES → DOUBLE
  BYTES, STRING → DOUBLE
INT_FROM_BYTES: An INTEGER of 4 bytes, BIG_ENDIAN or LITTLE_ENDIAN
  BYTES → INTEGER
  BYTES, STRING → INTEGER
EXTRACTJSONFIELD: What a JSON path leads to, as text
  STRING, STRING → STRING
IS_JSON_STRING: Whether a text is JSON
  STRING → BOOLEAN
JSON_ARRAY_CONTAINS: Whether a JSON array has an element
  STRING, T → BOOLEAN
JSON_ARRAY_LENGTH: How many elements a JSON array has
  STRING → INTEGER
JSON_CONCAT: JSON objects merged, arrays joined
  STRING... → STRING
JSON_ITEMS: The elements of a JSON array, each as JSON
  STRING → ARRAY<STRING>
JSON_KEYS: The keys of a JSON object
  STRING → ARRAY<STRING>
JSON_RECORDS: The fields of a JSON object, each value as JSON
  STRING → MAP<STRING, STRING>
TO_JSON_STRING: A value as JSON
  T → STRING
URL_DECODE_PARAM: Percent signs resolved
  STRING → STRING
URL_ENCODE_PARAM: Fit to be a parameter in a URL
  STRING → STRING
URL_EXTRACT_FRAGMENT: What follows # in a URL
  STRING → STRING
URL_EXTRACT_HOST: The host of a URL
  STRING → STRING
URL_EXTRACT_PARAMETER: The value of a parameter in a URL
  STRING, STRING → STRING
URL_EXTRACT_PATH: The path of a URL
  STRING → STRING
URL_EXTRACT_PORT: The port of a URL, where it names one
  STRING → INTEGER
URL_EXTRACT_PROTOCOL: The protocol of a URL
  STRING → STRING
URL_EXTRACT_QUERY: What follows ? in a URL
  STRING → STRING
"""
