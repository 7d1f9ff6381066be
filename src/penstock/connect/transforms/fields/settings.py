"""Settings that several transforms of fields share."""

from __future__ import annotations

from typing import Final

from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import CaseInsensitiveValidString

REPLACE_NULL: Final = "replace.null.with.default"
SYNTAX_VERSION: Final = "field.syntax.version"


def define_replace_null(definition: ConfigDef) -> ConfigDef:
    """Add the key that decides about missing values to a definition, and return it."""
    return definition.define(
        REPLACE_NULL,
        ConfigType.BOOLEAN,
        True,
        doc="Whether fields without a value get the default of their schema. Otherwise they stay null.",
    )


def define_syntax_version(definition: ConfigDef) -> ConfigDef:
    """Add the key that selects the syntax of names (see `paths`) to a definition, and return it."""
    return definition.define(
        SYNTAX_VERSION,
        ConfigType.STRING,
        "V1",
        CaseInsensitiveValidString("V1", "V2"),
        Importance.HIGH,
        "The syntax of field names. With V1, a name is that of a field at the top. With V2, a dot separates "
        "the name of a field from that of a field inside it, and backticks around a name keep its dots.",
    )
