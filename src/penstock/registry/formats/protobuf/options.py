"""Options in their normal form: full names, messages in one piece, in order."""

from __future__ import annotations

from typing import Any

from penstock.registry.formats.json_text import utf16
from penstock.registry.formats.protobuf.model import Field, Kind, Message, Option, Word
from penstock.registry.formats.protobuf.names import Names


def normal_options(options: list[Option], names: Names, scope: str) -> list[Option]:
    """Options by name. `(option).part = …` becomes `(option) = { part: … }`, and what is set part by part,
    one message: as often as an option may come only once.
    """
    result: list[Option] = []
    for option in sorted((_full(each, names, scope) for each in options), key=lambda each: utf16(each.name)):
        field = names.extensions.get(option.name) if option.is_extension else None
        before = result[-1] if result else None
        is_again = (
            before is not None
            and before.name == option.name
            and field is not None
            and field.label != "repeated"
        )
        if before is not None and is_again:
            value = option.value
            if before.kind is option.kind is Kind.MAP:
                value = _merged(field, before.value, option.value, names, option.name)
            result[-1] = Option(option.name, option.kind, value, is_extension=True)
        else:
            result.append(option)
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
    """`part = value` as `{ part: value }`."""
    if option.kind is Kind.OPTION:
        return {option.name: _part(option.value)}
    if option.kind in (Kind.BOOLEAN, Kind.ENUM, Kind.NUMBER):
        return {option.name: Word(option.kind, option.value)}
    return {option.name: option.value}


def _merged(
    container: Field | None, before: dict[str, Any], after: dict[str, Any], names: Names, scope: str
) -> dict[str, Any]:
    result = dict(before)
    for name, value in after.items():
        field = _member(container, name, names, scope)
        if name not in result:
            result[name] = value
        elif field is None or field.label == "repeated":
            values = [*_as_list(result[name]), *_as_list(value)]
            result[name] = [each for i, each in enumerate(values) if each not in values[:i]]
        elif isinstance(result[name], dict) and isinstance(value, dict):
            result[name] = _merged(field, result[name], value, names, scope)
        else:
            result[name] = value
    return result


def _member(container: Field | None, name: str, names: Names, scope: str) -> Field | None:
    known = names.known(container.type, scope) if container is not None else None
    if known is None or not isinstance(known.type, Message):
        return None
    fields = [*known.type.fields, *(field for oneof in known.type.oneofs for field in oneof.fields)]
    return next((field for field in fields if field.name == name), None)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _ordered(value: Any, names: Names, scope: str) -> Any:
    """Messages with their parts in order, lists without anything left out."""
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
