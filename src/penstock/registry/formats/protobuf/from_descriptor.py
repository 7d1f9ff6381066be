"""Convert a client's FileDescriptorProto to a file, in the order in which Confluent prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FieldDescriptor

from penstock.registry.formats.errors import SchemaError
from penstock.registry.formats.protobuf.model import (
    Constant,
    EnumType,
    Extend,
    Field,
    File,
    Kind,
    Message,
    OneOf,
    Option,
    Reserved,
    Rpc,
    Service,
    Word,
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABELS: Final = {1: "optional", 2: "required", 3: "repeated"}
_FILE_OPTIONS: Final = (
    *("java_package", "java_outer_classname", "java_multiple_files", "java_generate_equals_and_hash"),
    *("java_string_check_utf8", "optimize_for", "go_package", "cc_generic_services", "java_generic_services"),
    *("py_generic_services", "deprecated", "cc_enable_arenas", "objc_class_prefix", "csharp_namespace"),
    *(
        "swift_prefix",
        "php_class_prefix",
        "php_namespace",
        "php_metadata_namespace",
        "ruby_package",
        "features",
    ),
)
_FIELD_OPTIONS: Final = ("ctype", "packed", "jstype")  # the others follow by number
_DESCRIPTOR: Final = descriptor_pb2.FieldDescriptorProto
# the order in which Confluent's converters once wrote parameters of decimals
_VALUE_FIRST: Final = ("precision", "scale")

# Messages of our own pools or of the library's; their types are created at run time.
Proto = Any


def file_of(descriptor: Proto) -> File:
    """Return the file that a descriptor describes. Raises SchemaError if the descriptor is damaged."""
    try:
        return _file(descriptor)
    except (IndexError, KeyError) as error:
        raise SchemaError(f"the descriptor of the file {descriptor.name!r} is damaged: {error}") from None


def _file(descriptor: Proto) -> File:
    dependencies = list(descriptor.dependency)
    public, weak = set(descriptor.public_dependency), set(descriptor.weak_dependency)
    syntax = descriptor.syntax or None
    if syntax == "editions":
        syntax = "edition:" + descriptor_pb2.Edition.Name(descriptor.edition).removeprefix("EDITION_")
    has_labels = syntax in (None, "proto2")
    types = [_message(each, has_labels) for each in descriptor.message_type]
    return File(
        syntax=syntax,
        package=descriptor.package or None,
        imports=[path for i, path in enumerate(dependencies) if i not in public and i not in weak],
        public_imports=[dependencies[i] for i in sorted(public)],
        weak_imports=[dependencies[i] for i in sorted(weak)],
        types=[*types, *map(_enum, descriptor.enum_type)],
        services=[_service(each) for each in descriptor.service],
        extends=_extends(descriptor.extension, has_labels),
        options=_options(descriptor.options, _FILE_OPTIONS),
    )


def _message(descriptor: Proto, has_labels: bool) -> Message:
    _check_names(descriptor, *descriptor.field, *descriptor.oneof_decl, *descriptor.extension)
    oneofs = [OneOf(each.name, options=_options(each.options)) for each in descriptor.oneof_decl]
    fields = []
    for each in descriptor.field:
        if each.HasField("oneof_index") and not each.proto3_optional:
            oneofs[each.oneof_index].fields.append(_field(each, has_labels, in_oneof=True))
        else:
            fields.append(_field(each, has_labels))
    nested = [_message(each, has_labels) for each in descriptor.nested_type]
    reserved = [Reserved([_span(each.start, each.end - 1)]) for each in descriptor.reserved_range]
    return Message(
        descriptor.name,
        types=[*nested, *map(_enum, descriptor.enum_type)],
        fields=fields,
        oneofs=[each for each in oneofs if each.fields],
        reserved=[*reserved, *(Reserved([name]) for name in descriptor.reserved_name)],
        extensions=[
            Reserved([_span(each.start, each.end - 1)], _options(each.options))
            for each in descriptor.extension_range
        ],
        extends=_extends(descriptor.extension, has_labels),
        options=_options(descriptor.options),
    )


def _field(descriptor: Proto, has_labels: bool, *, in_oneof: bool = False) -> Field:
    label: str | None = _LABELS.get(descriptor.label)
    if in_oneof or (not has_labels and label != "repeated" and not descriptor.proto3_optional):
        label = None
    kind = descriptor.type_name or _DESCRIPTOR.Type.Name(descriptor.type).removeprefix("TYPE_").lower()
    has_default = descriptor.HasField("default_value")
    return Field(
        label,
        kind,
        descriptor.name,
        descriptor.number,
        _options(descriptor.options, _FIELD_OPTIONS),
        descriptor.default_value if has_default else None,
        descriptor.json_name if descriptor.HasField("json_name") else None,
    )


def _extends(fields: Iterable[Proto], has_labels: bool) -> list[Extend]:
    extends: dict[str, Extend] = {}
    for each in fields:
        extends.setdefault(each.extendee, Extend(each.extendee)).fields.append(_field(each, has_labels))
    return list(extends.values())


def _enum(descriptor: Proto) -> EnumType:
    _check_names(descriptor, *descriptor.value)
    reserved = [Reserved([_span(each.start, each.end)]) for each in descriptor.reserved_range]
    return EnumType(
        descriptor.name,
        [Constant(each.name, each.number, _options(each.options)) for each in descriptor.value],
        [*reserved, *(Reserved([name]) for name in descriptor.reserved_name)],
        _options(descriptor.options),
    )


def _service(descriptor: Proto) -> Service:
    _check_names(descriptor, *descriptor.method)
    rpcs = [
        Rpc(
            each.name,
            each.input_type,
            each.output_type,
            each.client_streaming,
            each.server_streaming,
            _options(each.options),
        )
        for each in descriptor.method
    ]
    return Service(descriptor.name, rpcs, _options(descriptor.options))


def _check_names(*descriptors: Proto) -> None:
    """Check that names are valid, since a descriptor may contain any text in their place."""
    for each in descriptors:
        if not isinstance(each.name, str) or not _NAME.fullmatch(each.name):
            raise SchemaError(f"the descriptor is not a valid Protobuf file: found the name {each.name!r}")


def _span(first: int, last: int) -> int | tuple[int, int]:
    return first if first == last else (first, last)


# -- options -----------------------------------------------------------------------------------------


def _options(options: Proto, first: tuple[str, ...] = ()) -> list[Option]:
    """Convert options: plain ones first, then extensions.

    Among plain options those in ``first`` come first, among extensions Confluent's.
    """
    fields = options.ListFields()

    def order(item: tuple[FieldDescriptor, Any]) -> tuple[bool, bool, int]:
        field, _ = item
        is_ours = field.is_extension and field.full_name.startswith("confluent.")
        place = first.index(field.name) if field.name in first else len(first) + field.number
        return field.is_extension, not is_ours, place

    found = []
    for field, value in sorted(fields, key=order):
        name = field.full_name if field.is_extension else field.name
        if field.name in ("uninterpreted_option", "declaration") and not field.is_extension:
            continue
        values = list(value) if _is_repeated(field) and not _is_map(field) else [value]
        found += [_option(name, field, each) for each in values]
    return found


def _option(name: str, field: FieldDescriptor, value: Any) -> Option:
    plain = _value(field, value)
    if isinstance(plain, dict):
        return Option(name, Kind.MAP, plain, field.is_extension)
    if isinstance(plain, Word):
        return Option(name, plain.kind, plain.text, field.is_extension)
    kind = Kind.LIST if isinstance(plain, list) else Kind.STRING
    return Option(name, kind, plain, field.is_extension)


def _value(field: FieldDescriptor, value: Any) -> Any:
    """Convert a field's value to the form it has in a message literal."""
    if field.message_type is not None and not _is_map(field):
        return {_key(each): _values(each, inner) for each, inner in value.ListFields()}
    if _is_map(field):
        return _entries(field, value)
    if field.enum_type is not None:
        constant = field.enum_type.values_by_number.get(value)
        return Word(
            Kind.ENUM if constant is not None else Kind.NUMBER, constant.name if constant else str(value)
        )
    if isinstance(value, bool):
        return Word(Kind.BOOLEAN, "true" if value else "false")
    if isinstance(value, int | float):
        return Word(Kind.NUMBER, str(value))
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _values(field: FieldDescriptor, value: Any) -> Any:
    if _is_repeated(field) and not _is_map(field):
        return [_value(field, each) for each in value]
    return _value(field, value)


def _entries(field: FieldDescriptor, value: Any) -> list[Any]:
    key, content = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    entries = []
    for each in value:
        pair = {"key": _value(key, each), "value": _value(content, value[each])}
        entries.append(dict(reversed(pair.items())) if each in _VALUE_FIRST else pair)
    return entries


def _key(field: FieldDescriptor) -> str:
    return f"[{field.full_name}]" if field.is_extension else field.name


def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return message is not None and bool(message.GetOptions().map_entry)
