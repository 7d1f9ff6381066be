"""Signed requests to the group's leader, which only workers can make (KIP-507)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from penstock.connect.errors import ConnectError
from penstock.connect.herding.worker_client import WorkerClient, WorkerUnreachable
from penstock.connect.stores.configs.records import Properties

_TEMPORARY: Final = (403, 409, 503)
"""Statuses of a worker that has another session key, does not lead any more, or has just started."""


class LeaderAway(ConnectError):
    """No leader is known or answers at the moment, or the worker that was asked does not lead any more."""


class LeaderRefused(ConnectError):
    """The leader refused a request for good."""


class LeaderRequests:
    """Sends requests to the leader. For any threads.

    Args:
        sign: returns the headers that sign a body; none if the group's protocol does not sign requests.
    """

    def __init__(self, client: WorkerClient, sign: Callable[[bytes], Mapping[str, str]]) -> None:
        self._client = client
        self._sign = sign

    def put_task_configs(self, leader_url: str | None, connector: str, configs: Sequence[Properties]) -> None:
        """Let the leader write the task configurations of a connector. Raises LeaderAway, LeaderRefused."""
        body = json.dumps([dict(config) for config in configs]).encode()
        self._send(leader_url, "POST", f"connectors/{quote(connector, safe='')}/tasks", body)

    def fence(self, leader_url: str | None, connector: str) -> None:
        """Let the leader fence the former tasks of a connector. Raises LeaderAway and LeaderRefused."""
        self._send(leader_url, "PUT", f"connectors/{quote(connector, safe='')}/fence", b"")

    def _send(self, leader_url: str | None, method: str, path: str, body: bytes) -> None:
        if not leader_url:
            raise LeaderAway(f"{method} {path} was not sent: the leader's URL is not known at the moment")
        url = f"{leader_url.rstrip('/')}/{path}"
        try:
            answer = self._client.ask(method, url, body, self._sign(body))
        except WorkerUnreachable as error:
            raise LeaderAway(str(error)) from error
        if answer.status in _TEMPORARY:
            raise LeaderAway(answer.message)
        if answer.status >= 300:
            raise LeaderRefused(answer.message)
