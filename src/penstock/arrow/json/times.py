"""Parse times in JSON, given as ISO 8601 texts, a column at once."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_ZONE: Final = r":\d\d(?:\.\d*)?(?:Z|[+-]\d\d(?::?\d\d)?)$"
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def timestamps(texts: pa.StringArray, kind: pa.TimestampType) -> pa.TimestampArray:
    """Convert texts to timestamps. Raises ArrowInvalid for invalid texts.

    A text without a zone is UTC; digits finer than the column's unit are dropped.
    """
    zoned = pa.timestamp(kind.unit, kind.tz or "UTC")
    try:
        return texts.cast(zoned).cast(kind)
    # Arrow requires a zone in all texts of a column, and refuses digits that it can't keep.
    except pa.ArrowInvalid:
        finer = rf"(:\d\d\.\d{{{_DIGITS[kind.unit]}}})\d+"
        texts = pc.replace_substring_regex(texts, finer, r"\1")
    has_zone = pc.match_substring_regex(texts, _ZONE)
    nothing = pa.scalar(None, pa.string())
    with_zone = pc.if_else(has_zone, texts, nothing).cast(zoned)
    without = pc.if_else(has_zone, nothing, texts).cast(pa.timestamp(kind.unit)).cast(zoned)
    return pc.coalesce(with_zone, without).cast(kind)
