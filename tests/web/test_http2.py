"""HTTP/1.1 and HTTP/2 on one port, with httpx, and with h2 for requests that httpx never sends."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset, WindowUpdated
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.web.server import WebServer, listen
from waiting import wait_until

_CHUNK = b"x" * 10_000


class Recorded:
    """The application's progress, recorded for the tests."""

    def __init__(self) -> None:
        self.sent_chunks = 0
        self.has_ended = threading.Event()


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture
def address(recorded: Recorded) -> Iterator[tuple[str, int]]:
    async def asked(request: Request) -> Response:
        body = await request.body()
        told = {"version": request.scope["http_version"], "path": request.url.path, "bytes": len(body)}
        return JSONResponse({**told, "query": request.url.query, "host": request.headers["host"]})

    async def rows(request: Request) -> Response:
        count = int(request.query_params["chunks"])

        async def chunks() -> Any:
            try:
                for _ in range(count):
                    yield _CHUNK
                    recorded.sent_chunks += 1
            finally:
                recorded.has_ended.set()

        return StreamingResponse(chunks())

    async def waiting(request: Request) -> Response:
        async def chunks() -> Any:
            try:
                yield b"first"
                await asyncio.Event().wait()
            finally:
                recorded.has_ended.set()

        return StreamingResponse(chunks())

    async def failing(request: Request) -> Response:
        raise RuntimeError("this is wrong")

    async def early(request: Request) -> Response:
        return Response(b"enough", 413)

    routes = [
        *(Route(f"/{each.__name__}", each, methods=["GET", "POST"]) for each in (asked, rows, waiting)),
        *(Route(f"/{each.__name__}", each, methods=["GET", "POST"]) for each in (failing, early)),
    ]
    listening = listen("127.0.0.1", 0)
    bound = listening.getsockname()
    server = WebServer(Starlette(routes=routes), listening, name="tested", http2=True)
    thread = threading.Thread(target=server.serve_here)
    thread.start()
    yield bound
    server.should_exit = True
    thread.join(60)
    assert not thread.is_alive()


