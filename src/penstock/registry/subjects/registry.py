"""All operations by name; each is decided in a module of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from penstock.registry.subjects import (
    compatibility,
    configuring,
    deleting,
    listing,
    registering,
    searching,
)
from penstock.registry.subjects.decisions import Decision
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.names import DEFAULT_CONTEXT
from penstock.registry.subjects.settings import Settings
from penstock.registry.subjects.state import State
from penstock.registry.subjects.versions import page

_Item = TypeVar("_Item")


class Registry:
    """An image of `_schemas` and the operations on it."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._state = State.empty(settings if settings is not None else Settings())
        self._changes = 0
        """The number of changes; it is odd while one is in progress."""
        self._limited: dict[tuple[str, ...], tuple[int, Registry]] = {}

    def replay(self, key: bytes | None, value: bytes | None, timestamp_ms: int = 0) -> str | None:
        """Apply a record of `_schemas`; applying it again changes nothing.

        Returns None, or the reason why the record was skipped: it can't be read, or its schema has an id that
        belongs to another schema.
        """
        self._changes += 1
        try:
            return self._state.image.replay(key, value, timestamp_ms)
        finally:
            self._changes += 1

    def limited_to(self, prefixes: tuple[str, ...]) -> Registry:
        """Return the registry as a client sees it that may read only subjects with these prefixes.

        For its reads, all other subjects do not exist, however it finds them: by id, by reference, by alias
        or in a list. The result is kept until the next change.
        """
        changes = self._changes
        known = self._limited.get(prefixes)
        if known is not None and known[0] == changes:
            return known[1]
        made = Registry(self._state.settings)
        made._state = self._state.limited_to(prefixes)
        self._limited[prefixes] = (changes, made)
        return made

    # Writes, for the leader.

    def register(
        self,
        subject: str,
        body: Mapping[str, Json],
        *,
        normalize: bool = False,
        force: bool = False,
        format: str = "",
    ) -> Decision:
        """POST /subjects/{subject}/versions. The answer has `id`, `version`, `guid`, …"""
        return registering.register(
            self._state, subject, body, normalize=normalize, force=force, format=format
        )

    def delete_version(self, subject: str, version: str, *, permanent: bool = False) -> Decision:
        """DELETE /subjects/{subject}/versions/{version}. The answer is the number of the version."""
        return deleting.delete_version(self._state, subject, version, permanent=permanent)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> Decision:
        """DELETE /subjects/{subject}. The answer is the numbers of its versions."""
        return deleting.delete_subject(self._state, subject, permanent=permanent)

    def delete_context(self, context: str) -> Decision:
        """DELETE /contexts/{context}. There is no answer (204)."""
        return deleting.delete_context(self._state, context)

    def set_config(self, subject: str | None, body: Mapping[str, Json]) -> Decision:
        """PUT /config[/{subject}]. The answer is the new configuration.

        A null in the body unsets a field; a missing field stays.
        """
        return configuring.set_config(self._state, subject, body)

    def delete_config(self, subject: str | None) -> Decision:
        """DELETE /config[/{subject}]. The answer is the deleted configuration."""
        return configuring.delete_config(self._state, subject)

    def set_mode(self, subject: str | None, body: Mapping[str, Json], *, force: bool = False) -> Decision:
        """PUT /mode[/{subject}]. The answer is the body."""
        return configuring.set_mode(self._state, subject, body, force=force)

    def delete_mode(self, subject: str | None, *, recursive: bool = False) -> Decision:
        """DELETE /mode[/{subject}]. The answer is the deleted mode."""
        return configuring.delete_mode(self._state, subject, recursive=recursive)

    # Reads, for every node.

    def counts(self) -> listing.Counts:
        """Count subjects and versions, for metrics."""
        return listing.counts(self._state)

    def registered(
        self, subject: str, body: Mapping[str, Json], *, normalize: bool = False, format: str = ""
    ) -> Json | None:
        """Return the answer to a registration if its schema is already registered, else None.

        Such an answer needs no leader.
        """
        return registering.registered(self._state, subject, body, normalize=normalize, format=format)

    def lookup(
        self,
        subject: str,
        body: Mapping[str, Json],
        *,
        normalize: bool = False,
        deleted: bool = False,
        format: str = "",
    ) -> Json:
        """POST /subjects/{subject}."""
        return searching.lookup(
            self._state, subject, body, normalize=normalize, deleted=deleted, format=format
        )

    def compatibility(
        self,
        subject: str,
        body: Mapping[str, Json],
        version: str | None = None,
        *,
        verbose: bool = False,
        normalize: bool = False,
    ) -> Json:
        """POST /compatibility/subjects/{subject}/versions[/{version}]; None means all versions."""
        return compatibility.asked(self._state, subject, body, version, verbose=verbose, normalize=normalize)

    def schema_by_id(
        self,
        id: int,
        *,
        subject: str | None = None,
        format: str = "",
        reference_format: str = "",
        fetch_max_id: bool = False,
    ) -> Json:
        """GET /schemas/ids/{id}. `/schemas/ids/{id}/schema` returns its field `schema`."""
        return searching.schema_by_id(
            self._state,
            id,
            subject,
            format=format,
            reference_format=reference_format,
            fetch_max_id=fetch_max_id,
        )

    def schema_by_guid(self, guid: str, *, format: str = "") -> Json:
        """GET /schemas/guids/{guid}."""
        return searching.schema_by_guid(self._state, guid, format=format)

    def ids_of_guid(self, guid: str) -> Json:
        """GET /schemas/guids/{guid}/ids."""
        return searching.ids_of_guid(self._state, guid)

    def subjects_of_id(
        self, id: int, *, subject: str | None = None, deleted: bool = False, offset: int = 0, limit: int = -1
    ) -> Json:
        """GET /schemas/ids/{id}/subjects."""
        found = searching.versions_of_id(self._state, id, subject, deleted=deleted)
        return self._subjects_page([each.subject for each in found], offset, limit)

    def versions_of_id(
        self, id: int, *, subject: str | None = None, deleted: bool = False, offset: int = 0, limit: int = -1
    ) -> Json:
        """GET /schemas/ids/{id}/versions."""
        found = searching.versions_of_id(self._state, id, subject, deleted=deleted)
        return self._versions_page(
            [{"subject": each.subject, "version": each.version} for each in found], offset, limit
        )

    def schemas(
        self,
        *,
        subject_prefix: str = "",
        aliases: bool = False,
        deleted: bool = False,
        latest_only: bool = False,
        rule_type: str = "",
        offset: int = 0,
        limit: int = -1,
    ) -> Json:
        """GET /schemas."""
        found = listing.schemas(
            self._state,
            subject_prefix,
            aliases=aliases,
            deleted=deleted,
            latest_only=latest_only,
            rule_type=rule_type,
        )
        return [each.answer() for each in self._schemas_page(found, offset, limit)]

    def schema_types(self) -> Json:
        """GET /schemas/types."""
        return ["JSON", "PROTOBUF", "AVRO"]  # the order of Confluent's answer

    def subjects(
        self,
        *,
        subject_prefix: str | None = None,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> Json:
        """GET /subjects. Without a prefix the answer covers all contexts (":*:")."""
        found = listing.subjects(self._state, subject_prefix, deleted=deleted, deleted_only=deleted_only)
        return self._subjects_page(found, offset, limit)

    def versions(
        self,
        subject: str,
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        deleted_as_negative: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> Json:
        """GET /subjects/{subject}/versions."""
        found = listing.versions(
            self._state,
            subject,
            deleted=deleted,
            deleted_only=deleted_only,
            deleted_as_negative=deleted_as_negative,
        )
        return self._versions_page(found, offset, limit)

    def version(
        self,
        subject: str,
        version: str,
        *,
        deleted: bool = False,
        format: str = "",
        reference_format: str = "",
    ) -> Json:
        """GET /subjects/{subject}/versions/{version}. `…/schema` returns its field `schema`."""
        return searching.version_of(
            self._state, subject, version, deleted=deleted, format=format, reference_format=reference_format
        )

    def referenced_by(
        self, subject: str, version: str, *, deleted: bool = False, offset: int = 0, limit: int = -1
    ) -> Json:
        """GET /subjects/{subject}/versions/{version}/referencedby. The answer is a list of ids."""
        found = listing.referenced_by(self._state, subject, version, deleted=deleted)
        return self._schemas_page(found, offset, limit)

    def latest_with_metadata(
        self,
        subject: str,
        keys: Sequence[str],
        values: Sequence[str],
        *,
        deleted: bool = False,
        format: str = "",
    ) -> Json:
        """GET /subjects/{subject}/metadata?key=…&value=…"""
        return searching.latest_with_metadata(
            self._state, subject, keys, values, deleted=deleted, format=format
        )

    def config(self, subject: str | None, *, default_to_global: bool = False) -> Json:
        """GET /config[/{subject}]."""
        return configuring.config(self._state, subject, default_to_global=default_to_global)

    def mode(self, subject: str | None, *, default_to_global: bool = False) -> Json:
        """GET /mode[/{subject}]."""
        return configuring.mode(self._state, subject, default_to_global=default_to_global)

    def contexts(self, *, prefix: str = "", offset: int = 0, limit: int = -1) -> Json:
        """GET /contexts."""
        settings = self._state.settings
        found = listing.contexts(self._state, prefix)
        return page(found, offset, limit, settings.contexts_default_limit, settings.contexts_max_limit)

    def aliased(self, subject: str) -> str:
        """The subject that `/subjects/{subject}` and `?subject=` refer to: an alias stands for its target."""
        return configuring.aliased(self._state, subject)

    def greatest_id(self, context: str = DEFAULT_CONTEXT) -> int:
        """The greatest id ever seen in a context; 0 if there was none."""
        return self._state.image.greatest_id(context)

    # Pages.

    def _subjects_page(self, found: Sequence[Json], offset: int, limit: int) -> Json:
        settings = self._state.settings
        return page(found, offset, limit, settings.subjects_default_limit, settings.subjects_max_limit)

    def _versions_page(self, found: Sequence[Json], offset: int, limit: int) -> Json:
        settings = self._state.settings
        return page(found, offset, limit, settings.versions_default_limit, settings.versions_max_limit)

    def _schemas_page(self, found: Sequence[_Item], offset: int, limit: int) -> list[_Item]:
        settings = self._state.settings
        return page(found, offset, limit, settings.schemas_default_limit, settings.schemas_max_limit)
