"""Makes indices and data streams when records first need them, with a mapping of the records' schema."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from penstock.connect.connectors.http.delivery.redelivery import TryLater
from penstock.connect.connectors.http.exchange.messages import HttpAnswer
from penstock.connect.connectors.http.exchange.refusals import is_transient
from penstock.connect.connectors.search.mapping import mapping_of
from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import ConnectError

_EXISTS_ALREADY: Final = b"resource_already_exists_exception"
_NOT_FOUND: Final = 404


class Indices:
    """The indices that are known to exist. ``ask(method, path, content)`` sends JSON. For any threads."""

    def __init__(
        self, config: Mapping[str, Any], ask: Callable[[str, str, Mapping[str, Any] | None], HttpAnswer]
    ) -> None:
        self._ask = ask
        self._ignores_schema: bool = config["schema.ignore"]
        self._topics_without_schema = frozenset(config["topic.schema.ignore"])
        self._compact_maps: bool = config["compact.map.entries"]
        self._is_stream: bool = config["data.stream.enabled"]
        self._time_field: str = config["data.stream.timestamp.field"]
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def require(self, index: str, topic: str, schema: Schema | None) -> None:
        """Make an index if it does not exist, and give it a mapping if it has none.

        Raises:
            RetriableError: the engine cannot do it now.
            ConnectError: the engine refuses.
        """
        if index in self._known:
            return
        with self._lock:
            if index in self._known:
                return
            is_used = not self._ignores_schema and topic not in self._topics_without_schema
            has_fields = schema is not None and schema.type is Type.STRUCT and is_used
            mapping = mapping_of(schema, compact_maps=self._compact_maps) if schema and has_fields else None
            if self._is_stream:
                self._require_stream(index, mapping)
            else:
                self._require_index(index, mapping)
            self._known.add(index)

    def _require_index(self, index: str, mapping: Mapping[str, Any] | None) -> None:
        path = f"/{quote(index, safe='')}"
        found = self._checked("GET", f"{path}/_mapping", None)
        if found is None:
            self._checked("PUT", path, {"mappings": mapping} if mapping else {})
        elif mapping and not any(each.get("mappings") for each in found.values()):
            self._checked("PUT", f"{path}/_mapping", mapping)

    def _require_stream(self, name: str, mapping: Mapping[str, Any] | None) -> None:
        path = quote(name, safe="")
        if self._checked("GET", f"/_data_stream/{path}", None) is not None:
            return
        field = {"timestamp_field": {"name": self._time_field}} if self._time_field != "@timestamp" else {}
        template = {"mappings": with_time(mapping or {}, self._time_field)}
        content = {"index_patterns": [name], "data_stream": field, "priority": 200, "template": template}
        self._checked("PUT", f"/_index_template/{path}-template", content)
        self._checked("PUT", f"/_data_stream/{path}", None)

    def _checked(self, method: str, path: str, content: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the engine's answer, or None if there is no such thing."""
        answer = self._ask(method, path, content)
        if answer.is_success:
            found: dict[str, Any] = json.loads(answer.body)
            return found
        if method == "GET" and answer.status == _NOT_FOUND:
            return None
        if _EXISTS_ALREADY in answer.body:
            return {}  # another task was faster
        problem = f"{method} {path} was refused with {answer}"
        raise TryLater(problem) if is_transient(answer.status) else ConnectError(problem)


def with_time(mapping: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a mapping in which the field of a data stream's time is a date."""
    return {**mapping, "properties": {**mapping.get("properties", {}), field: {"type": "date"}}}