class RawClient:
    """An HTTP/2 connection that sends only what a test asks for: it never opens its window by itself."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=20)
        self.h2 = H2Connection(H2Configuration(client_side=True))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, path: str, method: str = "GET", *, ends: bool = True) -> int:
        number = self.h2.get_next_available_stream_id()
        headers = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "here")]
        self.h2.send_headers(number, headers, end_stream=ends)
        self.flush()
        return number

    def events_until(self, is_last: Callable[[Event], bool]) -> list[Event]:
        found: list[Event] = []
        while not any(map(is_last, found)):
            data = self.socket.recv(65536)
            assert data, f"the server closed the connection after {found}"
            found += self.h2.receive_data(data)
            self.flush()
        return found


def test_both_protocols_are_spoken_on_one_port(address: tuple[str, int]) -> None:
    url = f"http://{address[0]}:{address[1]}/asked?a=%20b"
    host = f"{address[0]}:{address[1]}"
    told = {"path": "/asked", "query": "a=%20b", "host": host, "bytes": 0}
    with httpx.Client() as older, httpx.Client(http1=False, http2=True) as newer:
        assert older.get(url).json() == {**told, "version": "1.1"}
        for _ in range(3):
            assert newer.get(url).json() == {**told, "version": "2"}


@pytest.mark.parametrize("pieces", [(1,), (3,), (23,), (1, 2, 3)])
def test_what_speaks_first_may_come_in_pieces(address: tuple[str, int], pieces: tuple[int, ...]) -> None:
    """The letter P begins both a POST and the preface of HTTP/2."""
    opening = H2Connection(H2Configuration(client_side=True))
    opening.initiate_connection()
    request = b"POST /asked HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"
    for data, answer in ((request, b"HTTP/1.1 200"), (opening.data_to_send(), b"\x00\x00")):
        with socket.create_connection(address, timeout=20) as client:
            start = 0
            for end in (*pieces, len(data)):
                client.sendall(data[start:end])
                time.sleep(0.02)
                start = end
            assert client.recv(100).startswith(answer)


def test_large_bodies_go_both_ways(address: tuple[str, int]) -> None:
    url = f"http://{address[0]}:{address[1]}"
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        assert client.post(f"{url}/asked", content=b"y" * 5_000_000).json()["bytes"] == 5_000_000
        assert len(client.get(f"{url}/rows?chunks=500").content) == 500 * len(_CHUNK)


def test_a_head_request_gets_no_body(address: tuple[str, int]) -> None:
    with httpx.Client(http1=False, http2=True) as client:
        answer = client.head(f"http://{address[0]}:{address[1]}/asked")
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) > 0
    assert answer.content == b""


@pytest.mark.parametrize("http2", [False, True])
def test_who_reads_nothing_is_sent_nothing_more(
    address: tuple[str, int], recorded: Recorded, http2: bool
) -> None:
    """The application waits, and other requests are answered meanwhile."""
    if http2:
        client = RawClient(address)
        client.ask("/rows?chunks=100000")
        taken = client.socket
    else:
        taken = socket.create_connection(address, timeout=20)
        taken.sendall(b"GET /rows?chunks=100000 HTTP/1.1\r\nHost: h\r\n\r\n")
    wait_until(lambda: recorded.sent_chunks > 0)
    before = -1
    while recorded.sent_chunks != before:
        before = recorded.sent_chunks
        time.sleep(0.3)
    assert before < 100_000
    with httpx.Client(http1=False, http2=True) as other:
        assert other.get(f"http://{address[0]}:{address[1]}/asked").status_code == 200
    assert not recorded.has_ended.is_set()
    taken.close()
    assert recorded.has_ended.wait(60)


def test_a_stream_that_stands_still_holds_no_other_of_its_connection(address: tuple[str, int]) -> None:
    client = RawClient(address)
    client.h2.increment_flow_control_window(1 << 24)
    client.ask("/rows?chunks=1000")
    uploading = client.ask("/early", "POST", ends=False)
    asked = client.ask("/asked")
    events = client.events_until(lambda event: isinstance(event, StreamEnded) and event.stream_id == asked)
    answered = {event.stream_id for event in events if isinstance(event, ResponseReceived)}
    assert {uploading, asked} <= answered


def test_an_answer_before_the_whole_request_tells_the_client_to_stop(address: tuple[str, int]) -> None:
    client = RawClient(address)
    number = client.ask("/early", "POST", ends=False)
    events = client.events_until(lambda event: isinstance(event, StreamReset))
    body = b"".join(event.data for event in events if isinstance(event, DataReceived))
    assert body == b"enough"
    resets = [event for event in events if isinstance(event, StreamReset)]
    assert [(event.stream_id, event.error_code) for event in resets] == [(number, ErrorCodes.NO_ERROR)]


def test_a_stream_that_is_reset_ends_its_request(address: tuple[str, int], recorded: Recorded) -> None:
    client = RawClient(address)
    number = client.ask("/waiting")
    client.events_until(lambda event: isinstance(event, DataReceived))
    assert not recorded.has_ended.is_set()
    client.h2.reset_stream(number)
    client.flush()
    assert recorded.has_ended.wait(60)
    asked = client.ask("/asked")
    client.events_until(lambda event: isinstance(event, StreamEnded) and event.stream_id == asked)


def test_who_resets_all_it_asks_is_refused_more(address: tuple[str, int]) -> None:
    """Requests that were reset count until the application has finished them (CVE-2023-44487)."""
    client = RawClient(address)
    for _ in range(300):
        number = client.h2.get_next_available_stream_id()
        headers = [(":method", "GET"), (":path", "/waiting"), (":scheme", "http"), (":authority", "here")]
        client.h2.send_headers(number, headers, end_stream=True)
        client.h2.reset_stream(number)
    client.flush()
    asked = client.ask("/asked")
    events = client.events_until(
        lambda event: isinstance(event, (StreamReset, StreamEnded)) and event.stream_id == asked
    )
    resets = [event for event in events if isinstance(event, StreamReset)]
    assert {event.error_code for event in resets} <= {ErrorCodes.REFUSED_STREAM}


def test_what_fails_is_answered_as_such(address: tuple[str, int]) -> None:
    with httpx.Client(http1=False, http2=True) as client:
        assert client.get(f"http://{address[0]}:{address[1]}/failing").status_code == 500
        assert client.get(f"http://{address[0]}:{address[1]}/asked").status_code == 200


def test_a_frame_that_may_not_be_there_ends_the_connection(address: tuple[str, int]) -> None:
    client = RawClient(address)
    client.socket.sendall(b"\x00\x00\x01\x00\x00\x00\x00\x00\x00x")  # data of stream 0
    received = b""
    while data := client.socket.recv(65536):
        received += data
    assert b"\x07\x00\x00\x00\x00\x00" in received  # GOAWAY, then the close


def test_an_open_stream_does_not_hold_the_end(recorded: Recorded) -> None:
    async def waiting(request: Request) -> Response:
        async def chunks() -> Any:
            yield b"first"
            await asyncio.Event().wait()

        return StreamingResponse(chunks())

    listening = listen("127.0.0.1", 0)
    bound = listening.getsockname()
    routes = [Route("/waiting", waiting)]
    server = WebServer(Starlette(routes=routes), listening, name="tested", http2=True)
    thread = threading.Thread(target=server.serve_here)
    thread.start()
    client = RawClient(bound)
    client.ask("/waiting")
    client.events_until(lambda event: isinstance(event, DataReceived))
    older = http.client.HTTPConnection(*bound)
    older.request("GET", "/waiting")
    assert older.getresponse().read(5) == b"first"
    server.should_exit = True
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("is_reset", [False, True])
def test_what_nobody_reads_of_bodies_takes_no_room_from_the_connection(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, is_reset: bool
) -> None:
    """Bodies that the application does not read, or no longer reads, do not stop the client from sending."""
    monkeypatch.setattr("penstock.web.http2._STREAMS_MAX", 4)  # so the connection takes 1 MiB ahead
    client = RawClient(address)
    headers = [(":method", "POST"), (":path", "/early"), (":scheme", "http"), (":authority", "here")]
    for _ in range(20):
        while client.h2.outbound_flow_control_window < 100_000:
            client.events_until(lambda event: isinstance(event, WindowUpdated))
        number = client.h2.get_next_available_stream_id()
        client.h2.send_headers(number, headers)
        for _ in range(10):
            client.h2.send_data(number, b"x" * 10_000)
        if is_reset:
            client.h2.reset_stream(number)
        client.flush()
        if not is_reset:
            client.events_until(lambda event: isinstance(event, StreamReset))
