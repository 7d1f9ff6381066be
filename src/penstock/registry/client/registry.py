"""A registry as its users see it: what is under an id or a subject, remembered as long as it can't change."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.http import Transport
from penstock.registry.client.recent import Recent
from penstock.registry.formats import Reference, Schema, parse
from penstock.registry.formats.references import Found

T = TypeVar("T")

# How long it is remembered that an id is not there: a record's schema is registered before the record is
# written, so an id that a registry doesn't know is a mistake, but a follower of its leader may be behind.
ABSENT_S: Final = 30.0
_AVRO: Final = "AVRO"


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema as the registry tells it. ``subject`` and ``version`` are known where it was asked by them."""

    id: int
    format: str
    text: str
    references: tuple[Reference, ...] = ()
    subject: str | None = None
    version: int | None = None


class RegistryClient:
    """A client that several threads may use. It remembers what the registry holds, and for a while what the
    registry does not have (`Recent`).
    """

    def __init__(
        self,
        config: RegistryConfig,
        transport: Transport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self._transport = transport or Transport(config)
        self._lock = threading.Lock()
        self._known: dict[Hashable, Any] = {}
        self._absent: Recent[Hashable, RegistryRefused] = Recent(ABSENT_S, clock)

    def by_id(self, schema_id: int) -> Registered:
        """Raises RegistryRefused (`is_absence`: there is none), RegistryUnreachable."""
        return self._unless_absent(
            ("id", schema_id), lambda: self._once(("id", schema_id), lambda: self._ask_id(schema_id))
        )

    def version(self, subject: str, version: int) -> Registered:
        """A version of a subject. Raises RegistryRefused, RegistryUnreachable."""
        return self._once(("version", subject, version), lambda: self._ask_version(subject, str(version)))

    def latest(self, subject: str) -> Registered:
        """As it is now: never remembered."""
        return self._ask_version(subject, "latest")

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject that are there now, in order."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = self._transport.get(path)
        if not isinstance(found, list) or not all(isinstance(each, int) for each in found):
            raise _strange(path, "a list of versions", found)
        return sorted(found)

    def subjects_of(self, schema_id: int) -> list[str]:
        """The subjects that an id is registered under now; none where there is no such id. Raises
        RegistryRefused, RegistryUnreachable.
        """
        path = f"/schemas/ids/{schema_id}/subjects"
        try:
            found = self._transport.get(path)
        except RegistryRefused as error:
            if error.is_absence:
                return []
            raise
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise _strange(path, "a list of subjects", found)
        return found

    def alias_of(self, subject: str) -> str | None:
        """The subject that this name stands for now, if it is configured to. Raises RegistryRefused,
        RegistryUnreachable.
        """
        path = f"/config/{quote(subject, safe='')}"
        try:
            found = self._transport.get(path)
        except RegistryRefused as error:
            if error.is_absence:
                return None
            raise
        alias = found.get("alias") if isinstance(found, dict) else found
        if alias is not None and not isinstance(alias, str):
            raise _strange(path, "an object whose alias is text", found)
        return alias or None

    def register(
        self,
        subject: str,
        format: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """The id of a schema under a subject, new or not. Raises RegistryRefused, RegistryUnreachable."""
        path = f"/subjects/{quote(subject, safe='')}/versions" + ("?normalize=true" if normalize else "")
        return self._id_of(path, format, text, tuple(references))

    def registered_id(
        self,
        subject: str,
        format: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """The id of a schema that is registered under the subject. Raises RegistryRefused where it is not."""
        path = f"/subjects/{quote(subject, safe='')}" + ("?normalize=true" if normalize else "")
        return self._id_of(path, format, text, tuple(references))

    def delete_subject(self, subject: str) -> None:
        """Softly; one that is not there is passed over. Raises RegistryRefused, RegistryUnreachable."""
        path = f"/subjects/{quote(subject, safe='')}"
        try:
            self._transport.delete(path)
        except RegistryRefused as error:
            if not error.is_absence:
                raise
        with self._lock:
            for key in list(self._known):
                match key:
                    case ("registered", str(asked), *_) if asked.partition("?")[0] in (
                        path,
                        f"{path}/versions",
                    ):
                        del self._known[key]
                    case ("version", str(named), _) if named == subject:
                        del self._known[key]

    def parsed(self, registered: Registered) -> Schema:
        """With all that it refers to. Raises SchemaError, RegistryRefused, RegistryUnreachable."""
        key = ("parsed", registered.format, registered.text, registered.references)
        return self._once(key, lambda: self._parse(registered))

    def _parse(self, registered: Registered) -> Schema:
        return parse(registered.format, registered.text, registered.references, self._find, is_new=False)

    def _find(self, reference: Reference) -> Found:
        """Raises RegistryRefused for a missing reference, not that the schema is bad: it may come later."""
        subject, version = reference.subject, reference.version
        found = self._unless_absent(
            ("reference", subject, version),
            lambda: self.latest(subject) if version < 0 else self.version(subject, version),
        )
        return Found(found.text, found.references)

    def _id_of(self, path: str, format: str, text: str, references: tuple[Reference, ...]) -> int:
        content: dict[str, object] = {"schema": text}
        if format != _AVRO:
            content["schemaType"] = format
        if references:
            content["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version} for each in references
            ]

        def ask() -> int:
            found = self._transport.post(path, content)
            if not isinstance(found, dict) or not isinstance(found.get("id"), int):
                raise _strange(path, "an object with an id", found)
            made: int = found["id"]
            return made

        return self._once(("registered", path, format, text, references), ask)

    def _ask_id(self, schema_id: int) -> Registered:
        path = f"/schemas/ids/{schema_id}"
        return _registered(path, self._transport.get(path), {"id": schema_id})

    def _ask_version(self, subject: str, version: str) -> Registered:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return _registered(path, self._transport.get(path), {})

    def _unless_absent(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Ask, unless the registry answered lately that there is no such thing. Raises RegistryRefused."""
        refused = self._absent.get(key)
        if refused is not None:
            raise refused.again()
        try:
            return ask()
        except RegistryRefused as error:
            if error.is_absence:
                self._absent.put(key, error.again())
            raise

    def _once(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Errors are not remembered. Two threads may ask the same at once: they hear the same."""
        with self._lock:
            if key in self._known:
                known: T = self._known[key]
                return known
        found = ask()
        with self._lock:
            self._known.setdefault(key, found)
        return found


_shared: dict[tuple[int, RegistryConfig], RegistryClient] = {}


def shared_registry(config: RegistryConfig) -> RegistryClient:
    """The process's client for this configuration; the process id keeps a forked worker off its parent's."""
    key = (os.getpid(), config)
    if key not in _shared:
        _shared[key] = RegistryClient(config)
    return _shared[key]


@dataclass(frozen=True, slots=True)
class _Answer:
    path: str
    content: Mapping[str, Any]

    def take(self, name: str, kind: type, default: Any = None) -> Any:
        found = self.content.get(name, default)
        if found is None or not isinstance(found, kind):
            raise _strange(self.path, f"{name!r} as {kind.__name__}", found)
        return found


def _registered(path: str, content: object, known: Mapping[str, object]) -> Registered:
    if not isinstance(content, dict):
        raise _strange(path, "an object", content)
    answer = _Answer(path, {**content, **known})
    references = answer.take("references", list, [])
    try:
        referred = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in references
        )
    except (KeyError, TypeError, ValueError):
        raise _strange(path, "references of name, subject and version", references) from None
    return Registered(
        id=answer.take("id", int),
        format=answer.take("schemaType", str, _AVRO),
        text=answer.take("schema", str),
        references=referred,
        subject=content.get("subject"),
        version=content.get("version"),
    )


def _strange(path: str, expected: str, found: object) -> RegistryUnreachable:
    return RegistryUnreachable(
        f"the answer to {path} is none of a schema registry: expected {expected}, found {str(found)[:80]!r}"
    )
