"""HTTP/1.1 on plain sockets: combined writes, and the reasons for closing a connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.web.server import WebServer, listen

WAIT_S = 60.0


@pytest.fixture(scope="module", params=[False, True], ids=["http1", "either"])
def address(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    async def answered(request: Request) -> Response:
        return Response(await request.body() or b"HTTP/1.1 is no head here")

    async def pieces(request: Request) -> Response:
        return StreamingResponse(iter([b"HTTP/1.1 one", b"two"]))

    async def nothing(request: Request) -> Response:
        return Response(status_code=204)

    routes = [
        Route(f"/{each.__name__}", each, methods=["GET", "POST"]) for each in (answered, pieces, nothing)
    ]
    listening = listen("127.0.0.1", 0)
    server = WebServer(Starlette(routes=routes), listening, name="tested", http2=request.param)
    thread = threading.Thread(target=server.serve_here)
    thread.start()
    yield listening.getsockname()
    server.should_exit = True
    thread.join(WAIT_S)
    assert not thread.is_alive()


@pytest.fixture
def connection(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=WAIT_S) as made:
        yield made


def ask(connection: socket.socket, path: str, body: bytes = b"", more: str = "") -> None:
    head = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    connection.sendall(head.encode() + body)


def test_an_answer_comes_in_one_piece(connection: socket.socket) -> None:
    for body in (b"first", b"second"):
        ask(connection, "/answered", body)
        assert connection.recv(65536).endswith(b"\r\n\r\n" + body)
    ask(connection, "/answered")
    assert connection.recv(65536).endswith(b"\r\n\r\nHTTP/1.1 is no head here")


def test_a_head_without_a_body_comes_too(connection: socket.socket) -> None:
    ask(connection, "/nothing")
    assert connection.recv(65536).startswith(b"HTTP/1.1 204 ")
    connection.sendall(b"HEAD /answered HTTP/1.1\r\nhost: here\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_pieces_come_in_their_order(connection: socket.socket) -> None:
    ask(connection, "/pieces", more="connection: close\r\n")
    found = b""
    while part := connection.recv(65536):
        found += part
    head, _, rest = found.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert rest == b"c\r\nHTTP/1.1 one\r\n3\r\ntwo\r\n0\r\n\r\n"


def test_a_client_that_wants_to_be_asked_for_its_body_is(connection: socket.socket) -> None:
    connection.sendall(
        b"POST /answered HTTP/1.1\r\nhost: here\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n"
    )
    assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(b"body")
    assert connection.recv(65536).endswith(b"\r\n\r\nbody")


def test_what_is_no_request_is_told_so_and_ended(connection: socket.socket) -> None:
    connection.sendall(b"NONSENSE\r\n\r\n")
    found = b""
    while part := connection.recv(65536):
        found += part
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.endswith(b"Invalid HTTP request received.")
