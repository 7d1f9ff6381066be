"""The declarations of scalar functions on strings, bytes, JSON and URLs."""

from typing import Final

TABLE: Final = r"""
CHR: The character of a code point, or of an escaped UTF-16 code such as \u0041
  INTEGER → STRING
  STRING → STRING
CONCAT: The concatenation of all arguments that are not null
  STRING... → STRING
  BYTES... → BYTES
CONCAT_WS: All arguments after the first that are not null, separated by the first
  STRING, STRING... → STRING
  BYTES, BYTES... → BYTES
ELT: The n-th of the arguments after the first, which is n
  INTEGER, STRING... → STRING
ENCODE: A string converted from one of the encodings hex, utf8, ascii and base64 to another
  STRING, STRING, STRING → STRING
FIELD: The position of the first argument among the others, from 1, or 0 if it is not among them
  STRING, STRING... → INTEGER
FROM_BYTES: Bytes as a string, in hex, utf8, ascii or base64
  BYTES, STRING → STRING
INITCAP: The string from its first word on, with each word's first letter in upper case, the rest in lower
  STRING → STRING
INSTR: The position of a string in another, from 1, or 0; optionally the n-th one after a start position
  STRING, STRING → INTEGER
  STRING, STRING, INTEGER → INTEGER
  STRING, STRING, INTEGER, INTEGER → INTEGER
LCASE: The string in lower case
  STRING → STRING
LEN: The number of UTF-16 code units, or of bytes
  STRING → INTEGER
  BYTES → INTEGER
LPAD: The value padded on the left, or cut, to a length
  STRING, INTEGER, STRING → STRING
  BYTES, INTEGER, BYTES → BYTES
MASK: Upper and lower case letters, digits and the rest replaced by X, x, n and -, or by other masks
  STRING → STRING
  STRING, STRING, STRING, STRING, STRING → STRING
MASK_KEEP_LEFT: The string masked, except for a number of characters at the start
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MASK_KEEP_RIGHT: The string masked, except for a number of characters at the end
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MASK_LEFT: The string with a number of characters at the start masked
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MASK_RIGHT: The string with a number of characters at the end masked
  STRING, INTEGER → STRING
  STRING, INTEGER, STRING, STRING, STRING, STRING → STRING
MD5: The MD5 digest of a string, in hex
  STRING → STRING
REGEXP_EXTRACT: The first match of a pattern in a string, or one of its groups
  STRING, STRING → STRING
  STRING, STRING, INTEGER → STRING
REGEXP_EXTRACT_ALL: All matches of a pattern in a string, or of one of its groups
  STRING, STRING → ARRAY<STRING>
  STRING, STRING, INTEGER → ARRAY<STRING>
REGEXP_REPLACE: The string with all matches of a pattern replaced
  STRING, STRING, STRING → STRING
REGEXP_SPLIT_TO_ARRAY: The parts of the string between the matches of a pattern
  STRING, STRING → ARRAY<STRING>
REPLACE: The string with all occurrences of another string replaced
  STRING, STRING, STRING → STRING
RPAD: The value padded on the right, or cut, to a length
  STRING, INTEGER, STRING → STRING
  BYTES, INTEGER, BYTES → BYTES
SPLIT: The parts between the delimiters, or the single characters if the delimiter is empty
  STRING, STRING → ARRAY<STRING>
  BYTES, BYTES → ARRAY<BYTES>
SPLIT_TO_MAP: A map from a string with a delimiter between entries and one between key and value
  STRING, STRING, STRING → MAP<STRING, STRING>
SUBSTRING: The part from a position (from 1, or from the end if negative), up to a length
  STRING, INTEGER → STRING
  STRING, INTEGER, INTEGER → STRING
  BYTES, INTEGER → BYTES
  BYTES, INTEGER, INTEGER → BYTES
TO_BYTES: A string in hex, utf8, ascii or base64 as bytes
  STRING, STRING → BYTES
TRIM: The string without white space at both ends
  STRING → STRING
UCASE: The string in upper case
  STRING → STRING
UUID: A random UUID, or the UUID of 16 bytes
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
EXTRACTJSONFIELD: The value at a JSON path, as a string
  STRING, STRING → STRING
IS_JSON_STRING: Whether a string is JSON
  STRING → BOOLEAN
JSON_ARRAY_CONTAINS: Whether a JSON array contains a value
  STRING, T → BOOLEAN
JSON_ARRAY_LENGTH: The number of elements of a JSON array
  STRING → INTEGER
JSON_CONCAT: JSON objects merged, or JSON arrays joined
  STRING... → STRING
JSON_ITEMS: The elements of a JSON array, each as JSON
  STRING → ARRAY<STRING>
JSON_KEYS: The keys of a JSON object
  STRING → ARRAY<STRING>
JSON_RECORDS: The fields of a JSON object, each value as JSON
  STRING → MAP<STRING, STRING>
TO_JSON_STRING: A value as JSON
  T → STRING
URL_DECODE_PARAM: The string with percent-encoding decoded
  STRING → STRING
URL_ENCODE_PARAM: The string encoded as a parameter of a URL
  STRING → STRING
URL_EXTRACT_FRAGMENT: The fragment of a URL, after #
  STRING → STRING
URL_EXTRACT_HOST: The host of a URL
  STRING → STRING
URL_EXTRACT_PARAMETER: The value of a parameter in a URL
  STRING, STRING → STRING
URL_EXTRACT_PATH: The path of a URL
  STRING → STRING
URL_EXTRACT_PORT: The port of a URL, if it has one
  STRING → INTEGER
URL_EXTRACT_PROTOCOL: The protocol of a URL
  STRING → STRING
URL_EXTRACT_QUERY: The query of a URL, after ?
  STRING → STRING
"""
