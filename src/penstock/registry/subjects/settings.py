"""The settings of an operator, with Confluent's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIMIT_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that affect a registry's answers."""

    compatibility_level: str = "BACKWARD"  # schema.compatibility.level
    mode: str = "READWRITE"
    allows_mode_changes: bool = True  # mode.mutability
    validates_fields: bool = False  # schema.validate.fields
    validates_new_schemas: bool = True  # schema.validate.new.schemas
    rejects_empty_subject: bool = False  # schema.reject.empty.subject
    subjects_default_limit: int = LIMIT_MAX  # *.search.default.limit
    subjects_max_limit: int = LIMIT_MAX
    schemas_default_limit: int = 1_000
    schemas_max_limit: int = 1_000
    versions_default_limit: int = LIMIT_MAX
    versions_max_limit: int = LIMIT_MAX
    contexts_default_limit: int = LIMIT_MAX
    contexts_max_limit: int = LIMIT_MAX
    schema_bytes_max: int = 1_048_576
