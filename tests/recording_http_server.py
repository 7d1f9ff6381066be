"""An HTTP server in threads of this process that records requests and fails when a test wants it to."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Received(NamedTuple):
    """A request; the names of its headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    connection: int
    """The client's port, which tells connections apart."""
    target: str
    """The path with its query, as it was sent."""


class Answer(NamedTuple):
    """An answer; a cut one closes the connection in the middle of its body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}  # nothing changes it
    cut: bool = False


def json_answer(value: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, json.dumps(value).encode(), headers)


CUT = Answer(cut=True)


@dataclass
class RecordingServer:
    """Answers by `answer`, and keeps all requests in the order of their arrival."""

    answer: Callable[[Received], Answer]
    port: int = 0
    received: list[Received] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.received]


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed are no error."""


@contextmanager
def recording_server(
    answer: Callable[[Received], Answer] = lambda received: Answer(), tls: ssl.SSLContext | None = None
) -> Iterator[RecordingServer]:
    recording = RecordingServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = urlsplit(self.path)
            received = Received(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query, keep_blank_values=True)),
                {name.lower(): value for name, value in self.headers.items()},
                body,
                self.client_address[1],
                self.path,
            )
            with recording.lock:
                recording.received.append(received)
            answered = recording.answer(received)
            self.send_response(answered.status)
            for name, value in answered.headers.items():
                self.send_header(name.replace("_", "-"), value)
            if answered.status != 304:
                self.send_header("content-length", str(len(answered.body) + 10 * answered.cut))
            self.end_headers()
            self.wfile.write(answered.body)
            if answered.cut:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = handle_any

        def log_message(self, format: str, *args: object) -> None: ...

    with _QuietServer(("127.0.0.1", 0), Handler) as server:
        recording.port = server.server_address[1]
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield recording
        finally:
            server.shutdown()
            thread.join()
