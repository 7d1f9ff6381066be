"""The table of all endpoints: method, path, the role that each needs, and the registry operation behind it.

Modes need an admin even for one subject, because a subject in the mode IMPORT takes any id and version.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.registry.api.asked import Asked, whole_number
from penstock.registry.api.routing import Resource
from penstock.registry.subjects import Decision, Registry
from penstock.security.access.roles import Role

# Parameters


def _subject(registry: Registry, asked: Asked) -> str:
    """The subject of the path, or the subject it is an alias of."""
    return registry.aliased(asked.path["subject"])


def _subject_asked(registry: Registry, asked: Asked) -> str | None:
    subject = asked.optional("subject")
    return registry.aliased(subject) if subject else subject


def _owner(asked: Asked) -> str | None:
    """The subject whose configuration or mode is meant; None is the top level."""
    return asked.path.get("subject")


def _id(asked: Asked) -> int:
    return whole_number(asked.path["id"])


# Schemas


def _schema_by_id(registry: Registry, asked: Asked) -> Any:
    return registry.schema_by_id(
        _id(asked),
        subject=_subject_asked(registry, asked),
        format=asked.text("format"),
        reference_format=asked.text("referenceFormat"),
        fetch_max_id=asked.flag("fetchMaxId"),
    )


def _schema_text_by_id(registry: Registry, asked: Asked) -> Any:
    subject = _subject_asked(registry, asked)
    return registry.schema_by_id(_id(asked), subject=subject, format=asked.text("format"))["schema"]


def _subjects_of_id(registry: Registry, asked: Asked) -> Any:
    subject = _subject_asked(registry, asked)
    return registry.subjects_of_id(_id(asked), subject=subject, deleted=asked.flag("deleted"), **asked.page())


def _versions_of_id(registry: Registry, asked: Asked) -> Any:
    subject = _subject_asked(registry, asked)
    return registry.versions_of_id(_id(asked), subject=subject, deleted=asked.flag("deleted"), **asked.page())


def _schemas(registry: Registry, asked: Asked) -> Any:
    return registry.schemas(
        subject_prefix=asked.text("subjectPrefix"),
        aliases=asked.flag("aliases"),
        deleted=asked.flag("deleted"),
        latest_only=asked.flag("latestOnly"),
        rule_type=asked.text("ruleType"),
        **asked.page(),
    )


# Subjects


def _subjects(registry: Registry, asked: Asked) -> Any:
    return registry.subjects(
        subject_prefix=asked.optional("subjectPrefix"),
        deleted=asked.flag("deleted"),
        deleted_only=asked.flag("deletedOnly"),
        **asked.page(),
    )


def _lookup(registry: Registry, asked: Asked) -> Any:
    return registry.lookup(
        _subject(registry, asked),
        asked.body,
        normalize=asked.flag("normalize"),
        deleted=asked.flag("deleted"),
        format=asked.text("format"),
    )


def _delete_subject(registry: Registry, asked: Asked) -> Decision:
    return registry.delete_subject(_subject(registry, asked), permanent=asked.flag("permanent"))


def _latest_with_metadata(registry: Registry, asked: Asked) -> Any:
    return registry.latest_with_metadata(
        _subject(registry, asked),
        asked.texts("key"),
        asked.texts("value"),
        deleted=asked.flag("deleted"),
        format=asked.text("format"),
    )


# Versions


def _versions(registry: Registry, asked: Asked) -> Any:
    return registry.versions(
        _subject(registry, asked),
        deleted=asked.flag("deleted"),
        deleted_only=asked.flag("deletedOnly"),
        deleted_as_negative=asked.flag("deletedAsNegative"),
        **asked.page(),
    )


def _version(registry: Registry, asked: Asked) -> Any:
    return registry.version(
        _subject(registry, asked),
        asked.path["version"],
        deleted=asked.flag("deleted"),
        format=asked.text("format"),
        reference_format=asked.text("referenceFormat"),
    )


def _version_text(registry: Registry, asked: Asked) -> Any:
    return _version(registry, asked)["schema"]


def _referenced_by(registry: Registry, asked: Asked) -> Any:
    subject = _subject(registry, asked)
    deleted = asked.flag("deleted")
    return registry.referenced_by(subject, asked.path["version"], deleted=deleted, **asked.page())


def _registered(registry: Registry, asked: Asked) -> Any:
    return registry.registered(
        _subject(registry, asked),
        asked.body,
        normalize=asked.flag("normalize"),
        format=asked.text("format"),
    )


def _register(registry: Registry, asked: Asked) -> Decision:
    return registry.register(
        _subject(registry, asked),
        asked.body,
        normalize=asked.flag("normalize"),
        force=asked.flag("force"),
        format=asked.text("format"),
    )


def _delete_version(registry: Registry, asked: Asked) -> Decision:
    return registry.delete_version(
        _subject(registry, asked), asked.path["version"], permanent=asked.flag("permanent")
    )


def _compatibility(registry: Registry, asked: Asked) -> Any:
    return registry.compatibility(
        _subject(registry, asked),
        asked.body,
        asked.path.get("version"),
        verbose=asked.flag("verbose"),
        normalize=asked.flag("normalize"),
    )


# Configurations, modes and contexts


def _config(registry: Registry, asked: Asked) -> Any:
    return registry.config(_owner(asked), default_to_global=asked.flag("defaultToGlobal"))


def _set_config(registry: Registry, asked: Asked) -> Decision:
    return registry.set_config(_owner(asked), asked.body)


def _delete_config(registry: Registry, asked: Asked) -> Decision:
    return registry.delete_config(_owner(asked))


def _mode(registry: Registry, asked: Asked) -> Any:
    return registry.mode(_owner(asked), default_to_global=asked.flag("defaultToGlobal"))


def _set_mode(registry: Registry, asked: Asked) -> Decision:
    return registry.set_mode(_owner(asked), asked.body, force=asked.flag("force"))


def _delete_mode(registry: Registry, asked: Asked) -> Decision:
    return registry.delete_mode(_owner(asked), recursive=asked.flag("recursive"))


def _contexts(registry: Registry, asked: Asked) -> Any:
    return registry.contexts(prefix=asked.text("contextPrefix"), **asked.page())


def _delete_context(registry: Registry, asked: Asked) -> Decision:
    return registry.delete_context(asked.path["context"])


_READER, _WRITER, _ADMIN = Role.READER, Role.WRITER, Role.ADMIN
_VERSIONS: Final = "/subjects/{subject}/versions"
_VERSION: Final = f"{_VERSIONS}/{{version}}"
CHECK: Final = f"/compatibility{_VERSIONS}"
"""The path of checks of compatibility with all versions; with one, the number follows."""

RESOURCES: Final[tuple[Resource, ...]] = (
    Resource("GET", "/", _READER, read=lambda registry, asked: {}),
    Resource("POST", "/", _READER, read=lambda registry, asked: {}),
    Resource("GET", "/schemas", _READER, read=_schemas),
    Resource("GET", "/schemas/types", _READER, read=lambda registry, asked: registry.schema_types()),
    Resource("GET", "/schemas/ids/{id}", _READER, read=_schema_by_id),
    Resource("GET", "/schemas/ids/{id}/schema", _READER, read=_schema_text_by_id, is_text=True),
    Resource("GET", "/schemas/ids/{id}/subjects", _READER, read=_subjects_of_id),
    Resource("GET", "/schemas/ids/{id}/versions", _READER, read=_versions_of_id),
    Resource(
        "GET",
        "/schemas/guids/{guid}",
        _READER,
        read=lambda registry, asked: registry.schema_by_guid(asked.path["guid"], format=asked.text("format")),
    ),
    Resource(
        "GET",
        "/schemas/guids/{guid}/ids",
        _READER,
        read=lambda registry, asked: registry.ids_of_guid(asked.path["guid"]),
    ),
    Resource("GET", "/subjects", _READER, read=_subjects),
    Resource("POST", "/subjects/{subject}", _READER, read=_lookup, has_body=True),
    Resource("DELETE", "/subjects/{subject}", _WRITER, write=_delete_subject),
    Resource("GET", "/subjects/{subject}/metadata", _READER, read=_latest_with_metadata),
    Resource("GET", _VERSIONS, _READER, read=_versions),
    Resource("POST", _VERSIONS, _WRITER, read=_registered, write=_register, has_body=True),
    Resource("GET", _VERSION, _READER, read=_version),
    Resource("DELETE", _VERSION, _WRITER, write=_delete_version),
    Resource("GET", f"{_VERSION}/schema", _READER, read=_version_text, is_text=True),
    Resource("GET", f"{_VERSION}/referencedby", _READER, read=_referenced_by),
    Resource("POST", CHECK, _READER, read=_compatibility, has_body=True),
    Resource("POST", f"{CHECK}/{{version}}", _READER, read=_compatibility, has_body=True),
    *(
        resource
        for owner, configures in (("", _ADMIN), ("/{subject}", _WRITER))
        for resource in (
            Resource("GET", f"/config{owner}", _READER, read=_config),
            Resource("PUT", f"/config{owner}", configures, write=_set_config, has_body=True),
            Resource("DELETE", f"/config{owner}", configures, write=_delete_config),
            Resource("GET", f"/mode{owner}", _READER, read=_mode),
            Resource("PUT", f"/mode{owner}", _ADMIN, write=_set_mode, has_body=True),
            Resource("DELETE", f"/mode{owner}", _ADMIN, write=_delete_mode),
        )
    ),
    Resource("GET", "/contexts", _READER, read=_contexts),
    Resource("DELETE", "/contexts/{context}", _ADMIN, write=_delete_context),
)
