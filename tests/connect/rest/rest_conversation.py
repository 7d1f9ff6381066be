"""A small language for Connect's REST API: requests to a worker and, indented below each, the answer.

    METHOD PATH                     a request; lines indented by two spaces are its headers and its body
    write FILE                      a file of these indented lines, in the directory of the conversation
    read FILE                       the lines of a file

Words before these: `status` shows nothing but the status of an answer, `headers` shows more headers,
`errors` shows a validated configuration by its errors, `names` shows the field `name` of each element of a
list, and `until TEXT` repeats the request until the answer has that text. Words are quoted as in a shell.
Bodies are JSON unless a header says otherwise. Lines that begin with # are prose.

Placeholders stand for what differs between workers: <dir>, <base>, <worker>, <cluster>, <version>, <commit>,
<class>, <time> and <trace>.
"""

import http.client
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PART, ANSWER = "  ", "    "
HEADER = re.compile(r"([A-Za-z-]+): ?(.*)")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
QUIET_HEADERS = {"date", "server", "content-length", "content-type", "connection"}
SHOWN_HEADERS = {"location", "allow"}
JSON = "application/json"
WIDTH = 100
UNTIL_S, PAUSE_S = 60.0, 0.05
Answer = tuple[int, list[tuple[str, str]], bytes]
"""The status, the headers in order of their names, and the body."""


def converse(script: str, base_url: str, directory: Path) -> str:
    """The script with the answers of the worker at this URL, whose files are in the directory."""
    talk = Conversation(base_url.rstrip("/"), directory)
    return "\n".join(line for block in blocks(script) for line in talk.lines(block)) + "\n"


@dataclass
class Block:
    """A line of the script with the lines indented below it, without the recorded answer."""

    line: str
    parts: list[str] = field(default_factory=list)


def blocks(script: str) -> Iterator[Block]:
    block = None
    for line in script.splitlines():
        if line.startswith(ANSWER) and block is not None:
            continue
        if line.startswith(PART) and block is not None:
            block.parts.append(line.removeprefix(PART))
            continue
        if block is not None:
            yield block
        block = Block(line)
    if block is not None:
        yield block


class Conversation:
    def __init__(self, base_url: str, directory: Path) -> None:
        self._base_url = base_url
        self._directory = directory
        self._address = urlsplit(base_url).netloc
        self._cluster = json.loads(self._request("GET", "/", {}, b"")[2])["kafka_cluster_id"]

    def lines(self, block: Block) -> Iterator[str]:
        yield block.line
        yield from (PART + part for part in block.parts)
        if block.line and not block.line.startswith("#"):
            yield from (ANSWER + line for line in self._answer(shlex.split(block.line), block.parts))

    def _answer(self, words: list[str], parts: list[str]) -> list[str]:
        match words:
            case ["until", text, *rest]:
                return self._until(text, lambda: self._answer(rest, parts))
            case ["write", name]:
                (self._directory / name).write_text("".join(f"{part}\n" for part in parts))
                return []
            case ["read", name]:
                path = self._directory / name
                return path.read_text().splitlines() if path.exists() else []
            case [*modes, method, path] if method in METHODS:
                return self._show(modes, *self._send(method, path, parts))
        raise ValueError(f"unknown command {words}")

    def _until(self, text: str, answer: Callable[[], list[str]]) -> list[str]:
        deadline_s = time.monotonic() + UNTIL_S
        while True:
            found = answer()
            if text in "\n".join(found):
                return found
            assert time.monotonic() < deadline_s, f"{text!r} is not in the answer: {found}"
            time.sleep(PAUSE_S)

    def _send(self, method: str, path: str, parts: list[str]) -> Answer:
        headers: dict[str, str] = {}
        while parts and (found := HEADER.fullmatch(parts[0])):
            headers[found[1]] = found[2]
            parts = parts[1:]
        body = "\n".join(parts).replace("<dir>", str(self._directory)).encode()
        if body:
            headers.setdefault("Content-Type", "application/json")
        return self._request(method, path, {name: text for name, text in headers.items() if text}, body)

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self._address, timeout=UNTIL_S)
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            found = sorted((name.lower(), text) for name, text in answer.getheaders())
            return answer.status, found, answer.read()
        finally:
            connection.close()

    def _show(self, modes: list[str], status: int, headers: list[tuple[str, str]], body: bytes) -> list[str]:
        if "status" in modes:
            return [str(status)]
        names = {name for name, _ in headers}
        wanted = names - QUIET_HEADERS if "headers" in modes else SHOWN_HEADERS
        lines = [str(status), *(f"{name}: {_shown(name, text)}" for name, text in headers if name in wanted)]
        if body and dict(headers).get("content-type", JSON).startswith(JSON):
            found = _without_noise(json.loads(self._with_placeholders(body.decode())))
            lines += _pretty(_by_mode(modes, found)).splitlines()
        return [self._with_placeholders(line) for line in lines]

    def _with_placeholders(self, line: str) -> str:
        for text, placeholder in (
            (self._base_url, "<base>"),
            (self._address, "<worker>"),
            (self._cluster, "<cluster>"),
            (str(self._directory), "<dir>"),
        ):
            line = line.replace(text, placeholder)
        return line


def _by_mode(modes: list[str], found: Any) -> Any:
    if "errors" in modes and "configs" in found:
        values = [config["value"] for config in found["configs"] if config["value"] is not None]
        found["configs"] = {each["name"]: each["errors"] for each in values if each["errors"]}
    if "names" in modes:
        return sorted(each["name"] for each in found)
    return found


def _without_noise(found: Any) -> Any:
    """The answer with placeholders for what depends on the time, on the release and on the language."""
    if isinstance(found, list):
        return [_without_noise(each) for each in found]
    if not isinstance(found, dict):
        return found
    hidden = {"task.class": "<class>", "trace": "<trace>", "commit": "<commit>"}
    if "commit" not in found:
        hidden["version"] = "<version>"
    if found.get("last_modified") is not None:
        hidden["last_modified"] = "<time>"
    return {name: hidden.get(name) or _without_noise(each) for name, each in found.items()}


def _shown(name: str, text: str) -> str:
    """The value of a header. Methods are sorted, since Java's order is that of a set."""
    if name == "expires":
        return "<date>"
    words = [each.strip() for each in text.split(",")]
    return ", ".join(sorted(words)) if set(words) <= set(METHODS) else text


def _pretty(found: Any, indentation: str = "") -> str:
    """JSON in one line, or with a line for each element if that would be too long."""
    text = json.dumps(found, ensure_ascii=False, sort_keys=True)
    if len(indentation) + len(text) <= WIDTH or not isinstance(found, dict | list) or not found:
        return text
    deeper = indentation + "  "
    if isinstance(found, dict):
        parts = [f"{json.dumps(key)}: {_pretty(found[key], deeper)}" for key in sorted(found)]
    else:
        parts = [_pretty(each, deeper) for each in found]
    inner = f",\n{deeper}".join(parts)
    first, last = "{}" if isinstance(found, dict) else "[]"
    return f"{first}\n{deeper}{inner}\n{indentation}{last}"
