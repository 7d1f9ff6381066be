"""Read the keys of a configuration from a table, so that long lists of keys stay readable.

A line defines one key: its name, type and importance, and its default unless it is required. A line after it
that begins with @ has the place of the key in a user interface: group, order, width and display name. The
other indented lines are the documentation:

    errors.tolerance: STRING MEDIUM = none
        @ Error Handling, 3, SHORT, Error Tolerance
        Whether a record that fails also fails the task (none), or is skipped (all).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connect.definitions.config_def import REQUIRED, ConfigDef, ConfigType, Importance, Width
from penstock.connect.definitions.config_key import Recommender, Validator

KEY: Final = re.compile(r"(?P<name>\S+): (?P<type>\w+) (?P<importance>\w+)(?P<default> =.*)?")
PLACE: Final = re.compile(r"@ (?P<group>.+), (?P<order>\d+), (?P<width>\w+), (?P<title>.+)")
NULL: Final = "null"
"""In place of a default: the key is not required, and has no value unless it is configured."""


@dataclass(slots=True)
class Entry:
    """One key of a table: its first line, its place if it has one, and its documentation."""

    key: re.Match[str]
    place: re.Match[str] | None = None
    doc: list[str] = field(default_factory=list)

    @property
    def default(self) -> Any:
        if self.key["default"] is None:
            return REQUIRED
        text = self.key["default"].removeprefix(" =").strip()
        return None if text == NULL else text


def define_table(
    definition: ConfigDef,
    table: str,
    validators: Mapping[str, Validator] | None = None,
    recommenders: Mapping[str, Recommender] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> ConfigDef:
    """Add the keys of a table to a definition, and return it.

    The mappings have the validators and recommenders of some keys, and defaults that replace the table's.
    """
    for entry in read_table(table):
        name, place = entry.key["name"], entry.place
        definition.define(
            name,
            ConfigType[entry.key["type"]],
            (defaults or {}).get(name, entry.default),
            (validators or {}).get(name),
            Importance[entry.key["importance"]],
            " ".join(entry.doc),
            group=None if place is None else place["group"],
            order=-1 if place is None else int(place["order"]),
            width=Width.NONE if place is None else Width[place["width"]],
            display_name=None if place is None else place["title"],
            recommender=(recommenders or {}).get(name),
        )
    return definition


def read_table(table: str) -> Iterator[Entry]:
    entry: Entry | None = None
    for line in table.strip().splitlines():
        if (found := KEY.fullmatch(line)) is not None:
            if entry is not None:
                yield entry
            entry = Entry(found)
            continue
        assert entry is not None, line
        assert line.startswith(" "), line
        if (place := PLACE.fullmatch(line.strip())) is not None:
            entry.place = place
        else:
            entry.doc.append(line.strip())
    if entry is not None:
        yield entry
