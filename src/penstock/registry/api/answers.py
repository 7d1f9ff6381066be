"""What is found as responses."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from penstock.registry.api.media import V1
from penstock.registry.subjects import RegistryError


def answer_json(found: Any, kind: str, status: int = 200) -> Response:
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair is no UTF-8, but JSON can say it.
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        text = json.dumps(found, separators=(",", ":"))
    return Response(text.encode(), status, media_type=kind)


def answer_text(found: str, kind: str) -> Response:
    return Response(found.encode("utf-8", "replace"), media_type=kind)


def failure(error: RegistryError, kind: str = V1) -> Response:
    return answer_json({"error_code": error.code, "message": error.message}, kind, error.status)
