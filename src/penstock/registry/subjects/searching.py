"""Find a schema by its text and contract, id, guid, version number, or metadata properties."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

from penstock.registry.subjects import answers
from penstock.registry.subjects.compatibility import canonical
from penstock.registry.subjects.completing import completed
from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.errors import (
    RequestRefused,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.names import DEFAULT_CONTEXT, Name, context_of, normalized
from penstock.registry.subjects.records import SchemaKey, SchemaValue
from penstock.registry.subjects.schemas import Asked
from penstock.registry.subjects.state import State
from penstock.registry.subjects.versions import number

Found = tuple[Json, SchemaValue]  # the answer, and the version that it describes

# By text and contract.


def found_under_subject(
    state: State,
    config: Config,
    request: Asked,
    *,
    normalize: bool,
    deleted: bool = False,
    latest_only: bool = False,
) -> Found | None:
    """Return the version that matches a request by its fingerprint, or else the latest one of its meaning."""
    if request.is_empty:
        return None
    image = state.image
    request, parsed = canonical(state, request, config, is_new=False, normalize=normalize)
    if latest_only:
        latest = image.latest(request.subject)
        candidates = [latest] if latest is not None else []
    else:
        context = context_of(request.subject)
        id = image.id_of(context, request.fingerprint)
        version = image.version_of_id(context, id, request.subject) if id is not None else None
        value = image.find(request.subject, version, deleted=deleted) if version is not None else None
        if value is not None:
            return answers.requested(request, value.version, value.id), value
        candidates = image.versions(request.subject, deleted=deleted)
    for value in reversed(candidates):
        if state.parser.means(parsed, value):
            return answers.whole(value), value
    return None


def lookup(
    state: State, subject: str, body: Mapping[str, Json], *, normalize: bool, deleted: bool, format: str
) -> Json:
    subject = normalized(subject)
    normalize = normalize or bool(state.config(subject).normalize)
    found: Found | None = None
    for name in _in_each_context(state, subject):
        try:
            found = _looked_up(state, Asked.read(name, body), normalize=normalize, deleted=deleted)
        except RequestRefused as error:
            if name == subject or error.code != 42201:
                raise
        if found is not None:
            answer, value = found
            return answers.formatted(state, value, answer, format)
    if not state.image.has_subjects(subject, deleted=deleted):
        subject_not_found(subject)
    schema_not_found()


def _looked_up(state: State, request: Asked, *, normalize: bool, deleted: bool) -> Found | None:
    """Look up the request as it is, and then with what a registration would add to it."""
    config = state.config(request.subject)
    found = found_under_subject(state, config, request, normalize=normalize, deleted=deleted)
    latest = state.image.latest(request.subject)
    if found is not None or latest is None:
        return found
    whole = completed(config, request, latest, None)
    if whole == request:
        return None
    return found_under_subject(state, config, whole, normalize=normalize, deleted=deleted)


# By subject and version.


def version_of(
    state: State, subject: str, version: str, *, deleted: bool, format: str, reference_format: str
) -> Json:
    value = version_in_contexts(state, subject, version, deleted=deleted)
    answer = answers.formatted(state, value, answers.whole(value), format)
    return answers.with_qualified_references(value, answer, reference_format)


def version_in_contexts(state: State, subject: str, version: str, *, deleted: bool) -> SchemaValue:
    """Return a version of a subject, or of a subject of that name in another context."""
    subject, wanted = normalized(subject), number(version)
    for name in _in_each_context(state, subject):
        value = state.image.find(name, wanted, deleted=deleted)
        if value is not None:
            return value
    if not state.image.has_subjects(subject, deleted=deleted):
        subject_not_found(subject)
    version_not_found(wanted)


def latest_with_metadata(
    state: State, subject: str, keys: Sequence[str], values: Sequence[str], *, deleted: bool, format: str
) -> Json:
    """Return the latest version whose metadata has all these properties."""
    subject = normalized(subject)
    wanted = set(dict(zip(keys, values, strict=False)).items())
    for value in reversed(state.image.versions(subject, deleted=deleted)):
        if value.metadata is not None and wanted <= set(value.metadata.properties):
            return answers.formatted(state, value, answers.whole(value), format)
    if not state.image.has_subjects(subject, deleted=deleted):
        subject_not_found(subject)
    schema_not_found()


# By id.


def schema_by_id(
    state: State, id: int, subject: str | None, *, format: str, reference_format: str, fetch_max_id: bool
) -> Json:
    value = value_of_id(state, id, subject)
    if value is None:
        schema_not_found(id)
    greatest = state.image.greatest_id(context_of(value.subject)) if fetch_max_id else None
    answer = answers.formatted(state, value, answers.by_id(value, greatest), format)
    return answers.with_qualified_references(value, answer, reference_format)


def value_of_id(state: State, id: int, subject: str | None) -> SchemaValue | None:
    """Return a version with the id.

    A version of the subject is preferred, also one in another context if the subject names none. If only a
    context is given, or the subject names no context and has no such version, the result is the version of
    the first subject with the id in that context (by default the default one).
    """
    name = Name.of(subject or "")
    for each in _in_each_context(state, str(name)) if name.subject else ():
        found = _at(state, context_of(each), id, each)
        if found is not None:
            return found
    if name.subject and name.is_qualified:
        return None
    first = min(state.image.subjects_of_id(name.context, id), default=None)
    return None if first is None else _at(state, name.context, id, first)


def versions_of_id(state: State, id: int, subject: str | None, *, deleted: bool) -> list[SchemaKey]:
    """Return every subject and version with the schema of an id, in the context where the id is found."""
    value = value_of_id(state, id, subject)
    if value is None:
        schema_not_found()
    context = context_of(value.subject)
    found = (_at(state, context, id, each) for each in sorted(state.image.subjects_of_id(context, id)))
    return [each.key for each in found if each is not None and (deleted or not each.deleted)]


def _at(state: State, context: str, id: int, subject: str) -> SchemaValue | None:
    """Return the subject's version that has the id."""
    version = state.image.version_of_id(context, id, subject)
    return None if version is None else state.image.at(SchemaKey(subject, version))


# By guid.


def schema_by_guid(state: State, guid: str, *, format: str) -> Json:
    for context, id in _ids_of_guid(state, guid):
        value = value_of_id(state, id, Name(context, "").prefix)
        if value is not None:
            return answers.formatted(state, value, answers.by_id(value, None, is_anywhere=True), format)
    schema_not_found(guid)


def ids_of_guid(state: State, guid: str) -> Json:
    return [{"context": context, "id": id} for context, id in _ids_of_guid(state, guid)]


def _ids_of_guid(state: State, guid: str) -> Iterator[tuple[str, int]]:
    """Yield contexts and ids in the order of contexts; none if the text is not a guid."""
    try:
        fingerprint = uuid.UUID(guid).bytes
    except ValueError:
        return
    for context in (DEFAULT_CONTEXT, *state.image.known_contexts()):
        id = state.image.id_of(context, fingerprint)
        if id is not None:
            yield context, id


def _in_each_context(state: State, subject: str) -> Iterator[str]:
    """Yield the subject, and if it names no context, the subject of that name in each context that has it."""
    yield subject
    name = Name.of(subject)
    if not name.is_qualified:
        others = (str(Name(context, name.subject)) for context in state.image.known_contexts())
        yield from (each for each in others if each in state.image.subjects)
