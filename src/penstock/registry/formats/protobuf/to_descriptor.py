"""Convert a file to a FileDescriptorProto, which clients request with `format=serialized`.

Google's library checks the result and encodes extension options. Each schema needs a pool of its own, because
two schemas may use the same name for different messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, message_factory, text_format
from google.protobuf.descriptor_pool import DescriptorPool

from penstock.registry.formats.errors import SchemaError
from penstock.registry.formats.protobuf.builtin import builtin_files
from penstock.registry.formats.protobuf.from_descriptor import Proto, file_of
from penstock.registry.formats.protobuf.model import (
    SCALARS,
    EnumType,
    Extend,
    Field,
    File,
    Group,
    Kind,
    Message,
    Option,
    Reserved,
    Rpc,
    Service,
    Word,
)
from penstock.registry.formats.protobuf.names import Names, joined
from penstock.registry.formats.protobuf.text import quoted

FILE_NAME: Final = "default"  # the name that Confluent's registry uses
_DESCRIPTOR_PATH: Final = "google/protobuf/descriptor.proto"
_META_PATH: Final = "confluent/meta.proto"
_TYPES: Final = descriptor_pb2.FieldDescriptorProto.Type
_LABELS: Final = {None: 1, "optional": 1, "required": 2, "repeated": 3}


def serialized(file: File, names: Names, imported: Mapping[str, File]) -> bytes:
    """Return the serialized descriptor. Raises SchemaError if the file is not valid."""
    pool = _pool(_imports(file), names, imported)
    return bytes(_built(file, FILE_NAME, names, pool).SerializeToString(deterministic=True))


def file_set(file: File, names: Names, imported: Mapping[str, File]) -> bytes:
    """Return a serialized FileDescriptorSet with all imports, and the file last."""
    pool = _pool(_imports(file), names, imported)
    _built(file, FILE_NAME, names, pool)
    found: dict[str, bytes] = {}

    def add(path: str) -> None:
        descriptor = pool.FindFileByName(path)
        for needed in descriptor.dependencies:
            if needed.name not in found:
                add(needed.name)
        found[path] = descriptor.serialized_pb

    add(FILE_NAME)
    files = [descriptor_pb2.FileDescriptorProto.FromString(data) for data in found.values()]
    return bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())


def parsed(data: bytes, imported: Mapping[str, File]) -> File:
    """Return the file of a serialized descriptor."""
    sent = descriptor_pb2.FileDescriptorProto.FromString(data)
    imports = [*sent.dependency, *([_META_PATH] if sent.package != "confluent" else [])]
    pool = _pool(imports, Names(File(), {**builtin_files(), **imported}), imported)
    descriptor = _class(pool, "FileDescriptorProto")()
    descriptor.ParseFromString(data)
    # After the pool has the file, it knows the options that the file itself defines.
    with suppress(TypeError, ValueError):
        pool.AddSerializedFile(data)
        descriptor.ParseFromString(data)
    return file_of(descriptor)


def _pool(imports: Iterable[str], names: Names, imported: Mapping[str, File]) -> DescriptorPool:
    """Build a pool with all direct and indirect imports of a schema.

    Built-in files that no file imports are left out, because clients register them as schemas too. A
    reference with the path of a built-in file replaces that file.
    """
    builtin = {path: data for path, data in _builtin_descriptors().items() if path not in imported}
    pool = DescriptorPool()
    pool.AddSerializedFile(_builtin_descriptors()[_DESCRIPTOR_PATH])
    given = {path: file for path, file in imported.items() if path != _DESCRIPTOR_PATH}
    instead = [path for path in given if path in builtin_files()]
    for path in instead:
        _built(given.pop(path), path, names, pool)
    needed = _needed(imports, imported)
    for path, data in builtin.items():
        if path in needed and path != _DESCRIPTOR_PATH:
            pool.AddSerializedFile(data)
    for path, file in given.items():
        _built(file, path, names, pool)
    return pool


def _needed(imports: Iterable[str], imported: Mapping[str, File]) -> set[str]:
    found: set[str] = set()
    waiting = [*imports, *imported]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            file = imported.get(path, builtin_files().get(path))
            waiting += _imports(file) if file is not None else []
    return found


def _imports(file: File) -> list[str]:
    """Return the imports, plus the file of Confluent's options if one is used.

    Confluent's converters leave that import out.
    """
    if _META_PATH in file.all_imports or file.package == "confluent":
        return file.all_imports
    is_used = any(option.name.startswith("confluent.") for option in _all_options(file))
    return [*file.all_imports, _META_PATH] if is_used else file.all_imports


def _all_options(file: File) -> Iterator[Option]:
    yield from file.options
    waiting: list[Message | EnumType] = list(file.types)
    while waiting:
        each = waiting.pop()
        yield from each.options
        if isinstance(each, EnumType):
            for constant in each.constants:
                yield from constant.options
            continue
        waiting += each.types
        for field in (*each.fields, *(field for oneof in each.oneofs for field in oneof.fields)):
            yield from field.options


@cache
def _builtin_descriptors() -> Mapping[str, bytes]:
    pool = DescriptorPool()
    result = {_DESCRIPTOR_PATH: bytes(descriptor_pb2.DESCRIPTOR.serialized_pb)}
    pool.AddSerializedFile(result[_DESCRIPTOR_PATH])
    names = Names(File(), builtin_files())
    for path, file in builtin_files().items():
        if path != _DESCRIPTOR_PATH:
            result[path] = bytes(_built(file, path, names, pool).SerializeToString(deterministic=True))
    return result


def _class(pool: DescriptorPool, name: str) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"google.protobuf.{name}"))


def _built(file: File, path: str, names: Names, pool: DescriptorPool) -> Proto:
    """Build a file's descriptor and add it to the pool."""
    builder = _Builder(file, path, names, pool)
    descriptor = builder.file()
    if file.package == "google.protobuf" and any(each.name == "FileDescriptorProto" for each in file.types):
        # All descriptors are made from this file, so the pool already contains it.
        return descriptor
    try:
        pool.AddSerializedFile(descriptor.SerializeToString())
    except (TypeError, ValueError) as error:
        where = "the schema" if path == FILE_NAME else f"the import {path!r}"
        raise SchemaError(f"{where} is not a valid Protobuf file: {error}") from None
    builder.extension_options()
    return descriptor


