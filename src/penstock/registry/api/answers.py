"""Turn texts and failures into HTTP responses."""

from __future__ import annotations

from starlette.responses import Response

from penstock.registry.api.media import V1
from penstock.registry.subjects import RequestRefused
from penstock.web.answers import answer_json


def answer_text(found: str, kind: str) -> Response:
    return Response(found.encode("utf-8", "replace"), media_type=kind)


def failure(error: RequestRefused, kind: str = V1) -> Response:
    return answer_json({"error_code": error.code, "message": error.message}, kind, error.status)
