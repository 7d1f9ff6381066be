"""Registries on a cluster, and an HTTP client for them."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from penstock.processes.memory import bound_memory
from penstock.registry.api.server import RegistryServer


class Answer(NamedTuple):
    status: int
    type: str | None
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> int:
        return self.body["error_code"]


def ask(
    url: str, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
) -> Answer:
    """Send a request; ``body`` is JSON, or a text that is sent unchanged."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    sent = {"Content-Type": "application/vnd.schemaregistry.v1+json", **(headers or {})}
    data = body if body is None or isinstance(body, str) else json.dumps(body)
    try:
        connection.request(method, target, data, sent)
        response = connection.getresponse()
        return Answer(response.status, response.getheader("content-type"), response.read().decode())
    finally:
        connection.close()


def avro(name: str, *fields: str) -> dict[str, str]:
    """The body of a registration: a record of longs; fields whose name ends with ? have a default."""
    told = [
        {"name": each.removesuffix("?"), "type": "long", **({"default": 0} if each.endswith("?") else {})}
        for each in fields
    ]
    return {"schema": json.dumps({"type": "record", "name": name, "fields": told})}


def properties(servers: str, name: str) -> dict[str, str]:
    """The properties of a registry that shares a cluster with the registries of other tests."""
    return {
        "kafkastore.bootstrap.servers": servers,
        "kafkastore.topic": f"_schemas-{name}",
        "kafkastore.topic.replication.factor": "1",
        "schema.registry.group.id": f"registry-{name}",
    }


def started(servers: str, name: str, **more: str) -> RegistryServer:
    server = RegistryServer({**properties(servers, name), **more}, port=0)
    server.start()
    return server


class RegistryProcess:
    """A process of `penstock registry start`, as a user starts it."""

    def __init__(self, servers: str, name: str, **more: str) -> None:
        settings = [f"--set={key}={value}" for key, value in {**properties(servers, name), **more}.items()]
        words = ["registry", "start", "--listen", "127.0.0.1:0", "--bootstrap", servers, *settings]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        bound_memory(self._process.pid)
        assert self._process.stdout is not None
        told = ""
        for line in self._process.stdout:
            told += line
            if found := re.search(r"ready at (http://\S+)", line):
                self.url = found[1]
                return
        raise AssertionError(f"the registry did not start:\n{told}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> tuple[int, str]:
        """Stop the process; return its exit code and what it printed since it was ready."""
        assert self._process.stdout is not None
        self._process.terminate()
        rest = self._process.stdout.read()
        return self._process.wait(30), rest