class _Builder:
    def __init__(self, file: File, path: str, names: Names, pool: DescriptorPool) -> None:
        self._file = file
        self._path = path
        self._names = names
        self._pool = pool
        self._is_proto3 = file.syntax == "proto3"
        self._extended: list[tuple[Proto, Option, str]] = []  # set once the file's own extensions are known

    def file(self) -> Proto:
        file = self._file
        result = _class(self._pool, "FileDescriptorProto")(name=self._path)
        if file.syntax is not None and file.syntax.startswith("edition:"):
            name = f"EDITION_{file.syntax.removeprefix('edition:')}"
            if name not in descriptor_pb2.Edition.keys():  # noqa: SIM118 - no dictionary
                raise SchemaError(f"the edition {file.syntax.removeprefix('edition:')!r} is not known")
            result.syntax, result.edition = "editions", descriptor_pb2.Edition.Value(name)
        elif file.syntax is not None:
            result.syntax = file.syntax
        scope = file.package or ""
        if scope:
            result.package = scope
        for path in file.all_imports:
            if path in file.public_imports:
                result.public_dependency.append(len(result.dependency))
            if path in file.weak_imports:
                result.weak_dependency.append(len(result.dependency))
            result.dependency.append(path)
        for each in file.types:
            if isinstance(each, Message):
                self._message(result.message_type.add(), each, joined(scope, each.name))
            else:
                self._enum(result.enum_type.add(), each, scope)
        for service in file.services:
            self._service(result.service.add(), service, scope)
        self._extensions(result, file.extends, scope)
        self._options(result, file.options, scope)
        return result

    def extension_options(self) -> None:
        """Set the extension options one by one, so that parts of one message are merged."""
        for options, option, scope in self._extended:
            full = self._names.extension(option.name, scope)
            if full is not None:
                self._merge(options, option, f"[{full}]")

    def _message(self, result: Proto, message: Message, scope: str) -> None:
        result.name = message.name
        for field in message.fields:
            self._field(result.field.add(), field, scope, result)
        for oneof in message.oneofs:
            index = len(result.oneof_decl)
            added = result.oneof_decl.add(name=oneof.name)
            self._options(added, oneof.options, scope)
            for field in oneof.fields:
                self._field(result.field.add(oneof_index=index), field, scope, result)
            for group in oneof.groups:
                self._group(result, result.field.add(oneof_index=index), group, scope)
        for group in message.groups:
            self._group(result, result.field.add(), group, scope)
        for each in message.types:
            if isinstance(each, Message):
                self._message(result.nested_type.add(), each, joined(scope, each.name))
            else:
                self._enum(result.enum_type.add(), each, scope)
        for first, last, options in _spans(message.extensions):
            span = result.extension_range.add(start=first, end=last + 1)
            self._options(span, options, scope)
        for first, last, _ in _spans(message.reserved):
            result.reserved_range.add(start=first, end=last + 1)
        result.reserved_name.extend(_names(message.reserved))
        self._extensions(result, message.extends, scope)
        self._options(result, message.options, scope)
        if self._is_proto3:
            _synthetic_oneofs(result)

    def _group(self, parent: Proto, result: Proto, group: Group, scope: str) -> None:
        result.name, result.number, result.label = group.name.lower(), group.number, _LABELS[group.label]
        result.type, result.type_name = _TYPES.Value("TYPE_GROUP"), f".{joined(scope, group.name)}"
        message = Message(group.name, fields=group.fields)
        self._message(parent.nested_type.add(), message, joined(scope, group.name))

    def _field(self, result: Proto, field: Field, scope: str, parent: Proto | None = None) -> None:
        result.name, result.number, result.label = field.name, field.number, _LABELS[field.label]
        if self._is_proto3 and field.label == "optional":
            result.proto3_optional = True
        pair = field.map_types
        if pair is not None and parent is not None:
            result.label = 3
            result.type, result.type_name = (
                _TYPES.Value("TYPE_MESSAGE"),
                self._entry(parent, field, pair, scope),
            )
        else:
            self._set_type(result, field.type, scope)
        if field.default is not None:
            result.default_value = field.default
        if field.json_name is not None:
            result.json_name = field.json_name
        self._options(result, field.options, scope)

    def _set_type(self, result: Proto, name: str, scope: str) -> None:
        if name in SCALARS:
            result.type = _TYPES.Value(f"TYPE_{name.upper()}")
            return
        full = self._names.type(name, scope)
        if full is None:
            raise SchemaError(
                f"in {scope or 'the file'}: the type {name!r} is neither defined here nor imported"
            )
        is_enum = isinstance(self._names.types[full].type, EnumType)
        result.type, result.type_name = _TYPES.Value("TYPE_ENUM" if is_enum else "TYPE_MESSAGE"), f".{full}"

    def _entry(self, parent: Proto, field: Field, pair: tuple[str, str], scope: str) -> str:
        """Declare the entry message of a map, which is a repeated message of keys and values."""
        words = field.name.split("_")
        name = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"
        entry = parent.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, of) in enumerate(zip(("key", "value"), pair, strict=True), 1):
            self._set_type(entry.field.add(name=part, number=number, label=1), of, scope)
        return f".{joined(scope, name)}"

    def _extensions(self, result: Proto, extends: list[Extend], scope: str) -> None:
        for extend in extends:
            full = self._names.type(extend.name, scope)
            if full is None:
                raise SchemaError(
                    f"in {scope or 'the file'}: {extend.name!r}, which is extended, is not imported"
                )
            for field in extend.fields:
                added = result.extension.add(extendee=f".{full}")
                self._field(added, field, scope)
                added.ClearField("proto3_optional")

    def _enum(self, result: Proto, enum: EnumType, scope: str) -> None:
        result.name = enum.name
        for constant in enum.constants:
            self._options(
                result.value.add(name=constant.name, number=constant.number), constant.options, scope
            )
        for first, last, _ in _spans(enum.reserved):
            result.reserved_range.add(start=first, end=last)
        result.reserved_name.extend(_names(enum.reserved))
        self._options(result, enum.options, scope)

    def _service(self, result: Proto, service: Service, scope: str) -> None:
        result.name = service.name
        for rpc in service.rpcs:
            added = result.method.add(name=rpc.name, input_type=self._rpc_type(rpc, rpc.request, scope))
            added.output_type = self._rpc_type(rpc, rpc.response, scope)
            if rpc.request_streams:
                added.client_streaming = True
            if rpc.response_streams:
                added.server_streaming = True
            self._options(added, rpc.options, scope)
        self._options(result, service.options, scope)

    def _rpc_type(self, rpc: Rpc, name: str, scope: str) -> str:
        full = self._names.type(name, scope)
        if full is None:
            raise SchemaError(
                f"in the method {rpc.name!r}: the type {name!r} is neither defined here nor imported"
            )
        return f".{full}"

    def _options(self, result: Proto, options: list[Option], scope: str) -> None:
        for option in options:
            if option.is_extension:
                self._extended.append((result.options, option, scope))
            elif option.name.split(".")[0] in type(result.options).DESCRIPTOR.fields_by_name:
                self._merge(result.options, option, option.name)
            # Unknown options stay in the text but are left out of the descriptor.

    def _merge(self, options: Proto, option: Option, name: str) -> None:
        text = _text(Option(name, option.kind, option.value))
        try:
            text_format.Merge(text, options, descriptor_pool=self._pool)
        except (text_format.ParseError, UnicodeError) as error:
            raise SchemaError(f"the option {option.name!r} can't be set: {error}") from None


