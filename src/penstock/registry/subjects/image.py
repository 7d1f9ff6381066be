"""The state that the records of `_schemas` describe.

A record may be replayed twice, and a compacted topic gives the same image as the whole one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.registry.subjects import records
from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.errors import RequestRefused
from penstock.registry.subjects.names import DEFAULT_CONTEXT, Name, beside, context_of, covers
from penstock.registry.subjects.records import (
    ContextKey,
    SchemaKey,
    SchemaValue,
    SubjectKey,
    UnreadableRecord,
)


@dataclass
class ContextIds:
    """The ids of a context: the versions of each id, and the greatest id ever used.

    One id may belong to versions in very many subjects: for example, all topics with string keys share one.
    """

    versions: dict[int, dict[str, set[int]]] = field(default_factory=lambda: defaultdict(dict))
    by_fingerprint: dict[bytes, set[int]] = field(default_factory=lambda: defaultdict(set))
    greatest: int = 0

    def limited_to(self, subjects: Collection[str]) -> ContextIds:
        made = ContextIds()
        for id, named in self.versions.items():
            if seen := {subject: numbers for subject, numbers in named.items() if subject in subjects}:
                made.versions[id] = seen
        for fingerprint, ids in self.by_fingerprint.items():
            if known := ids & made.versions.keys():
                made.by_fingerprint[fingerprint] = known
        made.greatest = max(made.versions, default=0)
        return made


class Image:
    """Subjects, versions, ids, configurations, modes and contexts, and the references between schemas."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaValue]] = {}
        self.configs: dict[str | None, Config] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: set[str] = set()
        self.referrers: dict[SchemaKey, set[SchemaKey]] = defaultdict(set)
        self._ids: dict[str, ContextIds] = defaultdict(ContextIds)
        # Called when a version was removed or replaced, since references to it may now mean another schema.
        self.on_removal: Callable[[], None] = lambda: None

    # Replaying records.

    def replay(self, key: bytes | None, value: bytes | None, timestamp_ms: int | None) -> str | None:
        """Apply a record, and return the reason if it was skipped."""
        try:
            read = records.read_key(key)
            match read:
                case SchemaKey():
                    return self._replay_schema(read, value, timestamp_ms)
                case ContextKey():
                    self._replay_context(read, value)
                case SubjectKey("CONFIG" | "MODE"):
                    self._replay_setting(read, value)
                case SubjectKey("DELETE_SUBJECT") if value is not None and read.subject is not None:
                    self._delete_softly(read.subject, records.read_last_deleted(value))
                case SubjectKey("CLEAR_SUBJECT") if value is not None:
                    self._forget_deleted(read.subject)
        except (UnreadableRecord, RequestRefused) as error:
            return str(error)
        return None

    def _replay_schema(self, key: SchemaKey, value: bytes | None, timestamp_ms: int | None) -> str | None:
        if value is None:
            self._remove(key)
            return None
        read = records.read_schema(key, value, timestamp_ms)
        # all values of an id are alike
        same_id = next(self.values_of_id(context_of(key.subject), read.id), None)
        if same_id is not None and same_id.schema != read.schema:
            return f"{key}: the id {read.id} belongs to another schema"
        self._put(read)
        return None

    def _replay_setting(self, key: SubjectKey, value: bytes | None) -> None:
        if key.keytype == "CONFIG":
            if value is None:
                self.configs.pop(key.subject, None)
            else:
                self.configs[key.subject] = records.read_config(value)
        elif value is None:
            self.modes.pop(key.subject, None)
        else:
            self.modes[key.subject] = records.read_mode(value)

    def _replay_context(self, key: ContextKey, value: bytes | None) -> None:
        if value is None:
            self.contexts.discard(key.context)
        else:
            self.contexts.add(key.context)

    def _put(self, value: SchemaValue) -> None:
        known = self.subjects.get(value.subject, {}).get(value.version)
        if known is not None:
            self._take_out(known)
            if not known.says_as(value):
                self.on_removal()
        self.subjects.setdefault(value.subject, {})[value.version] = value
        ids = self._ids[context_of(value.subject)]
        ids.versions[value.id].setdefault(value.subject, set()).add(value.version)
        ids.by_fingerprint[value.fingerprint].add(value.id)
        ids.greatest = max(ids.greatest, value.id, 1)
        for key in targets(value):
            self.referrers[key].add(value.key)

    def _remove(self, key: SchemaKey) -> None:
        value = self.subjects.get(key.subject, {}).get(key.version)
        if value is not None:
            self._take_out(value)
            self.on_removal()

    def _take_out(self, value: SchemaValue) -> None:
        key = value.key
        versions = self.subjects[key.subject]
        del versions[key.version]
        if not versions:
            del self.subjects[key.subject]
        context = context_of(key.subject)
        ids = self._ids[context]
        of_subject = ids.versions[value.id][key.subject]
        of_subject.discard(key.version)
        if not of_subject:
            del ids.versions[value.id][key.subject]
        if not ids.versions[value.id]:
            del ids.versions[value.id]
        fingerprint = value.fingerprint
        if all(each.fingerprint != fingerprint for each in self.values_of_id(context, value.id)):
            ids.by_fingerprint[fingerprint].discard(value.id)
            if not ids.by_fingerprint[fingerprint]:
                del ids.by_fingerprint[fingerprint]
        for target in targets(value):
            self.referrers[target].discard(key)
            if not self.referrers[target]:
                del self.referrers[target]

    def _delete_softly(self, subject: str, last_version: int) -> None:
        versions = self.subjects.get(subject, {})
        for number, value in versions.items():
            if number <= last_version:
                versions[number] = replace(value, deleted=True)

    def _forget_deleted(self, scope: str | None) -> None:
        for value in list(self.schemas()):
            if value.deleted and covers(scope, value.subject):
                self._remove(value.key)

    # Reading the image.

    def at(self, key: SchemaKey) -> SchemaValue:
        return self.subjects[key.subject][key.version]

    def find(self, subject: str, version: int, *, deleted: bool = False) -> SchemaValue | None:
        """Return a version; -1 is the latest that is not deleted."""
        if version == -1:
            return self.latest(subject)
        value = self.subjects.get(subject, {}).get(version)
        return None if value is None or (value.deleted and not deleted) else value

    def latest(self, subject: str) -> SchemaValue | None:
        return max(self.versions(subject), key=lambda each: each.version, default=None)

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaValue]:
        """Return the versions of a subject, oldest first."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def schemas(self) -> Iterator[SchemaValue]:
        for versions in self.subjects.values():
            yield from versions.values()

    def subjects_in(self, scope: str | None, *, deleted: bool = False) -> list[str]:
        """Return the subjects with versions in a scope: a subject, a context, or everything (None)."""
        known: Iterable[str] = self.subjects
        if scope is not None and Name.of(scope).subject:
            known = (scope,) if scope in self.subjects else ()
        return [
            subject
            for subject in known
            if covers(scope, subject) and (deleted or self.latest(subject) is not None)
        ]

    def has_subjects(self, scope: str | None, *, deleted: bool = False) -> bool:
        return bool(self.subjects_in(scope, deleted=deleted))

    def known_contexts(self) -> list[str]:
        """The contexts that have had schemas, except the default one."""
        return sorted(self.contexts - {DEFAULT_CONTEXT})

    def limited_to(self, prefixes: tuple[str, ...]) -> Image:
        """Return an image in which only the subjects exist whose names begin with one of the prefixes.

        It shares the versions with this image, and does not follow its changes.
        """
        made = Image()
        made.subjects = {name: found for name, found in self.subjects.items() if name.startswith(prefixes)}
        made.configs = {scope: each for scope, each in self.configs.items() if _is_seen(scope, prefixes)}
        made.modes = {scope: each for scope, each in self.modes.items() if _is_seen(scope, prefixes)}
        made.contexts = self.contexts & {context_of(name) for name in made.subjects}
        for target, referrers in self.referrers.items():
            if seen := {key for key in referrers if key.subject in made.subjects}:
                made.referrers[target] = seen
        for context, ids in self._ids.items():
            made._ids[context] = ids.limited_to(made.subjects)
        return made

    # Ids.

    def values_of_id(self, context: str, id: int) -> Iterator[SchemaValue]:
        """Yield every version that has the id, in no particular order."""
        for subject, numbers in self._versions_of_id(context, id).items():
            yield from (self.subjects[subject][each] for each in numbers)

    def id_of(self, context: str, fingerprint: bytes) -> int | None:
        """Return the id of a schema; the greatest, if it was imported under several."""
        found = self._ids[context].by_fingerprint.get(fingerprint) if context in self._ids else None
        return max(found) if found else None

    def greatest_id(self, context: str) -> int:
        return self._ids[context].greatest if context in self._ids else 0

    def next_id(self, context: str) -> int:
        return self.greatest_id(context) + 1

    def version_of_id(self, context: str, id: int, subject: str) -> int | None:
        """Return the version of the subject that has the id.

        If there are several, a version that is not deleted is preferred, then the latest.
        """
        numbers = self._versions_of_id(context, id).get(subject)
        if numbers is None:
            return None
        versions = self.subjects[subject]
        return max(numbers, key=lambda each: (not versions[each].deleted, each))

    def subjects_of_id(self, context: str, id: int) -> Collection[str]:
        return self._versions_of_id(context, id).keys()

    def _versions_of_id(self, context: str, id: int) -> Mapping[str, set[int]]:
        return self._ids[context].versions.get(id, {}) if context in self._ids else {}

    # References.

    def referring(self, key: SchemaKey, *, deleted: bool = False) -> list[SchemaValue]:
        """Return the schemas that refer to a version."""
        found = (self.at(each) for each in self.referrers.get(key, ()))
        return [each for each in found if deleted or not each.deleted]


def _is_seen(scope: str | None, prefixes: tuple[str, ...]) -> bool:
    """Whether a setting applies to one of the subjects with these prefixes; those of contexts may."""
    return scope is None or not Name.of(scope).subject or scope.startswith(prefixes)


def targets(value: SchemaValue) -> list[SchemaKey]:
    """Return the versions that a schema refers to."""
    return [SchemaKey(beside(value.subject, each.subject), each.version) for each in value.references]
