"""Access control: CORS, and users with passwords, configured by ksqlDB's properties."""

from __future__ import annotations

import re
from typing import Final

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from penstock.client.settings import ConfigError
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import USERS_FILE, Values
from penstock.sql.server import media
from penstock.web.answers import answer_json
from penstock.web.authentication import BasicAuthentication, Users

_OPEN: Final = ("/chc/live", "/chc/ready")
"""Paths that need no password: liveness is no secret, and the probes that ask for it have no credentials."""
_METHODS: Final = ("GET", "POST", "HEAD")
_HEADERS: Final = ("X-Requested-With", "Content-Type", "Accept", "Origin")


def guards(values: Values) -> list[Middleware]:
    """The middleware in front of the application, the outermost first. Raises ConfigError."""
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
    if (users := _users(values)) is not None:
        paths = [*_OPEN, *_listed(values, "authentication.skip.paths")]
        found.append(Middleware(BasicAuthentication, users=users, refusal=_refusal, open_paths=paths))
    return found


def _users(values: Values) -> Users | None:
    """The users who have access; None for everyone. Raises ConfigError."""
    path, is_asked = values.get(USERS_FILE), (values.get("authentication.method") or "").upper() == "BASIC"
    if is_asked != (path is not None):
        raise ConfigError(f"'authentication.method' BASIC and '{USERS_FILE}' go together: found one of them")
    if path is None:
        return None
    try:
        return Users.read(
            path, _listed(values, "authentication.roles"), values.get("authentication.realm") or ""
        )
    except ValueError as error:
        raise ConfigError(f"'{USERS_FILE}': {error}") from None


def _refusal() -> Response:
    error = EngineError("expected the name and the password of a user", ErrorCode.UNAUTHORIZED)
    return answer_json(error.to_json(), media.JSON, error.code.http_status)


def _listed(values: Values, name: str) -> list[str]:
    return [each.strip() for each in (values.get(name) or "").split(",") if each.strip()]
