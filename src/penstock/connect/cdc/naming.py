"""Names of topics, schemas and fields, as Debezium's default strategies make them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from penstock.connect.errors import ConnectError

_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._\-]")
_VALID: Final = {
    ("avro", False): r"[a-zA-Z0-9_.]",
    ("avro", True): r"[a-zA-Z0-9_]",
    ("avro_unicode", False): r"[a-zA-Z0-9.]",
    ("avro_unicode", True): r"[a-zA-Z0-9]",
}
"""The characters that stay, by mode and whether the name is a field's. A digit never stays at the front."""


def data_topic(prefix: str, schema: str, table: str) -> str:
    """The topic of a table's changes."""
    return topic_of(f"{prefix}.{schema}.{table}")


def topic_of(name: str) -> str:
    """A name whose characters all topics may have."""
    return _NOT_IN_TOPICS.sub("_", name)


def adjuster(mode: str, is_field: bool) -> Callable[[str], str]:
    """The function for ``schema.name.adjustment.mode`` or ``field.name.adjustment.mode``.

    `avro` replaces what Avro's names may not have with ``_``, `avro_unicode` with ``_u`` and the character's
    code, the underscore included. Raises ConnectError for another mode than these and `none`.
    """
    if mode == "none":
        return lambda name: name
    pattern = _VALID.get((mode, is_field))
    if pattern is None:
        raise ConnectError(f"the adjustment mode of names is {mode!r}; expected none, avro or avro_unicode")
    valid = re.compile(pattern)

    def adjust(name: str) -> str:
        made = [each if valid.match(each) else _replacement(mode, each) for each in name]
        if name[:1].isdigit():
            made[0] = _replacement(mode, name[0]) + (name[0] if mode == "avro" else "")
        return "".join(made)

    return adjust


def _replacement(mode: str, character: str) -> str:
    return "_" if mode == "avro" else f"_u{ord(character):04x}"
