"""The counters of a web application's requests."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.security.access.access import Access, by_password
from penstock.security.access.roles import Grant, Role
from penstock.security.access.users import User, Users
from penstock.web.guard import Guard
from penstock.web.metrics import CountRequests, RequestMetrics
from penstock.web.server import WebServer, listen
from waiting import wait_until

ENDPOINTS = {"/streamed": "/streamed", "/failing": "/failing"}


@pytest.fixture
def served() -> Iterator[tuple[str, RequestMetrics]]:
    metrics = RequestMetrics()
    users = Users({"ann": User("secret", (Grant(Role.READER),))})

    async def streamed(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"%d" % metrics.open

        return StreamingResponse(pieces())

    async def failing(request: Request) -> Response:
        raise ZeroDivisionError

    async def answer_failure(request: Request, error: Exception) -> Response:
        return Response("failed", 500)

    application = Starlette(
        routes=[Route("/streamed", streamed), Route("/failing", failing)],
        middleware=[
            Middleware(
                CountRequests,
                metrics=metrics,
                endpoint_of=lambda scope: ENDPOINTS.get(scope["path"], "other"),
            ),
            Middleware(
                Guard,
                access=Access(lambda: users, {"basic": by_password(lambda: users)}),
                refusal=lambda: Response(status_code=401),
            ),
        ],
        exception_handlers={Exception: answer_failure},
    )
    listening = listen("127.0.0.1", 0)
    server = WebServer(application, listening, name="test")
    server.serve_in_thread()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", metrics
    server.stop()


def test_requests_are_counted_by_endpoint_method_and_code(served: tuple[str, RequestMetrics]) -> None:
    url, metrics = served

    def ask(method: str, path: str, password: str = "secret") -> httpx.Response:
        return httpx.request(method, url + path, auth=("ann", password))

    assert ask("GET", "/streamed").text == "1"
    asked = [
        ask("GET", "/streamed"),
        ask("HEAD", "/streamed"),
        ask("GET", "/failing"),
        ask("GET", "/random-1"),
        ask("GET", "/random-2"),
        ask("PROPFIND", "/streamed"),
        ask("GET", "/streamed", password="wrong"),
    ]
    assert [answer.status_code for answer in asked] == [200, 200, 500, 404, 404, 405, 401]
    assert metrics.answered == {
        ("/streamed", "GET", "200"): 2,
        ("/streamed", "HEAD", "200"): 1,
        ("/failing", "GET", "500"): 1,
        ("other", "GET", "404"): 2,
        ("/streamed", "other", "405"): 1,
        ("/streamed", "GET", "401"): 1,
    }
    assert set(metrics.seconds) == {key[:2] for key in metrics.answered}
    assert all(seconds > 0 for seconds in metrics.seconds.values())
    wait_until(lambda: metrics.open == 0)  # a request ends after its answer has arrived
