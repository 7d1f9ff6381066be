"""The commands' client of a Connect worker, ours or Apache Kafka's, with its error reports."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

import typer

from penstock.cli.connection import EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE, fail
from penstock.cli.wrong_server import serves_kafka
from penstock.connect.herding.worker_client import WorkerAnswer, WorkerClient, WorkerUnreachable

DEFAULT_URL: Final = "http://127.0.0.1:8083"
_REBALANCE: Final = "because a rebalance is expected"
"""How workers refuse requests for a moment after each change of a configuration."""
_REBALANCE_S: Final = 30.0
_REBALANCE_WAIT_S: Final = 0.1

Url = Annotated[
    str,
    typer.Option(
        "--connect",
        envvar="PENSTOCK_CONNECT",
        metavar="URL",
        help="A worker of Connect, ours or Apache Kafka's; USER:PASSWORD@ before the host logs in.",
    ),
]


class Worker:
    """The worker of one command. A refused request ends the command with the worker's message."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host:
            fail("--connect is no URL of a worker, expected http://HOST:PORT", EXIT_USAGE)
        self._host, self._port = host, port or (443 if parts.scheme == "https" else 80)
        self._root = urlunsplit(
            (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
        )
        self._headers = {}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._client = WorkerClient()

    def get(self, *segments: str, **query: str | bool) -> Any:
        return self._ask("GET", segments, query)

    def post(self, *segments: str, body: object = None, **query: str | bool) -> Any:
        return self._ask("POST", segments, query, body)

    def put(self, *segments: str, body: object = None) -> Any:
        return self._ask("PUT", segments, {}, body)

    def patch(self, *segments: str, body: object) -> Any:
        return self._ask("PATCH", segments, {}, body)

    def delete(self, *segments: str) -> Any:
        return self._ask("DELETE", segments, {})

    def _ask(
        self, method: str, segments: tuple[str, ...], query: Mapping[str, str | bool], body: object = None
    ) -> Any:
        """Return the JSON of the answer, None if it has none."""
        path = f"/{'/'.join(quote(segment, safe='') for segment in segments)}"
        asked = urlencode({name: str(value).lower() for name, value in query.items()})
        url = f"{self._root}{path}?{asked}" if asked else self._root + path
        data = None if body is None else json.dumps(body).encode()
        deadline_s = time.monotonic() + _REBALANCE_S
        try:
            found = self._client.ask(method, url, data, self._headers)
            while _waits_for_rebalance(found) and time.monotonic() < deadline_s:
                time.sleep(_REBALANCE_WAIT_S)
                found = self._client.ask(method, url, data, self._headers)
        except WorkerUnreachable as error:
            self._unreachable(str(error.__cause__ or error))
        return self._result(found)

    def _result(self, found: WorkerAnswer) -> Any:
        if found.status // 100 != 2:
            fail(f"{found.message} ({found.status})", EXIT_REFUSED)
        if not found.body:
            return None
        try:
            return json.loads(found.body)
        except ValueError:
            self._unreachable(f"expected JSON, found {found.body[:80]!r}")

    def _unreachable(self, reason: str) -> NoReturn:
        if serves_kafka(self._host, self._port):
            reason = f"{self._host}:{self._port} is a Kafka listener"
        fail(
            f"no worker of Connect answers at {self._root}: {reason}. `penstock connect start` starts one; "
            "--connect or PENSTOCK_CONNECT names another.",
            EXIT_UNREACHABLE,
        )


def _waits_for_rebalance(answer: WorkerAnswer) -> bool:
    return answer.status // 100 != 2 and _REBALANCE in answer.message
