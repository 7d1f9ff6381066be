"""Decide what deletions write.

A version is soft-deleted first and can then still be found with `deleted=true`. A permanent deletion writes
tombstones. A schema that others refer to can't be deleted.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.registry.subjects import records
from penstock.registry.subjects.decisions import Decision
from penstock.registry.subjects.errors import (
    context_not_empty,
    referred_to,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from penstock.registry.subjects.names import context_of, normalized
from penstock.registry.subjects.records import ContextKey, Record, SchemaValue, SubjectKey
from penstock.registry.subjects.state import State
from penstock.registry.subjects.versions import number


def delete_version(state: State, subject: str, version: str, *, permanent: bool) -> Decision:
    subject = normalized(subject)
    value = _version(state, subject, number(version), permanent=permanent)
    state.check_writable(subject)
    if state.image.referring(value.key, deleted=permanent):
        referred_to(value.key)
    if not permanent:
        return Decision((records.schema_record(replace(value, deleted=True)),), value.version)
    if not value.deleted:
        version_not_soft_deleted(subject, value.version)
    written = [records.tombstone(value.key)]
    if len(state.image.versions(subject, deleted=True)) == 1:
        written += _settings(state, subject)
    return Decision(tuple(written), value.version)


def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision:
    subject = normalized(subject)
    if not state.image.has_subjects(subject, deleted=True):
        subject_not_found(subject)
    if not permanent and not state.image.has_subjects(subject):
        subject_soft_deleted(subject)
    state.check_writable(subject)
    values = state.image.versions(subject, deleted=permanent)
    for value in values:
        referring = state.image.referring(value.key, deleted=permanent)
        if any(each.subject != subject for each in referring):
            referred_to(value.key)
        if permanent and not value.deleted:
            subject_not_soft_deleted(subject)
    numbers = [each.version for each in values]
    if not permanent:
        # Confluent writes the latest version that is not deleted. Compaction keeps only the last of these
        # records, so if versions were imported below those that an earlier record deleted, the deleted ones
        # would reappear.
        last = max((each.version for each in state.image.versions(subject, deleted=True)), default=0)
        return Decision((records.delete_subject_record(subject, last),), numbers)
    # The latest first, because a version may refer to an earlier one of its subject.
    written = [records.tombstone(each.key) for each in reversed(values)]
    return Decision((*written, *_settings(state, subject)), numbers)


def delete_context(state: State, context: str) -> Decision:
    context = normalized(context)
    if state.image.has_subjects(context, deleted=True):
        context_not_empty(context)
    return Decision((records.tombstone(ContextKey(context_of(context))),), None)


def _version(state: State, subject: str, version: int, *, permanent: bool) -> SchemaValue:
    value = state.image.find(subject, version, deleted=True)
    if value is None:
        if not state.image.has_subjects(subject, deleted=True):
            subject_not_found(subject)
        version_not_found(version)
    if value.deleted and not permanent:
        version_soft_deleted(subject, version)
    return value


def _settings(state: State, subject: str) -> list[Record]:
    """Return tombstones of the subject's own mode and configuration."""
    written = []
    if subject in state.image.modes:
        written.append(records.tombstone(SubjectKey("MODE", subject)))
    if subject in state.image.configs:
        written.append(records.tombstone(SubjectKey("CONFIG", subject)))
    return written
