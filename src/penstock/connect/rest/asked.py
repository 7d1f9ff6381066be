"""Parses the parameters and the body of a request as Kafka Connect does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from starlette.datastructures import Headers

from penstock.connect.herding.entities import Properties
from penstock.connect.rest.answers import RequestRefused
from penstock.connect.stores.configs.model import TargetState
from penstock.connect.stores.offsets.connector_offsets import ConnectorOffset
from penstock.connect.task_id import ConnectorTaskId

_TASK: Final = re.compile(r"[+-]?[0-9]+")
_CONTROL: Final = "".join(map(chr, range(33)))
"""The characters that Java's String.trim removes."""
_INITIAL_STATES: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as received. ``path`` is not decoded, and ``parameters`` are those of the path, decoded.

    ``base_url`` is the URL of this server as the client knows it. Methods raise RequestRefused. A body in
    another form than expected is status 500, as in Kafka Connect.
    """

    base_url: str
    method: str
    path: str
    parameters: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    headers: Headers
    body: bytes

    @property
    def connector(self) -> str:
        return self.parameters["connector"]

    @property
    def task(self) -> ConnectorTaskId:
        """The task of the path. A number that Java cannot parse is an unknown path."""
        text = self.parameters["task"]
        if not _TASK.fullmatch(text) or not -(1 << 31) <= int(text) < 1 << 31:
            raise RequestRefused(404, "HTTP 404 Not Found")
        return ConnectorTaskId(self.connector, int(text))

    def word(self, name: str, default: str) -> str:
        """The first value of a parameter of the query."""
        return next((value for key, value in self.query if key == name), default)

    def is_set(self, name: str, *, default: bool = False) -> bool:
        """Whether a parameter of the query is ``true``; every other text is false."""
        text = self.word(name, "")
        return text.lower() == "true" if text else default

    @property
    def forward(self) -> bool | None:
        """Whether the request may be forwarded; None if a client sent it, so that it may be twice."""
        text = self.word("forward", "")
        return text.lower() == "true" if text else None

    # Bodies

    def json(self, *, exact_numbers: bool = False) -> Any:
        """The body; None if it is empty. Numbers may be kept as the texts in which they were sent."""
        if not self.body.strip():
            return None
        numbers: dict[str, Any] = {"parse_int": str, "parse_float": str} if exact_numbers else {}
        try:
            return json.loads(self.body, parse_constant=_not_json, **numbers)
        except (ValueError, RecursionError) as error:
            raise RequestRefused(500, f"the body is not JSON: {error}") from None

    def properties(self) -> dict[str, str | None]:
        """The body as a map of texts. Numbers and booleans become texts."""
        return _properties(self.json(exact_numbers=True), "the body")

    def list_of_properties(self) -> list[Properties]:
        """The body as a list of such maps."""
        found = self.json(exact_numbers=True)
        if not isinstance(found, list):
            raise RequestRefused(500, f"the body is {_kind(found)}, expected an array of objects")
        return [_properties(each, f"element {index}") for index, each in enumerate(found)]

    def new_connector(self) -> tuple[str, dict[str, str | None], TargetState | None]:
        """The body as a connector to create: its name, configuration and first state."""
        found = _object(self.json(exact_numbers=True), "the body", ("name", "config", "initial_state"))
        name, state = found.get("name"), found.get("initial_state")
        name = "" if name is None else _text(name, "'name'").strip(_CONTROL)
        config = _properties(found.get("config"), "'config'")
        if state is None:
            return name, config, None
        known = _INITIAL_STATES.get(_text(state, "'initial_state'").upper())
        if known is None:
            expected = ", ".join(_INITIAL_STATES)
            raise RequestRefused(500, f"'initial_state' is {state!r}, expected one of {expected}")
        return name, config, known

    def offsets(self) -> list[ConnectorOffset]:
        """The body as offsets of partitions; the last offset of each partition counts."""
        found = _object(self.json(), "the body", ("offsets",)).get("offsets")
        if not isinstance(found, list | None):
            raise RequestRefused(500, f"'offsets' is {_kind(found)}, expected an array")
        if not found:
            refusal = "Partitions / offsets need to be provided for an alter offsets request"
            raise RequestRefused(400, refusal)
        offsets: dict[str, ConnectorOffset] = {}
        for index, each in enumerate(found):
            entry = _object(each, f"offset {index}", ("partition", "offset"))
            partition, offset = entry.get("partition"), entry.get("offset")
            for name, part in (("partition", partition), ("offset", offset)):
                if not isinstance(part, dict | None):
                    told = f"'{name}' of offset {index} is {_kind(part)}, expected an object"
                    raise RequestRefused(500, told)
            if partition is None:
                raise RequestRefused(400, f"the partition of offset {index} is null, expected an object")
            offsets[json.dumps(partition, sort_keys=True)] = ConnectorOffset(partition, offset)
        return list(offsets.values())


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _object(found: Any, name: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise RequestRefused(500, f"{name} is {_kind(found)}, expected an object")
    unknown = [key for key in found if key not in known]
    if unknown:
        expected = ", ".join(f"'{key}'" for key in known)
        raise RequestRefused(500, f"{name} has the unknown field '{unknown[0]}', expected {expected}")
    return found


def _properties(found: Any, name: str) -> dict[str, str | None]:
    if not isinstance(found, dict):
        raise RequestRefused(500, f"{name} is {_kind(found)}, expected an object")
    return {key: None if value is None else _text(value, f"'{key}'") for key, value in found.items()}


def _text(value: Any, name: str) -> str:
    """The text of a JSON scalar. Numbers are texts already."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    raise RequestRefused(500, f"{name} is {_kind(value)}, expected a text")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a text", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
