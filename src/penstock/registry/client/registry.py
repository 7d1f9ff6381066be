"""Look up schemas by id or subject, and cache every answer that can't change."""

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

# How long a missing id stays cached. A schema is registered before the first record that uses it, so an
# unknown id is usually a mistake, but a follower of the registry's leader may lag behind.
ABSENT_S: Final = 30.0
_AVRO: Final = "AVRO"


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema as returned by the registry.

    ``subject`` and ``version`` are set if the request named them.
    """

    id: int
    format: str
    text: str
    references: tuple[Reference, ...] = ()
    subject: str | None = None
    version: int | None = None


class RegistryClient:
    """A client that several threads may use.

    It caches the schemas that the registry has, and for a while the absence of others (`Recent`).
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
        """Return the schema with this id.

        Raises RegistryRefused (with `is_absence` if there is no such id) or RegistryUnreachable.
        """
        return self._unless_absent(
            ("id", schema_id), lambda: self._once(("id", schema_id), lambda: self._ask_id(schema_id))
        )

    def version(self, subject: str, version: int) -> Registered:
        """Return one version of a subject. Raises RegistryRefused or RegistryUnreachable."""
        return self._once(("version", subject, version), lambda: self._ask_version(subject, str(version)))

    def latest(self, subject: str) -> Registered:
        """Return the latest version of a subject. The answer is never cached."""
        return self._ask_version(subject, "latest")

    def versions(self, subject: str) -> list[int]:
        """Return the version numbers that a subject has now, in ascending order."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = self._transport.get(path)
        if not isinstance(found, list) or not all(isinstance(each, int) for each in found):
            raise _strange(path, "a list of versions", found)
        return sorted(found)

    def subjects_of(self, schema_id: int) -> list[str]:
        """Return the subjects under which an id is registered now; empty if there is no such id.

        Raises RegistryRefused or RegistryUnreachable.
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
        """Return the subject that this name is an alias of now, or None if it is no alias.

        Raises RegistryRefused or RegistryUnreachable.
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
        """Register a schema, unless it already is, and return its id.

        Raises RegistryRefused or RegistryUnreachable.
        """
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
        """Return the id of a schema under a subject. Raises RegistryRefused if it is not registered there."""
        path = f"/subjects/{quote(subject, safe='')}" + ("?normalize=true" if normalize else "")
        return self._id_of(path, format, text, tuple(references))

    def delete_subject(self, subject: str) -> None:
        """Soft-delete a subject; do nothing if it does not exist.

        Raises RegistryRefused or RegistryUnreachable.
        """
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
        """Parse a schema with its references. Raises SchemaError, RegistryRefused or RegistryUnreachable."""
        key = ("parsed", registered.format, registered.text, registered.references)
        return self._once(key, lambda: self._parse(registered))

    def _parse(self, registered: Registered) -> Schema:
        return parse(registered.format, registered.text, registered.references, self._find, is_new=False)

    def _find(self, reference: Reference) -> Found:
        """Look up a reference. A missing one raises RegistryRefused, as it may be registered later."""
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
        """Send the request unless a recent answer said that nothing is there. Raises RegistryRefused."""
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
        """Return the cached answer or ask for it. Errors are not cached.

        Two threads may ask at the same time; both requests give the same answer.
        """
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
    """Return the process's client for this configuration.

    The key contains the process id, so that a forked worker does not use its parent's client.
    """
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
        f"the answer to {path} is not that of a schema registry: expected {expected}, "
        f"found {str(found)[:80]!r}"
    )
