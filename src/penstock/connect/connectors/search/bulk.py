"""Bulk requests, and what their answers say of each document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from penstock.connect.connectors.http.exchange.messages import HttpAnswer, HttpRequest
from penstock.connect.connectors.search.documents import Document
from penstock.connect.errors import ConnectError

_PATH: Final = (
    "/_bulk?filter_path=items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by"
)
_HEADERS: Final = {"content-type": "application/x-ndjson", "accept": "application/json"}
_ERROR_CHARS: Final = 500
"""Limits how much of an engine's error a message shows."""


class Outcome(NamedTuple):
    """The engine's answer for one document; `error` is its text, or empty."""

    document: Document
    status: int
    error: str


def chunks(documents: Sequence[Document], size: int, most_bytes: int) -> Iterator[list[Document]]:
    """Split documents into those of one request each, in order."""
    chunk: list[Document] = []
    length = 0
    for document in documents:
        if chunk and (len(chunk) == size or length + len(document.lines) > most_bytes):
            yield chunk
            chunk, length = [], 0
        chunk.append(document)
        length += len(document.lines)
    if chunk:
        yield chunk


def bulk_request(url: str, documents: Sequence[Document]) -> HttpRequest:
    """Return the request that writes documents."""
    return HttpRequest("POST", url + _PATH, _HEADERS, b"".join(each.lines for each in documents))


def outcomes(documents: Sequence[Document], answer: HttpAnswer) -> list[Outcome]:
    """Return what became of each document. Raises ConnectError if the answer is not one to the request."""
    try:
        items = [next(iter(each.values())) for each in json.loads(answer.body)["items"]]
        found = [(int(each["status"]), _error_text(each.get("error"))) for each in items]
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
        raise ConnectError(f"the answer is not that of a bulk API: {answer}") from error
    if len(found) != len(documents):
        raise ConnectError(f"the answer has {len(found)} items, expected {len(documents)}")
    return [Outcome(each, *status) for each, status in zip(documents, found, strict=True)]


def _error_text(error: Any) -> str:
    if error is None:
        return ""
    cause = error.get("caused_by") or {}
    reasons = [f"{each['type']}: {each['reason']}" for each in (error, cause) if "reason" in each]
    return "; ".join(reasons)[:_ERROR_CHARS]
