"""The commands' client of a Connect worker, ours or Apache Kafka's, with its error reports."""

from __future__ import annotations

from typing import Annotated, Any, Final, NoReturn

import typer

from penstock.cli.connection import EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE, fail
from penstock.cli.wrong_server import serves_kafka
from penstock.connect.client import ConnectClient, InvalidUrl, WorkerRefused, WorkerUnreachable

DEFAULT_URL: Final = "http://127.0.0.1:8083"

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
        try:
            self._client = ConnectClient(url)
        except InvalidUrl:
            fail("--connect is no URL of a worker, expected http://HOST:PORT", EXIT_USAGE)

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
        self, method: str, segments: tuple[str, ...], query: dict[str, str | bool], body: object = None
    ) -> Any:
        """Return the JSON of the answer, None if it has none."""
        try:
            return self._client.ask(method, segments, query, body)
        except WorkerRefused as error:
            fail(f"{error.message} ({error.status})", EXIT_REFUSED)
        except WorkerUnreachable as error:
            self._unreachable(str(error.__cause__ or error))

    def _unreachable(self, reason: str) -> NoReturn:
        host, port = self._client.host, self._client.port
        if serves_kafka(host, port):
            reason = f"{host}:{port} is a Kafka listener"
        fail(
            f"no worker of Connect answers at {self._client.root}: {reason}. `penstock connect start` starts "
            "one; --connect or PENSTOCK_CONNECT names another.",
            EXIT_UNREACHABLE,
        )