def _synthetic_oneofs(result: Proto) -> None:
    """Put each optional field of proto3 into a oneof of its own, after the declared oneofs."""
    for field in result.field:
        if field.proto3_optional:
            field.oneof_index = len(result.oneof_decl)
            result.oneof_decl.add(name=f"_{field.name}")


def _spans(statements: list[Reserved]) -> list[tuple[int, int, list[Option]]]:
    found = []
    for each in statements:
        for value in each.values:
            if not isinstance(value, str):
                first, last = (value, value) if isinstance(value, int) else value
                found.append((first, last, each.options))
    return found


def _names(statements: list[Reserved]) -> list[str]:
    return [value for each in statements for value in each.values if isinstance(value, str)]


def _text(option: Option) -> str:
    """Return an option in Protobuf's text format."""
    if option.kind is Kind.OPTION:
        return f"{option.name} {{ {_text(option.value)} }}"
    value = option.value
    if option.kind in (Kind.BOOLEAN, Kind.NUMBER, Kind.ENUM):
        value = Word(option.kind, option.value)
    first, *rest = option.name.split(".") if not option.name.startswith("[") else [option.name]
    text = _text_value(value)
    for part in reversed(rest):
        text = f"{{ {part}: {text} }}"
    return f"{first}: {text}"


def _text_value(value: Any) -> str:
    match value:
        case str():
            return quoted(value)
        case Word():
            return value.text
        case dict():
            return "{ " + ", ".join(f"{name}: {_text_value(each)}" for name, each in value.items()) + " }"
        case Option():
            return "{ " + _text(value) + " }"
    return "[" + ", ".join(map(_text_value, value)) + "]"
