"""The keys of sources, besides those of every connector."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.configs.connector import ConnectorDefaults, connector_definition, unique_aliases
from penstock.connect.configs.key_table import define_table
from penstock.connect.configs.tables import connectors
from penstock.connect.configs.topic_creation import GROUPS
from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.definitions.config_key import Validator
from penstock.connect.definitions.validators import (
    CaseInsensitiveValidString,
    DescribedValidator,
    NonEmptyString,
    Range,
)

EXACTLY_ONCE_SUPPORT: Final = "exactly.once.support"
TRANSACTION_BOUNDARY: Final = "transaction.boundary"
OFFSETS_TOPIC: Final = "offsets.storage.topic"
NOT_NEGATIVE: Final = Range(0)


def check_interval(name: str, value: Any) -> None:
    if value is not None:
        NOT_NEGATIVE(name, value)


VALIDATORS: Final[dict[str, Validator]] = {
    GROUPS: unique_aliases("topic creation groups"),
    EXACTLY_ONCE_SUPPORT: CaseInsensitiveValidString("requested", "required"),
    TRANSACTION_BOUNDARY: CaseInsensitiveValidString("poll", "interval", "connector"),
    "transaction.boundary.interval.ms": DescribedValidator(check_interval, str(NOT_NEGATIVE)),
    OFFSETS_TOPIC: NonEmptyString(),
}


def source_definition(defaults: ConnectorDefaults | None = None) -> ConfigDef:
    """The keys of every source, with the defaults of a worker if they are given."""
    return define_table(connector_definition(defaults), connectors.SOURCE, VALIDATORS)
