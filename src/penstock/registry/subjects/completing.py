"""Complete a request with defaults from the previous version and from the configuration."""

from __future__ import annotations

from dataclasses import replace

from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.contracts import (
    CONFLUENT_VERSION,
    Metadata,
    merged_metadata,
    merged_rule_sets,
)
from penstock.registry.subjects.errors import invalid_schema
from penstock.registry.subjects.records import SchemaValue
from penstock.registry.subjects.schemas import Asked


def completed(config: Config, request: Asked, previous: SchemaValue | None, version: int | None) -> Asked:
    """Return the request with the parts that the previous version and the configuration add.

    ``version`` is None if no schema is being registered.
    """
    if request.is_empty and version is not None:
        if previous is None:
            invalid_schema("Empty schema")
        request = replace(
            request,
            schema=previous.schema,
            schema_type=previous.schema_type,
            references=previous.references,
        )
    metadata, rule_set = request.metadata, request.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    metadata = merged_metadata(merged_metadata(config.defaultMetadata, metadata), config.overrideMetadata)
    rule_set = merged_rule_sets(merged_rule_sets(config.defaultRuleSet, rule_set), config.overrideRuleSet)
    says_version = metadata is not None and metadata.property(CONFLUENT_VERSION) is not None
    if version is not None and (request.version != 0 or says_version):
        metadata = (metadata or Metadata()).with_version(version)
    return replace(request, metadata=metadata, rule_set=rule_set)
