"""Definitions of configurations from tables of keys, and configurations as text again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance, Password
from penstock.connect.definitions.validators import CaseInsensitiveValidString, NonEmptyString, Range


def define_keys(
    made: ConfigDef,
    required: Mapping[str, str],
    texts: Mapping[str, tuple[str | None, str]],
    choices: Mapping[str, tuple[tuple[str, ...], str, str]],
    switches: Mapping[str, tuple[bool, str]],
    numbers: Mapping[str, tuple[int, int, str]],
) -> None:
    """Define keys, each with its default, what is allowed, and its documentation; and the password."""
    for name, doc in required.items():
        made.define(name, ConfigType.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc=doc)
    made.define("database.password", ConfigType.PASSWORD, Password(""), doc="The user's password.")
    for name, (text, doc) in texts.items():
        made.define(name, ConfigType.STRING, text, doc=doc)
    for name, (allowed, choice, doc) in choices.items():
        made.define(name, ConfigType.STRING, choice, CaseInsensitiveValidString(*allowed), doc=doc)
    for name, (is_on, doc) in switches.items():
        made.define(name, ConfigType.BOOLEAN, is_on, doc=doc)
    for name, (number, least, doc) in numbers.items():
        made.define(name, ConfigType.INT, number, Range(least), doc=doc)


def texts_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The configuration as text again, from parsed values and others."""
    return {name: _text(value) for name, value in config.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, Password):
        return value.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
