"""A client of the views' HTTP API, and the processes that serve it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from penstock.processes.memory import bound_memory


class Reply(NamedTuple):
    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def error(self) -> str:
        return self.body["error"]["code"]


def ask(endpoint: str, path: str, headers: dict[str, str] | None = None, **parameters: object) -> Reply:
    """Send one GET on a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)
    query = urlencode({name: str(value) for name, value in parameters.items()})
    connection.request("GET", f"{path}?{query}" if query else path, headers=headers or {})
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return Reply(response.status, body, {name.lower(): value for name, value in response.getheaders()})


def ask_key(endpoint: str, store: str, key: str, **parameters: object) -> Reply:
    return ask(endpoint, f"/stores/{store}/keys/{quote(key, safe='')}", **parameters)


class NodeProcess:
    """A process of `views_node.py` with these arguments, killed at the end if it still runs."""

    def __init__(self, servers: str, name: str, topic: str, *, standbys: int, session_ms: int) -> None:
        script = Path(__file__).with_name("views_node.py")
        words = [servers, name, topic, str(standbys), str(session_ms)]
        self.process = subprocess.Popen(
            [sys.executable, str(script), *words], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        bound_memory(self.process.pid)
        self.endpoint = ""

    def wait_until_listening(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("http://"), f"the node did not start: {line!r}"
        self.endpoint = line.strip()

    def health(self) -> dict[str, Any]:
        return ask(self.endpoint, "/health").body

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(30)
