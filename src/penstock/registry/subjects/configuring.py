"""Answer requests about configurations and modes, and decide what their changes write."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.registry.subjects import json_fields, records
from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.decisions import Decision
from penstock.registry.subjects.errors import (
    compatibility_not_configured,
    invalid_mode,
    invalid_subject,
    mode_not_configured,
    not_permitted,
    referred_to,
    subject_not_found,
)
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.names import (
    GLOBAL_CONTEXT,
    Name,
    beside,
    context_of,
    is_valid,
    normalized,
    top_level_or,
)
from penstock.registry.subjects.records import MODES, Record, SubjectKey
from penstock.registry.subjects.state import State


def config(state: State, subject: str | None, *, default_to_global: bool) -> Json:
    subject = top_level_or(subject)
    found = state.config(subject) if default_to_global else state.own_config(subject)
    if found is None:
        compatibility_not_configured(subject)
    return found.json()


def set_config(state: State, subject: str | None, body: Mapping[str, Json]) -> Decision:
    subject = _checked(subject)
    old = state.image.configs.get(subject, Config())
    new = old.updated(json_fields.an_object(body, "the request"))
    state.check_writable(subject)
    answer = {
        "compatibility" if name == "compatibilityLevel" else name: each
        for name, each in new.whole_json().items()
    }
    return Decision((records.config_record(subject, new),), answer)


def delete_config(state: State, subject: str | None) -> Decision:
    subject = top_level_or(subject)
    old = state.own_config(subject)
    if old is None:
        subject_not_found(subject)
    state.check_writable(subject)
    return Decision((records.tombstone(SubjectKey("CONFIG", subject)),), old.json())


def aliased(state: State, subject: str) -> str:
    """Return the subject that a path refers to: the target if the name is an alias, else the name itself."""
    own = state.image.configs.get(normalized(subject)) if subject else None
    return beside(subject, own.alias) if own is not None and own.alias else subject


def mode(state: State, subject: str | None, *, default_to_global: bool) -> Json:
    subject = top_level_or(subject)
    found = state.mode(subject) if default_to_global else state.own_mode(subject)
    if found is None:
        mode_not_configured(subject)
    return {"mode": found}


def set_mode(state: State, subject: str | None, body: Mapping[str, Json], *, force: bool) -> Decision:
    subject = _checked(subject)
    found = json_fields.an_object(body, "the request")
    asked = json_fields.text(found, "mode", "the request")
    new = asked.upper() if asked is not None else None
    if new is not None and new not in MODES:
        invalid_mode()
    if new == "FORWARD" and subject != str(Name(GLOBAL_CONTEXT, "")):
        invalid_mode("Forward mode only supported on global level")
    _check_mutable(state)
    written: list[Record] = []
    if new == "IMPORT" and state.mode(subject) != "IMPORT" and not force:
        written += _cleared(state, subject)
    if new is None:
        written.append(records.tombstone(SubjectKey("MODE", subject)))
    else:
        written.append(records.mode_record(subject, new))
    return Decision(tuple(written), {"mode": asked} if "mode" in found else {})


def delete_mode(state: State, subject: str | None, *, recursive: bool) -> Decision:
    subject = top_level_or(subject)
    old = state.own_mode(subject)
    if old is None and not recursive:
        subject_not_found(subject)
    _check_mutable(state)
    gone = [subject]
    if recursive and (subject is None or not Name.of(subject).subject):
        gone += sorted(
            each
            for each in state.image.modes
            if each is not None and each != subject and context_of(each) == context_of(subject)
        )
    written = tuple(records.tombstone(SubjectKey("MODE", each)) for each in gone)
    return Decision(written, {"mode": old} if old is not None else {})


def _cleared(state: State, scope: str | None) -> list[Record]:
    """Return the records that clear a scope for an import by removing its soft-deleted versions.

    The import is refused if the scope has subjects that are not deleted.
    """
    if state.image.has_subjects(scope):
        not_permitted("Cannot import since found existing subjects")
    values = [
        value
        for subject in state.image.subjects_in(scope, deleted=True)
        for value in state.image.versions(subject, deleted=True)
    ]
    for value in values:
        if state.image.referring(value.key, deleted=True):
            referred_to(value.key)
    return [*(records.tombstone(each.key) for each in values), records.clear_subject_record(scope)]


def _check_mutable(state: State) -> None:
    if not state.settings.allows_mode_changes:
        not_permitted("Mode changes are not allowed")


def _checked(subject: str | None) -> str | None:
    if subject is not None and not is_valid(subject, for_settings=True):
        invalid_subject(subject)
    return top_level_or(subject)
