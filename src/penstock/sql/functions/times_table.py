"""The declarations of scalar functions on dates and times."""

from typing import Final

TABLE: Final = """
CONVERT_TZ: A timestamp that was taken in one time zone, in another
  TIMESTAMP, STRING, STRING → TIMESTAMP
DATEADD: A date so many units later
  UNIT, INTEGER, DATE → DATE
DATESUB: A date so many units earlier
  UNIT, INTEGER, DATE → DATE
DATETOSTRING: Deprecated: a number of days since 1970 in a pattern; FORMAT_DATE is the newer one
  INTEGER, STRING → STRING
FORMAT_DATE: A date in a pattern of Java's DateTimeFormatter
  DATE, STRING → STRING
FORMAT_TIME: A time in a pattern of Java's DateTimeFormatter
  TIME, STRING → STRING
FORMAT_TIMESTAMP: A timestamp in a pattern of Java's DateTimeFormatter, in UTC or a time zone
  TIMESTAMP, STRING → STRING
  TIMESTAMP, STRING, STRING → STRING
FROM_DAYS: The date that many days after 1970-01-01
  INTEGER → DATE
FROM_UNIXTIME: The timestamp that many milliseconds after 1970-01-01
  BIGINT → TIMESTAMP
PARSE_DATE: A date, read by a pattern of Java's DateTimeFormatter
  STRING, STRING → DATE
PARSE_TIME: A time, read by a pattern of Java's DateTimeFormatter
  STRING, STRING → TIME
PARSE_TIMESTAMP: A timestamp, read by a pattern of Java's DateTimeFormatter, in UTC or a time zone
  STRING, STRING → TIMESTAMP
  STRING, STRING, STRING → TIMESTAMP
STRINGTODATE: Deprecated: days since 1970, read by a pattern; PARSE_DATE is the newer one
  STRING, STRING → INTEGER
STRINGTOTIMESTAMP: Deprecated: milliseconds since 1970, read by a pattern; PARSE_TIMESTAMP is the newer one
  STRING, STRING → BIGINT
  STRING, STRING, STRING → BIGINT
TIMEADD: A time so many units later
  UNIT, INTEGER, TIME → TIME
TIMESTAMPADD: A timestamp so many units later
  UNIT, INTEGER, TIMESTAMP → TIMESTAMP
TIMESTAMPSUB: A timestamp so many units earlier
  UNIT, INTEGER, TIMESTAMP → TIMESTAMP
TIMESTAMPTOSTRING: Deprecated: milliseconds since 1970 in a pattern; FORMAT_TIMESTAMP is the newer one
  BIGINT, STRING → STRING
  BIGINT, STRING, STRING → STRING
TIMESUB: A time so many units earlier
  UNIT, INTEGER, TIME → TIME
UNIX_DATE: Days since 1970-01-01, today's or a date's
  → INTEGER
  DATE → INTEGER
UNIX_TIMESTAMP: Milliseconds since 1970-01-01, now or of a timestamp
  → BIGINT
  TIMESTAMP → BIGINT
"""
