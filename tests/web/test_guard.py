"""The middleware that lets clients in: it fails closed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from penstock.security.access.access import Access, by_password
from penstock.security.access.roles import Grant, Identity, Role
from penstock.security.access.settings import open_paths
from penstock.security.access.users import User, Users
from penstock.web.guard import Guard, identity_of, route

USERS = Users(
    {
        "rita": User("r", (Grant(Role.READER),)),
        "wanda": User("w", (Grant(Role.WRITER),)),
    }
)
ROLES = {"/read": Role.READER, "/write": Role.WRITER, "/open": Role.WRITER}


async def who(request: Request) -> Response:
    return PlainTextResponse(identity_of(request.scope).principal)


def refuse(identity: Identity, needs: Role) -> Response:
    return PlainTextResponse(f"{identity.principal} is no {needs.name}", 403)


def application(*middleware: Middleware) -> Starlette:
    return Starlette(routes=[route(path, who, ROLES, refuse) for path in ROLES], middleware=list(middleware))


def guarded() -> Starlette:
    return application(
        Middleware(
            Guard,
            access=Access(lambda: USERS, {"basic": by_password(lambda: USERS)}, realm='a "realm"'),
            refusal=lambda: PlainTextResponse("refused", 401),
            open_paths=open_paths("/open", "/v1/*"),
        )
    )


def ask(app: Any, path: str, **options: Any) -> httpx.Response:
    async def story() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, **options)

    return asyncio.run(story())


def test_clients_with_credentials_and_the_role_come_in() -> None:
    assert ask(guarded(), "/read", auth=("rita", "r")).text == "User:rita"
    assert ask(guarded(), "/write", auth=("wanda", "w")).text == "User:wanda"
    refused = ask(guarded(), "/write", auth=("rita", "r"))
    assert (refused.status_code, refused.text) == (403, "User:rita is no WRITER")


@pytest.mark.parametrize(
    "path", ["/", "/read", "/write", "/missing", "/open/", "/OPEN", "/read%2F..%2Fopen", "//open"]
)
def test_strangers_are_refused_at_every_path(path: str) -> None:
    for options in ({}, {"auth": ("rita", "w")}, {"headers": {"authorization": "Bearer rita"}}):
        refused = ask(guarded(), path, **options)
        assert (refused.status_code, refused.text) == (401, "refused")
        assert refused.headers["www-authenticate"] == "Basic realm=\"a 'realm'\""


def test_strangers_may_only_read_at_open_paths() -> None:
    assert ask(guarded(), "/open").text == "User:ANONYMOUS is no WRITER"
    assert ask(guarded(), "/v1/any/thing").status_code == 404
    assert ask(guarded(), "/open", auth=("wanda", "w")).text == "User:wanda"


def test_without_the_middleware_no_request_is_answered() -> None:
    assert ask(application(), "/read").status_code == 500


def test_a_path_without_a_role_cannot_be_served() -> None:
    with pytest.raises(KeyError):
        route("/other", who, ROLES, refuse)


def test_other_protocols_are_not_served() -> None:
    async def unused(*_: object) -> None:
        raise AssertionError

    guard = Guard(unused, Access(), Response)
    with pytest.raises(RuntimeError, match="websocket is not served"):
        asyncio.run(guard({"type": "websocket"}, unused, unused))  # type: ignore[arg-type]
