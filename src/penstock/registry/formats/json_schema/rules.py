"""Confluent's names of differences between JSON schemas, with their meaning and which keep old data valid."""

from __future__ import annotations

from typing import Final

_LIMITS_UP: Final = (
    "MAX_LENGTH",
    "MAXIMUM",
    "EXCLUSIVE_MAXIMUM",
    "MAX_PROPERTIES",
    "MAX_ITEMS",
    "MAX_CONTAINS",
)
_LIMITS_DOWN: Final = (
    "MIN_LENGTH",
    "MINIMUM",
    "EXCLUSIVE_MINIMUM",
    "MIN_PROPERTIES",
    "MIN_ITEMS",
    "MIN_CONTAINS",
)

COMPATIBLE: Final = frozenset(
    [
        *("ID_CHANGED", "DESCRIPTION_CHANGED", "TITLE_CHANGED", "DEFAULT_CHANGED", "SCHEMA_REMOVED"),
        *("TYPE_EXTENDED", "PATTERN_REMOVED", "UNIQUE_ITEMS_REMOVED"),
        *(f"{limit}_{change}" for limit in _LIMITS_UP for change in ("INCREASED", "REMOVED")),
        *(f"{limit}_{change}" for limit in _LIMITS_DOWN for change in ("DECREASED", "REMOVED")),
        *("MULTIPLE_OF_REDUCED", "MULTIPLE_OF_REMOVED"),
        *("REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED", "REQUIRED_ATTRIBUTE_REMOVED"),
        *("DEPENDENCY_ARRAY_NARROWED", "DEPENDENCY_ARRAY_REMOVED", "DEPENDENCY_SCHEMA_REMOVED"),
        *(
            f"{part}_{change}"
            for part in (
                "ADDITIONAL_PROPERTIES",
                "UNEVALUATED_PROPERTIES",
                "ADDITIONAL_ITEMS",
                "UNEVALUATED_ITEMS",
            )
            for change in ("ADDED", "EXTENDED")
        ),
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        *(
            f"{part}_{change}"
            for part in ("PROPERTY", "ITEM")
            for change in (
                "WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
                "REMOVED_FROM_OPEN_CONTENT_MODEL",
                "ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                "REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            )
        ),
        *("ENUM_ARRAY_EXTENDED", "COMBINED_TYPE_EXTENDED", "PRODUCT_TYPE_NARROWED", "SUM_TYPE_EXTENDED"),
        "NOT_TYPE_NARROWED",
    ]
)
LENIENT: Final = COMPATIBLE | {
    *("ADDITIONAL_PROPERTIES_NARROWED", "ADDITIONAL_PROPERTIES_REMOVED"),
    *("UNEVALUATED_PROPERTIES_NARROWED", "UNEVALUATED_PROPERTIES_REMOVED"),
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}

_SAID: Final = {
    "SCHEMA_ADDED": "the {reader} schema has a constraint at {path} where the {writer} schema has none",
    "TYPE_CHANGED": "the {reader} schema has another type at {path} than the {writer} schema",
    "TYPE_NARROWED": "the {reader} schema accepts only integers at {path}, the {writer} schema any number",
    "PATTERN_CHANGED": "the {reader} schema has another pattern at {path} than the {writer} schema",
    "MULTIPLE_OF_EXPANDED": "the {reader} schema has a larger step at {path} than the {writer} schema",
    "MULTIPLE_OF_CHANGED": "the {reader} schema has another step at {path} than the {writer} schema",
    "REQUIRED_ATTRIBUTE_ADDED": (
        "the {reader} schema requires the property at {path}, the {writer} schema does not"
    ),
    "DEPENDENCY_ARRAY_EXTENDED": (
        "the {reader} schema needs more properties at {path} than the {writer} schema"
    ),
    "DEPENDENCY_ARRAY_CHANGED": (
        "the {reader} schema needs other properties at {path} than the {writer} schema"
    ),
    "ENUM_ARRAY_NARROWED": "the {reader} schema lacks values at {path} that the {writer} schema has",
    "ENUM_ARRAY_CHANGED": "the {reader} schema has other values at {path} than the {writer} schema",
    "COMBINED_TYPE_CHANGED": (
        "the {reader} schema combines schemas in another way at {path} than the {writer} schema"
    ),
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": (
        "at {path} not every schema that the {writer} schema combines has a match of its own in the {reader} "
        "schema"
    ),
    "PRODUCT_TYPE_EXTENDED": (
        "the {reader} schema requires more schemas in its allOf at {path} than the {writer} schema"
    ),
    "SUM_TYPE_NARROWED": "the {reader} schema has fewer alternatives at {path} than the {writer} schema",
    "NOT_TYPE_EXTENDED": "the {reader} schema forbids more at {path} than the {writer} schema",
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "the {reader} schema requires a property at {path} that the {writer} schema, a closed content model, "
        "doesn't have"
    ),
}
_ENDINGS: Final = {
    "_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "the property or item at {path} is in one schema only, and the partially open content model of the "
        "other doesn't cover it ({reader} and {writer})"
    ),
    "_REMOVED_FROM_CLOSED_CONTENT_MODEL": (
        "the {reader} schema, a closed content model, lacks the property or item at {path} of the {writer} "
        "schema"
    ),
    "_ADDED_TO_OPEN_CONTENT_MODEL": (
        "the {reader} schema has a property or item at {path} that the {writer} schema, an open content "
        "model, accepts in any form"
    ),
    "_INCREASED": "the {reader} schema has a larger limit at {path} than the {writer} schema",
    "_DECREASED": "the {reader} schema has a smaller limit at {path} than the {writer} schema",
    "_NARROWED": "the {reader} schema accepts less at {path} than the {writer} schema",
    "_REMOVED": "the {reader} schema accepts nothing more at {path}, unlike the {writer} schema",
    "_ADDED": "the {reader} schema has a keyword at {path} that the {writer} schema lacks",
}


def description(rule: str) -> str:
    """Describe a broken rule."""
    if rule in _SAID:
        return _SAID[rule]
    return next(text for ending, text in _ENDINGS.items() if rule.endswith(ending))
