"""A schema registry for tests of its clients: the few endpoints that they ask, in memory, over real HTTP."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from penstock.registry.formats import parse

_NUMBERS = itertools.count(1)
"""Differs in each process: clients would otherwise apply cached answers to another registry at that address.
"""


class SmallRegistry:
    """``requests``: the requests in order. ``failures``: statuses to answer with first."""

    def __init__(self, user_info: str | None = None, authorization: str | None = None) -> None:
        self.schemas: dict[int, dict] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.failures: list[int] = []
        if user_info is not None:
            authorization = "Basic " + base64.b64encode(user_info.encode()).decode()
        self._authorization = authorization
        high, low = divmod(next(_NUMBERS), 256)
        host = f"127.77.{high}.{low}"
        self._server = ThreadingHTTPServer((host, 0), self._handler())
        self.url = f"http://{host}:{self._server.server_port}"

    def add(self, subject: str, text: str, format: str = "AVRO", references: list[dict] | None = None) -> int:
        """The schema's id: as in a real one, the same schema has the same id under every subject."""
        content = {"schema": text, "schemaType": format, "references": references or []}
        known = next((n for n, each in self.schemas.items() if each == content), None)
        number = len(self.schemas) + 1 if known is None else known
        self.schemas[number] = content
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number

    @contextmanager
    def running(self) -> Iterator[SmallRegistry]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def answer(self, method: str, path: str, body: dict) -> tuple[int, object]:
        match [unquote(each) for each in path.strip("/").split("/")]:
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["schemas", "ids", number]:
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            case ["schemas"]:
                return 200, [self._version(each, "latest")[1] for each in self.subjects]
            case ["subjects", subject, "versions"] if method == "POST":
                number = self.add(
                    subject, body["schema"], body.get("schemaType", "AVRO"), body.get("references")
                )
                return 200, {"id": number}
            case ["subjects", subject, *_] if subject not in self.subjects:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case ["subjects", subject, "versions"]:
                return 200, [*range(1, len(self.subjects[subject]) + 1)]
            case ["subjects", subject, "versions", version]:
                return self._version(subject, version)
            case ["subjects", subject] if method == "POST":
                for version, number in enumerate(self.subjects[subject], 1):
                    if self.schemas[number]["schema"] == body["schema"]:
                        return 200, {"id": number, "subject": subject, "version": version}
                return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _version(self, subject: str, version: str) -> tuple[int, object]:
        numbers = self.subjects[subject]
        at = len(numbers) if version == "latest" else int(version)
        if not 0 < at <= len(numbers):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        number = numbers[at - 1]
        return 200, {"id": number, "subject": subject, "version": at, **self.schemas[number]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self
        expected = self._authorization

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                registry.requests.append(f"{self.command} {self.path}")
                if registry.failures:
                    status, content = registry.failures.pop(0), {"error_code": 50001, "message": "not now"}
                elif expected is not None and self.headers.get("Authorization") != expected:
                    status, content = 401, {"error_code": 401, "message": "Unauthorized"}
                else:
                    path = urlsplit(self.path).path
                    status, content = registry.answer(self.command, path, json.loads(body or b"{}"))
                    if "format=serialized" in self.path and content.get("schemaType") == "PROTOBUF":
                        text = parse("PROTOBUF", content["schema"]).formatted("serialized")
                        content = {**content, "schema": text}
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        return Handler
