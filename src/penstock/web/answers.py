"""Results as JSON responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response


def answer_json(
    found: Any, kind: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair is invalid UTF-8, but JSON can escape it.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        text = json.dumps(found, separators=(",", ":"))
    return Response(text.encode(), status, headers, media_type=kind)
