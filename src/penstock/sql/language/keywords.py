"""The words that ksqlDB reserves, which may be used as names only in quotes.

Other words of the grammar (SHOW, KEY, STRUCT, EMIT, …) may also be names. Where one could be either, the
grammar decides by the next tokens.
"""

from __future__ import annotations

import re
from typing import Final

_RESERVED: Final = """
    ADVANCE ALL AND AS AT BEGINNING BETWEEN BY CASE CAST CATALOG CONNECTOR CONNECTORS CREATE DAYS
    DECIMAL DELETE DESCRIBE DISTINCT DROP ELSE END EXISTS EXPORT EXTENDED FALSE FROM FULL GROUP HAVING
    HOPPING HOURS IN INNER INSERT INTO IS JOIN LEFT LIKE LIMIT LIST LOAD MATERIALIZED MILLISECOND
    MILLISECONDS MINUTES MONTHS NAMESPACE NOT NULL ON OR OUTER PAUSE PRINT PROPERTIES QUERIES QUERY
    RENAME RESUME RETENTION RIGHT RUN SAMPLE SCRIPT SECONDS SELECT SIZE STREAM STREAMS TABLE TERMINATE
    THEN TO TOPIC TOPICS TRUE TUMBLING UNSET VALUES VIEW WHEN WHERE WINDOW WITH WITHIN YEARS
"""
RESERVED: Final = frozenset(_RESERVED.split())

WINDOW_UNITS: Final = {
    "MILLISECOND": 1,
    "MILLISECONDS": 1,
    "SECOND": 1_000,
    "SECONDS": 1_000,
    "MINUTE": 60_000,
    "MINUTES": 60_000,
    "HOUR": 3_600_000,
    "HOURS": 3_600_000,
    "DAY": 86_400_000,
    "DAYS": 86_400_000,
}
DURATION_DAYS_MAX: Final = 100_000_000
"""Limits durations, so that a timestamp plus a few of them fits into 64 bits."""
DURATION_MS_MAX: Final = DURATION_DAYS_MAX * WINDOW_UNITS["DAYS"]

_PLAIN = re.compile(r"[A-Z_][A-Z0-9_@]*")


def quoted(name: str) -> str:
    """Write a name, in back quotes if it would otherwise parse as a different name or a keyword."""
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def string_literal(value: str) -> str:
    """Write a text as a string literal in single quotes."""
    return "'" + value.replace("'", "''") + "'"
