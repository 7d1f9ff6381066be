"""List schemas, subjects, versions and contexts, and the schemas that refer to a version."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from penstock.registry.subjects import answers
from penstock.registry.subjects.errors import subject_not_found
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.names import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    beside,
    context_of,
    has_prefix,
    normalized,
)
from penstock.registry.subjects.records import SchemaValue
from penstock.registry.subjects.searching import version_in_contexts
from penstock.registry.subjects.state import State


class Listed(NamedTuple):
    """A version in a list. Answers are built only for the versions on the requested page."""

    value: SchemaValue
    aliases: Sequence[str]

    def answer(self) -> Json:
        return answers.whole(self.value, self.aliases)


class VersionKind(NamedTuple):
    """The format of a version, and whether the version is softly deleted."""

    format: str
    is_deleted: bool


class Counts(NamedTuple):
    """The number of subjects that have a version which is not deleted, and of versions by kind."""

    subjects: int
    versions: Counter[VersionKind]


def counts(state: State) -> Counts:
    """Count subjects and versions."""
    found: Counter[VersionKind] = Counter()
    subjects = 0
    for versions in state.image.subjects.values():
        subjects += any(not value.deleted for value in versions.values())
        found.update(VersionKind(value.schema_type, value.deleted) for value in versions.values())
    return Counts(subjects, found)


def schemas(
    state: State, prefix: str, *, aliases: bool, deleted: bool, latest_only: bool, rule_type: str
) -> list[Listed]:
    """List versions, sorted by subject; with ``aliases`` also include the aliases of each subject."""
    named = _aliases(state, prefix) if aliases else {}
    subjects = {each for each in state.image.subjects if has_prefix(prefix, each)} | (
        named.keys() & state.image.subjects
    )
    found: list[SchemaValue] = []
    for subject in sorted(subjects):
        versions = state.image.versions(subject, deleted=deleted)
        found += versions[-1:] if latest_only else versions
    return [
        Listed(value, named.get(value.subject, ()))
        for value in found
        if not rule_type or _has_rule(value, rule_type)
    ]


def _aliases(state: State, prefix: str) -> dict[str, list[str]]:
    """Return the aliases of each subject."""
    named: dict[str, list[str]] = defaultdict(list)
    for subject, config in state.image.configs.items():
        if subject is not None and config.alias is not None and has_prefix(prefix, subject):
            named[beside(subject, config.alias)].append(subject)
    return {subject: sorted(each) for subject, each in named.items()}


def _has_rule(value: SchemaValue, type: str) -> bool:
    return value.rule_set is not None and any(each.type == type for each in value.rule_set.rules)


def subjects(state: State, prefix: str | None, *, deleted: bool, deleted_only: bool) -> list[str]:
    wanted = ALL_CONTEXTS if prefix is None else prefix
    found = []
    for subject in sorted(state.image.subjects):
        is_there = bool(state.image.versions(subject))
        if has_prefix(wanted, subject) and (not is_there if deleted_only else is_there or deleted):
            found.append(subject)
    return found


def versions(
    state: State, subject: str, *, deleted: bool, deleted_only: bool, deleted_as_negative: bool
) -> list[int]:
    subject = normalized(subject)
    if not state.image.has_subjects(subject, deleted=deleted or deleted_only):
        subject_not_found(subject)
    values = state.image.versions(subject, deleted=True)
    if deleted_as_negative:
        return [-each.version if each.deleted else each.version for each in values]
    if deleted_only:
        return [each.version for each in values if each.deleted]
    return [each.version for each in values if deleted or not each.deleted]


def referenced_by(state: State, subject: str, version: str, *, deleted: bool) -> list[int]:
    """Return the ids of the schemas that refer to a version."""
    value = version_in_contexts(state, subject, version, deleted=True)
    found = state.image.referring(value.key, deleted=deleted)
    return [id for _, id in sorted({(context_of(each.subject), each.id) for each in found})]


def contexts(state: State, prefix: str) -> list[str]:
    return [each for each in (DEFAULT_CONTEXT, *state.image.known_contexts()) if each.startswith(prefix)]
