"""The differences between the drafts of JSON Schema that affect compatibility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from referencing import Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from penstock.registry.formats.json_text import Json

_ARRAYS: Final = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems")
_OBJECTS: Final = (
    *("properties", "required", "minProperties", "maxProperties", "dependencies", "patternProperties"),
    "additionalProperties",
)
_STRINGS: Final = ("minLength", "maxLength", "pattern")
NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


@dataclass(frozen=True, slots=True)
class Draft:
    """One draft: its keywords, grouped by the kind of schema that they imply."""

    name: str
    specification: Specification[Json]
    arrays: tuple[str, ...]
    objects: tuple[str, ...]
    strings: tuple[str, ...] = (*_STRINGS, "format")
    has_const: bool = True
    has_conditions: bool = True
    # Since 2019-09 $ref may have siblings, unevaluated… keywords apply, and dependencies are two keywords.
    is_modern: bool = False
    id_keyword: str = "$id"


_MODERN_ARRAYS: Final = (*_ARRAYS, "contains", "minContains", "maxContains", "unevaluatedItems")
_MODERN_OBJECTS: Final = (
    *(keyword for keyword in _OBJECTS if keyword != "dependencies"),
    *("propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
)
_DRAFT_4: Final = Draft(
    "draft-04", DRAFT4, _ARRAYS, _OBJECTS, has_const=False, has_conditions=False, id_keyword="id"
)
_DRAFT_6: Final = Draft(
    "draft-06", DRAFT6, (*_ARRAYS, "contains"), (*_OBJECTS, "propertyNames"), has_conditions=False
)
_DRAFT_7: Final = Draft("draft-07", DRAFT7, _DRAFT_6.arrays, _DRAFT_6.objects)
_DRAFT_2019: Final = Draft(
    "draft/2019-09", DRAFT201909, _MODERN_ARRAYS, _MODERN_OBJECTS, _STRINGS, is_modern=True
)
_DRAFT_2020: Final = Draft(
    "draft/2020-12", DRAFT202012, ("prefixItems", *_MODERN_ARRAYS), _MODERN_OBJECTS, _STRINGS, is_modern=True
)
_DRAFTS: Final = {each.name: each for each in (_DRAFT_4, _DRAFT_6, _DRAFT_7, _DRAFT_2019, _DRAFT_2020)}


def draft_of(document: Json) -> Draft:
    """Return the draft that `$schema` names.

    A missing or unknown name means draft 7, as in Confluent's registry.
    """
    name = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(name, str):
        return _DRAFT_7
    path = name.removesuffix("#").removesuffix("/schema").split("json-schema.org/")[-1]
    return (
        _DRAFT_4
        if path == "json-schema.org" or path.endswith("//json-schema.org")
        else _DRAFTS.get(path, _DRAFT_7)
    )
