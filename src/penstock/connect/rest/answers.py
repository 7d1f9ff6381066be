"""Turns results and refusals into HTTP responses."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from penstock.connect.errors import ConnectError
from penstock.connect.group.session_keys import RequestNotAuthentic
from penstock.connect.herding.errors import HerderError
from penstock.web.answers import answer_json

JSON: Final = "application/json"


class RequestRefused(ConnectError):
    """A request that the API refuses by itself, with an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer(found: Any, status: int = 200) -> Response:
    return answer_json(found, JSON, status)


def no_content(_nothing: None) -> Response:
    return Response(status_code=204)


def failure(error: Exception) -> Response:
    """The response to a request that failed. Kafka Connect's error code is the HTTP status."""
    status = error.status if isinstance(error, (RequestRefused, RequestNotAuthentic, HerderError)) else 500
    return answer({"error_code": status, "message": str(error)}, status)
