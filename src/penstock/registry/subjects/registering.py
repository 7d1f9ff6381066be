"""Decide what a registration writes.

A schema that is already registered is found by its fingerprint or by its meaning; the same schema has one id
in all subjects of a context. Except in IMPORT and FORWARD mode, versions increase by one, the registry
assigns ids, and the schema must be compatible with the subject's earlier versions.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.registry.subjects import answers, compatibility, records
from penstock.registry.subjects.completing import completed
from penstock.registry.subjects.decisions import Decision
from penstock.registry.subjects.errors import (
    incompatible,
    invalid_schema,
    invalid_subject,
    not_permitted,
    too_large,
)
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.names import DEFAULT_CONTEXT, context_of, is_valid, normalized
from penstock.registry.subjects.records import Record, SchemaValue
from penstock.registry.subjects.schemas import Asked, Contracted
from penstock.registry.subjects.searching import found_under_subject
from penstock.registry.subjects.state import State, shown_context
from penstock.registry.subjects.versions import LATEST


def register(
    state: State, subject: str, body: Mapping[str, Json], *, normalize: bool, force: bool, format: str
) -> Decision:
    found = registered(state, subject, body, normalize=normalize, format=format)
    if found is not None:
        return Decision((), found)
    request = _checked(state, subject, body)
    _check_mode(state, request)
    config = state.config(request.subject)
    normalize = normalize or bool(config.normalize)
    is_given = state.takes_what_it_is_given(request.subject)
    earlier = state.image.versions(request.subject)
    if not is_given:
        request = completed(config, request, earlier[-1] if earlier else None, _next_version(state, request))
    if request.is_empty:
        invalid_schema("Empty schema")
    is_new = request.id < 0 and state.validates_new_schemas(config)
    request, parsed = compatibility.canonical(state, request, config, is_new=is_new, normalize=normalize)

    known = _known(state, request, parsed)
    if isinstance(known, SchemaValue):
        return Decision((), _answer(state, request, known.version, known.id, format))
    if not is_given and not force:
        messages = compatibility.against(state, config, parsed, earlier)
        if messages:
            incompatible(request.subject, messages)
    return _written(state, request, known, format)


def registered(
    state: State, subject: str, body: Mapping[str, Json], *, normalize: bool, format: str
) -> Json | None:
    """Return the answer if the schema is already registered, else None.

    If the configuration changes contracts, only the leader can decide, so the result is None too.
    """
    request = _checked(state, subject, body)
    config = state.config(request.subject)
    if config.changes_contracts:
        return None
    found = found_under_subject(
        state,
        config,
        request,
        normalize=normalize or bool(config.normalize),
        latest_only=request.version == LATEST,
    )
    if found is None:
        return None
    answer, value = found
    if request.version in (0, LATEST):
        if request.id >= 0 and request.id != value.id:
            return None
    elif request.id != value.id:
        return None
    elif request.version != value.version:
        # The same schema may have been imported under several versions.
        other = state.image.find(request.subject, request.version)
        if other is None or other.id != value.id or other.fingerprint != value.fingerprint:
            return None
        answer, value = answers.whole(other), other
    return answers.registration(answers.formatted(state, value, answer, format))


def _checked(state: State, subject: str, body: Mapping[str, Json]) -> Asked:
    if not is_valid(subject, allows_empty=not state.settings.rejects_empty_subject):
        invalid_subject(subject)
    request = Asked.read(normalized(subject), body)
    if len(request.schema.encode()) > state.settings.schema_bytes_max:
        too_large()
    if request.rule_set is not None:
        request.rule_set.check()
    return request


def _check_mode(state: State, request: Asked) -> None:
    state.check_writable(request.subject)
    where = f"Subject {request.subject} in context {shown_context(request.subject)}"
    if request.id >= 0:
        if not state.takes_what_it_is_given(request.subject):
            not_permitted(f"{where} is not in import mode")
    elif state.mode(request.subject) != "READWRITE":
        not_permitted(f"{where} is not in read-write mode")


def _next_version(state: State, request: Asked) -> int:
    return 1 + max((each.version for each in state.image.versions(request.subject, deleted=True)), default=0)


def _known(state: State, request: Asked, parsed: Contracted) -> SchemaValue | int:
    """Return the version that already has this schema, else the schema's id, or -1 if it has none."""
    context, id = context_of(request.subject), request.id
    found = state.image.id_of(context, request.fingerprint)
    if found is not None and (id < 0 or id == found):
        version = state.image.version_of_id(context, found, request.subject)
        value = state.image.find(request.subject, version) if version is not None else None
        if request.version == 0 and value is not None:
            return value
        id = found
    if request.version == 0:
        for value in reversed(state.image.versions(request.subject)):
            if (id < 0 or id == value.id) and state.parser.means(parsed, value):
                return value
    return id


def _written(state: State, request: Asked, id: int, format: str) -> Decision:
    """Return the records of a new version.

    They are the record of its context, if that is new too; tombstones of the soft-deleted versions that it
    replaces; and the version itself.
    """
    image, context = state.image, context_of(request.subject)
    version = request.version if request.version > 0 else _next_version(state, request)
    if version != _next_version(state, request) and not state.takes_what_it_is_given(request.subject):
        invalid_schema("Version is not one more than previous version")
    if id >= 0:
        _check_id(state, request, id)
    else:
        id = image.next_id(context)
    written: list[Record] = []
    if context not in (DEFAULT_CONTEXT, *image.contexts):
        written.append(records.context_record(context))
    written += [
        records.tombstone(each.key)
        for each in reversed(image.versions(request.subject, deleted=True))
        if each.deleted
        and each.id == id
        and each.version < version
        and not image.referring(each.key, deleted=True)
    ]
    written.append(records.schema_record(request.stored(version, id)))
    return Decision(tuple(written), _answer(state, request, version, id, format))


def _check_id(state: State, request: Asked, id: int) -> None:
    """Refuse an id that already stands for another schema."""
    context = context_of(request.subject)
    is_known = bool(state.image.subjects_of_id(context, id))
    asked = request.stored(0, id)
    if is_known and not any(map(asked.says_as, state.image.values_of_id(context, id))):
        not_permitted(
            f"Overwrite new schema with id {id} in context {shown_context(request.subject)} is not permitted."
        )


def _answer(state: State, request: Asked, version: int, id: int, format: str) -> Json:
    answer = answers.registration(answers.requested(request, version, id))
    return answers.formatted(state, request.stored(version, id), answer, format)
