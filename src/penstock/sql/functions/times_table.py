"""The declarations of scalar functions on dates and times."""

from typing import Final

TABLE: Final = """
CONVERT_TZ: A timestamp converted from one time zone to another
  TIMESTAMP, STRING, STRING → TIMESTAMP
DATEADD: A date plus a number of units
  UNIT, INTEGER, DATE → DATE
DATESUB: A date minus a number of units
  UNIT, INTEGER, DATE → DATE
DATETOSTRING: Deprecated, use FORMAT_DATE: days since 1970, formatted with a pattern
  INTEGER, STRING → STRING
FORMAT_DATE: A date, formatted with a pattern of Java's DateTimeFormatter
  DATE, STRING → STRING
FORMAT_TIME: A time, formatted with a pattern of Java's DateTimeFormatter
  TIME, STRING → STRING
FORMAT_TIMESTAMP: A timestamp, formatted with a pattern of Java's DateTimeFormatter, in UTC or a time zone
  TIMESTAMP, STRING → STRING
  TIMESTAMP, STRING, STRING → STRING
FROM_DAYS: The date that many days after 1970-01-01
  INTEGER → DATE
FROM_UNIXTIME: The timestamp that many milliseconds after 1970-01-01
  BIGINT → TIMESTAMP
PARSE_DATE: A date, parsed with a pattern of Java's SimpleDateFormat
  STRING, STRING → DATE
PARSE_TIME: A time, parsed with a pattern of Java's DateTimeFormatter
  STRING, STRING → TIME
PARSE_TIMESTAMP: A timestamp, parsed with a pattern of Java's DateTimeFormatter, in UTC or a time zone
  STRING, STRING → TIMESTAMP
  STRING, STRING, STRING → TIMESTAMP
STRINGTODATE: Deprecated, use PARSE_DATE: days since 1970, parsed with a pattern
  STRING, STRING → INTEGER
STRINGTOTIMESTAMP: Deprecated, use PARSE_TIMESTAMP: milliseconds since 1970, parsed with a pattern
  STRING, STRING → BIGINT
  STRING, STRING, STRING → BIGINT
TIMEADD: A time plus a number of units
  UNIT, INTEGER, TIME → TIME
TIMESTAMPADD: A timestamp plus a number of units
  UNIT, INTEGER, TIMESTAMP → TIMESTAMP
TIMESTAMPSUB: A timestamp minus a number of units
  UNIT, INTEGER, TIMESTAMP → TIMESTAMP
TIMESTAMPTOSTRING: Deprecated, use FORMAT_TIMESTAMP: milliseconds since 1970, formatted with a pattern
  BIGINT, STRING → STRING
  BIGINT, STRING, STRING → STRING
TIMESUB: A time minus a number of units
  UNIT, INTEGER, TIME → TIME
UNIX_DATE: Days since 1970-01-01, of today or of a date
  → INTEGER
  DATE → INTEGER
UNIX_TIMESTAMP: Milliseconds since 1970-01-01, of now or of a timestamp
  → BIGINT
  TIMESTAMP → BIGINT
"""
