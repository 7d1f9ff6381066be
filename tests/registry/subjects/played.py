"""A registry that replays its decisions at once, as its leader does, and helpers to compare its state."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

import pytest

from penstock.registry.subjects import Decision, Record, Registry, RequestRefused, Settings

STRING = '"string"'
INT = '"int"'


def record(*fields: str, name: str = "R", default: object = None) -> str:
    """An Avro record of fields `name:type`; ``default`` is the last one's."""
    read = [dict(zip(("name", "type"), each.split(":"), strict=True)) for each in fields]
    if default is not None:
        read[-1]["default"] = default
    return json.dumps({"type": "record", "name": name, "fields": read}, separators=(",", ":"))


class Played(Registry):
    """A registry that keeps the log it wrote."""

    def __init__(self, settings: Settings | None = None, log: Iterable[Record] = ()) -> None:
        super().__init__(settings)
        self.log: list[Record] = []
        for each in log:
            self.write(each)

    def write(self, record: Record) -> None:
        reason = self.replay(record.key, record.value, timestamp_ms=1_000 + len(self.log))
        assert reason is None, reason
        self.log.append(record)

    def do(self, decision: Decision) -> object:
        for each in decision.records:
            self.write(each)
        return decision.answer

    def put(self, subject: str, schema: str, **body: object) -> dict:
        """Register the schema and return the answer."""
        return self.do(self.register(subject, {"schema": schema, **body}))

    def ids(self, subject: str, *schemas: str) -> list[int]:
        return [self.put(subject, each)["id"] for each in schemas]


def shown(registry: Registry) -> dict:
    """The whole visible state, except the times of records."""
    schemas = registry.schemas(subject_prefix=":*:", deleted=True)
    schemas = [{"subject": "", **each} for each in schemas]  # answers leave out empty fields
    subjects = sorted({each["subject"] for each in schemas})
    settings = [None, ":.__GLOBAL:", ":.c:", *subjects]
    return {
        "schemas": [{name: each[name] for name in each if name != "ts"} for each in schemas],
        "latest": [each["version"] for each in registry.schemas(subject_prefix=":*:", latest_only=True)],
        "subjects": [registry.subjects(), registry.subjects(deleted_only=True)],
        "contexts": registry.contexts(),
        "configs": [registry.config(each, default_to_global=True) for each in settings],
        "modes": [registry.mode(each, default_to_global=True) for each in settings],
        "guids": {each["guid"]: registry.ids_of_guid(each["guid"]) for each in schemas},
        "ids": [
            registry.versions_of_id(each["id"], subject=each["subject"], deleted=True) for each in schemas
        ],
        "referrers": [
            registry.referenced_by(each["subject"], str(each["version"]), deleted=True) for each in schemas
        ],
    }


class refused:
    """A context whose block must be refused with this code; the error must contain ``message``."""

    def __init__(self, code: int, message: str = "") -> None:
        self._raises = pytest.raises(RequestRefused)
        self._code, self._message = code, message

    def __enter__(self) -> None:
        self._info = self._raises.__enter__()

    def __exit__(self, *error: object) -> bool:
        swallowed = self._raises.__exit__(*error)
        assert (self._info.value.code, self._message in self._info.value.message) == (self._code, True), (
            self._info.value
        )
        return bool(swallowed)


def calls(question: Callable[[], object]) -> int:
    """The number of function calls for an answer: a measure of work that is the same on all machines."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        question()
    finally:
        sys.setprofile(before)
    return count
