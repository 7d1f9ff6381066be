"""The marks of large values (TOAST) that an update did not change, so that PostgreSQL did not log them.

The connector writes its placeholder in the form that the column's type has. Types that have no such form
(such as numerics, and arrays of floats or of timestamps) cannot be told from a null.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from datetime import date, timedelta
from typing import Any, Final

_EPOCH: Final = date(1970, 1, 1)


def marks_of_text(placeholder: str) -> list[str]:
    """Return the marks in columns of text.

    These are the placeholder; its base64 in both alphabets and its hexadecimal digits, which are bytea in the
    connector's modes and in JSON without schemas; and a JSON object, which is hstore in the mode json.
    """
    data = placeholder.encode()
    return [
        placeholder,
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        data.hex(),
        json.dumps({placeholder: placeholder}, ensure_ascii=False, separators=(",", ":")),
    ]


def marks_of_list(placeholder: str) -> list[list[Any]]:
    """Return the marks in columns of lists, and of maps as lists of pairs.

    Lists of numbers and dates have the placeholder's bytes as signed numbers. Lists of UUIDs have one that is
    made of its MD5.
    """
    data = placeholder.encode()
    numbers = [each - 256 if each > 127 else each for each in data]
    digest = hashlib.md5(data, usedforsecurity=False).digest()
    return [
        *([text] for text in marks_of_text(placeholder)),
        [data],
        [(placeholder, placeholder)],
        numbers,
        [_EPOCH + timedelta(days=each) for each in numbers],
        [str(uuid.UUID(bytes=digest, version=3))],
    ]
