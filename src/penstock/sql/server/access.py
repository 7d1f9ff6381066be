"""The middleware for CORS and for access, configured by ksqlDB's properties."""

from __future__ import annotations

import re
from typing import Final

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from penstock.security.access.access import Access
from penstock.security.access.settings import open_paths
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import Values
from penstock.sql.server import media
from penstock.web.answers import answer_json
from penstock.web.guard import Guard

_OPEN: Final = ("/chc/live", "/chc/ready")
"""Paths that need no password: liveness is no secret, and the probes that ask for it have no credentials."""
_METHODS: Final = ("GET", "POST", "HEAD")
_HEADERS: Final = ("X-Requested-With", "Content-Type", "Accept", "Origin")


def guards(values: Values, access: Access) -> list[Middleware]:
    """The middleware in front of the application, the outermost first."""
    found: list[Middleware] = []
    if origins := _listed(values, "access.control.allow.origin"):
        patterns = (re.escape(each).replace(r"\*", ".*") for each in origins)
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origin_regex="|".join(patterns),
                allow_methods=_listed(values, "access.control.allow.methods") or _METHODS,
                allow_headers=_listed(values, "access.control.allow.headers") or _HEADERS,
                allow_credentials=True,
            )
        )
    paths = open_paths(*_OPEN, *_listed(values, "authentication.skip.paths"))
    found.append(Middleware(Guard, access=access, refusal=_refusal, open_paths=paths))
    return found


def _refusal() -> Response:
    error = EngineError(
        "expected the name and the password of a user, or the certificate of one", ErrorCode.UNAUTHORIZED
    )
    return answer_json(error.to_json(), media.JSON, error.code.http_status)


def _listed(values: Values, name: str) -> list[str]:
    return [each.strip() for each in (values.get(name) or "").split(",") if each.strip()]
