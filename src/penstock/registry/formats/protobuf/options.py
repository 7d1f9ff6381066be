"""Normalize options: full names, sorted, and one value for each message."""

from __future__ import annotations

from typing import Any

from penstock.java.strings import utf16
from penstock.registry.formats.protobuf.model import Field, Kind, Message, Option, Word
from penstock.registry.formats.protobuf.names import Names


def normal_options(options: list[Option], names: Names, scope: str) -> list[Option]:
    """Return options sorted by name, with their parts merged.

    `(option).part = …` becomes `(option) = { part: … }`. If an option that is not repeated is set part by
    part, the parts become one message.
    """
    groups: dict[tuple[bool, str], list[Option]] = {}
    for option in sorted((_full(each, names, scope) for each in options), key=lambda each: utf16(each.name)):
        groups.setdefault((option.is_extension, option.name), []).append(option)
    result: list[Option] = []
    for (is_extension, name), group in groups.items():
        field = names.extensions.get(name) if is_extension else None
        if field is not None and field.label != "repeated" and len(group) > 1:
            last = group[-1]
            is_message = all(each.kind is Kind.MAP for each in group)
            value = _merged(field, [each.value for each in group], names, name) if is_message else last.value
            group = [Option(name, last.kind, value, is_extension=True)]
        result += group
    return [
        Option(each.name, each.kind, _ordered(each.value, names, scope), each.is_extension) for each in result
    ]


def _full(option: Option, names: Names, scope: str) -> Option:
    if not option.is_extension:
        return option
    full = names.extension(option.name, scope)
    if full is None:
        return option
    if option.kind is Kind.OPTION:
        return Option(full, Kind.MAP, _part(option.value), is_extension=True)
    return Option(full, option.kind, option.value, is_extension=True)


def _part(option: Option) -> dict[str, Any]:
    """Convert `part = value` to `{ part: value }`, and `(part) = value` to `{ [part]: value }`."""
    name = f"[{option.name[1:-1]}]" if option.name.startswith("(") else option.name
    if option.kind is Kind.OPTION:
        return {name: _part(option.value)}
    if option.kind in (Kind.BOOLEAN, Kind.ENUM, Kind.NUMBER):
        return {name: Word(option.kind, option.value)}
    return {name: option.value}


def _merged(
    container: Field | None, literals: list[dict[str, Any]], names: Names, scope: str
) -> dict[str, Any]:
    """Merge message literals.

    Repeated fields are concatenated and messages are merged; for other fields the last value counts.
    """
    gathered: dict[str, list[Any]] = {}
    for literal in literals:
        for name, value in literal.items():
            gathered.setdefault(name, []).append(value)
    result: dict[str, Any] = {}
    for name, values in gathered.items():
        field = _member(container, name, names, scope)
        if len(values) == 1:
            result[name] = values[0]
        elif field is None or field.label == "repeated":
            items = [item for value in values for item in (value if isinstance(value, list) else [value])]
            result[name] = list({repr(item): item for item in items}.values())
        elif all(isinstance(value, dict) for value in values):
            result[name] = _merged(field, values, names, scope)
        else:
            result[name] = values[-1]
    return result


def _member(container: Field | None, name: str, names: Names, scope: str) -> Field | None:
    known = names.known(container.type, scope) if container is not None else None
    if known is None or not isinstance(known.type, Message):
        return None
    fields = [*known.type.fields, *(field for oneof in known.type.oneofs for field in oneof.fields)]
    return next((field for field in fields if field.name == name), None)


def _ordered(value: Any, names: Names, scope: str) -> Any:
    """Return a value with the fields of messages sorted and without empty lists."""
    match value:
        case dict():
            pairs = {
                _key(name, names, scope): _ordered(each, names, scope)
                for name, each in value.items()
                if each != []
            }
            return {name: pairs[name] for name in sorted(pairs, key=utf16)}
        case list():
            return [_ordered(each, names, scope) for each in value]
    return value


def _key(name: str, names: Names, scope: str) -> str:
    full = names.extension(name[1:-1], scope) if name.startswith("[") else None
    return name if full is None else f"[{full}]"
