"""Check whether a schema may follow the versions of a subject, under the subject's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.registry.formats.levels import Version, check
from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.contracts import Metadata
from penstock.registry.subjects.errors import RequestRefused, invalid_schema, version_not_found
from penstock.registry.subjects.fields import has_field, messages_on_fields
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.records import SchemaValue
from penstock.registry.subjects.schemas import Asked, Contracted, refusing
from penstock.registry.subjects.state import State
from penstock.registry.subjects.versions import LATEST, number


def asked(
    state: State,
    subject: str,
    body: Mapping[str, Json],
    version: str | None,
    *,
    verbose: bool,
    normalize: bool,
) -> Json:
    """Check a request against one version, or against all (None).

    Any schema is compatible with an unknown subject.
    """
    if version is None:
        earlier = state.image.versions(subject)
    else:
        wanted = number(version)
        found = state.image.find(subject, wanted)
        if found is None and wanted != LATEST:
            version_not_found(wanted)
        earlier = [found] if found is not None else []
    request = Asked.read(subject, body)
    config = state.config(subject)
    try:
        if request.is_empty:
            invalid_schema("Empty schema")
        _, parsed = canonical(
            state,
            request,
            config,
            is_new=state.validates_new_schemas(config),
            normalize=normalize or bool(config.normalize),
        )
        messages = against(state, config, parsed, earlier)
    except RequestRefused as error:
        if not verbose or error.code != 42201:
            raise
        messages = [error.message]
    answer: dict[str, Json] = {"is_compatible": not messages}
    return {**answer, "messages": messages} if verbose else answer


def canonical(
    state: State, request: Asked, config: Config, *, is_new: bool, normalize: bool
) -> tuple[Asked, Contracted]:
    """Return the request in its stored form, and its parsed schema."""
    request, schema = state.parser.asked(request, is_new=is_new)
    if not state.takes_what_it_is_given(request.subject):
        if state.validates_fields(config):
            for message in messages_on_fields(schema):
                invalid_schema(f"Invalid schema of type {schema.format}, details: {message}")
        if normalize or schema.format == "PROTOBUF":
            with refusing(schema.format):
                # Normalizing a Protobuf file also fails if one of its types is missing.
                normal = schema.normalized()
            schema = normal if normalize else schema
    with refusing(schema.format):
        request = replace(request, schema=schema.canonical(), references=schema.references)
    return request, Contracted(schema, request.metadata, request.rule_set, request.version)


def against(state: State, config: Config, new: Contracted, earlier: Sequence[SchemaValue]) -> list[str]:
    """Return the reasons why a schema may not follow the versions of its subject (oldest first), if any."""
    messages: list[str] = []
    validates_fields = state.validates_fields(config)
    if validates_fields:
        previous = state.parser.stored(earlier[-1]) if earlier else None
        messages += _on_reserved_fields(new, previous)
    level = config.level
    counted = _same_group(config.compatibilityGroup, new.metadata, earlier)
    if not level.is_transitive:
        counted = counted[-1:]
    with refusing(new.schema.format):
        messages += check(
            level,
            new.schema,
            [Version(each.version, state.parser.stored(each).schema) for each in counted],
            is_lenient=config.compatibilityPolicy == "LENIENT",
        )
    if messages:
        shown = "true" if validates_fields else "false"
        messages.append(f"{{validateFields: '{shown}', compatibility: '{level.value}'}}")
    return messages


def _same_group(
    group: str | None, metadata: Metadata | None, earlier: Sequence[SchemaValue]
) -> Sequence[SchemaValue]:
    """Return the versions with the same value of the metadata property that groups the subject's versions."""
    if group is None:
        return earlier
    value = metadata.property(group) if metadata is not None else None
    return [
        each
        for each in earlier
        if (each.metadata.property(group) if each.metadata is not None else None) == value
    ]


def _on_reserved_fields(new: Contracted, previous: Contracted | None) -> list[str]:
    """Check that no reserved name was removed from the metadata, and that none is used as a field."""
    gone = previous.reserved - new.reserved if previous is not None else set()
    return [
        f"The new schema has reserved field {name} removed from its metadata which is present in the old "
        "schema's metadata."
        for name in sorted(gone)
    ] + [
        f"The new schema has field that conflicts with the reserved field {name}."
        for name in sorted(new.reserved)
        if has_field(new.schema, name)
    ]
