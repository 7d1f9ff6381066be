"""Print a file as the one text that the registry stores, or in its normal form.

The normal form sorts imports, fields, constants, reserved numbers and options, uses full names of types, and
writes map entries as maps. The order of messages stays, because clients identify a message by its index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

from penstock.java.strings import utf16
from penstock.registry.formats.errors import UnknownReference
from penstock.registry.formats.protobuf.model import (
    NUMBER_MAX,
    SCALARS,
    Constant,
    EnumType,
    Extend,
    Field,
    File,
    Group,
    Kind,
    Message,
    OneOf,
    Option,
    Reserved,
    Rpc,
    Service,
    Span,
    Word,
)
from penstock.registry.formats.protobuf.names import Names, joined
from penstock.registry.formats.protobuf.options import normal_options

_ESCAPES: Final = str.maketrans(
    {
        character: f"\\{letter}"
        for character, letter in zip("\a\b\f\n\r\t\v\\'\"", "abfnrtv\\'\"", strict=True)
    }
)
_T = TypeVar("_T")
_Lines = list[str]


def printed(file: File, names: Names | None = None, *, without_extensions: bool = False) -> str:
    """Print a file: in normal form if ``names`` are given, else as written.

    ``without_extensions`` leaves out extensions of messages, and extension options other than Confluent's.
    """
    return "\n".join(_Printer(names, without_extensions).file(file)) + "\n"


class _Printer:
    def __init__(self, names: Names | None, without_extensions: bool) -> None:
        self._names = names
        self._without_extensions = without_extensions
        self._scope = names.package if names is not None else ""

    def file(self, file: File) -> _Lines:
        lines: _Lines = []
        syntax = file.syntax
        self._begins_with_zero = syntax is not None and syntax != "proto2"
        if syntax is not None and syntax.startswith("edition:"):
            lines.append(f'edition = "{syntax.removeprefix("edition:")}";')
        elif syntax is not None and (self._names is None or syntax == "proto3"):
            lines.append(f'syntax = "{syntax}";')
        if file.package is not None:
            lines.append(f"package {file.package};")
        imports = [f'import "{each}";' for each in self._once(file.imports)]
        imports += [f'import public "{each}";' for each in self._once(file.public_imports)]
        # Confluent's registry loses weak imports, and with them the types that they define.
        imports += [f'import weak "{each}";' for each in self._once(file.weak_imports)]
        if imports:
            lines += ["", *imports]
        options = self._option_lines(file.options)
        if options:
            lines += ["", *options]
        lines += self._types(file.types)
        lines += self._extends(file.extends)
        if file.services:
            lines.append("")
            for service in file.services:
                lines += self._service(service)
        return lines

    def _once(self, imports: list[str]) -> Iterable[str]:
        return imports if self._names is None else sorted(set(imports), key=utf16)

    def _types(self, types: list[Message | EnumType]) -> _Lines:
        if self._names is not None:
            types = [each for each in types if not isinstance(each, Message) or each.map_types is None]
        lines: _Lines = [""] if types else []
        for each in types:
            if isinstance(each, Message):
                lines += self._message(each)
        for each in types:
            if isinstance(each, EnumType):
                lines += self._enum(each)
        return lines

    # -- messages ------------------------------------------------------------------------------------

    def _message(self, message: Message) -> _Lines:
        outer, self._scope = self._scope, joined(self._scope, message.name)
        body = _Body()
        body.part(self._reserved_lines("reserved", message.reserved))
        body.part(self._option_lines(message.options))
        body.part(self._fields(message.fields))
        body.part([line for oneof in self._oneofs(message.oneofs) for line in self._oneof(oneof)])
        groups = self._sorted(message.groups, lambda each: each.number)
        body.part([line for group in groups for line in self._group(group)])
        if not self._without_extensions:
            body.part(self._reserved_lines("extensions", message.extensions))
        body.part(self._extends(message.extends)[1:])
        body.part(self._types(message.types)[1:])
        self._scope = outer
        return body.lines(f"message {message.name}")

    def _fields(self, fields: list[Field]) -> _Lines:
        return [
            line for field in self._sorted(fields, lambda each: each.number) for line in self._field(field)
        ]

    def _field(self, field: Field) -> _Lines:
        label, kind = field.label, field.type
        if self._names is not None:
            kind = self._normal_type(kind)
            label = None if kind.startswith("map<") else label
        options = list(field.options)
        if field.default is not None:
            options.append(Option("default", _default_kind(field.type), field.default))
        if field.json_name is not None:
            options.append(Option("json_name", Kind.STRING, field.json_name))
        start = f"{label + ' ' if label else ''}{kind} {field.name} = {field.number}"
        return self._with_options(start, options)

    def _normal_type(self, kind: str) -> str:
        assert self._names is not None
        if kind in SCALARS:
            return kind
        pair = kind[4:-1].split(", ") if kind.startswith("map<") else None
        if pair is None:
            full = self._resolved(kind)
            known = self._names.types[full[1:]].type
            entry = known.map_types if isinstance(known, Message) else None
            if entry is None:
                return full
            pair = list(entry)
        key, value = pair
        return f"map<{key}, {value if value in SCALARS else self._resolved(value)}>"

    def _resolved(self, name: str) -> str:
        assert self._names is not None
        full = self._names.type(name, self._scope)
        if full is None:
            raise UnknownReference(
                f"in {self._scope or 'the file'}: the type {name!r} is neither defined here nor imported"
            )
        return f".{full}"

    def _oneofs(self, oneofs: list[OneOf]) -> list[OneOf]:
        if self._names is None:
            return oneofs
        filled = [each for each in oneofs if each.fields or each.groups]
        return sorted(filled, key=_first_number)

    def _oneof(self, oneof: OneOf) -> _Lines:
        body = _Body()
        body.part(self._option_lines(oneof.options))
        body.part(self._fields(oneof.fields))
        groups = self._sorted(oneof.groups, lambda each: each.number)
        body.part([line for group in groups for line in self._group(group)])
        return body.lines(f"oneof {oneof.name}")

    def _group(self, group: Group) -> _Lines:
        body = _Body()
        body.part(self._fields(group.fields))
        return body.lines(f"{group.label + ' ' if group.label else ''}group {group.name} = {group.number}")

    def _extends(self, extends: list[Extend]) -> _Lines:
        if self._without_extensions or not extends:
            return []
        if self._names is not None:
            merged: dict[str, Extend] = {}
            for each in extends:
                name = self._resolved(each.name)
                merged.setdefault(name, Extend(name)).fields.extend(each.fields)
            extends = list(merged.values())
        lines = [""]
        for each in extends:
            body = _Body()
            body.part(self._fields(each.fields))
            lines += body.lines(f"extend {each.name}")
        return lines

    # -- enums, services -----------------------------------------------------------------------------

    def _enum(self, enum: EnumType) -> _Lines:
        body = _Body()
        body.part(self._reserved_lines("reserved", enum.reserved))
        rest = self._option_lines(enum.options)
        for each in self._sorted(enum.constants, self._order_of_constant):
            rest += self._constant(each)
        body.part(rest, is_apart=not enum.reserved)
        return body.lines(f"enum {enum.name}")

    def _order_of_constant(self, constant: Constant) -> tuple[bool, int, bytes]:
        """By number; but unless the syntax is proto2, the constant 0 has to be the first."""
        return self._begins_with_zero and constant.number != 0, constant.number, utf16(constant.name)

    def _constant(self, constant: Constant) -> _Lines:
        return self._with_options(f"{constant.name} = {constant.number}", constant.options)

    def _service(self, service: Service) -> _Lines:
        outer, self._scope = self._scope, joined(self._scope, service.name)
        body = _Body()
        body.part(self._option_lines(service.options))
        body.part([line for rpc in service.rpcs for line in self._rpc(rpc)])
        self._scope = outer
        return body.lines(f"service {service.name}")

    def _rpc(self, rpc: Rpc) -> _Lines:
        request = self._rpc_type(rpc.request, rpc.request_streams)
        response = self._rpc_type(rpc.response, rpc.response_streams)
        start = f"rpc {rpc.name} ({request}) returns ({response})"
        options = self._option_lines(rpc.options)
        return [f"{start} {{", *_indented(options), "};"] if options else [f"{start};"]

    def _rpc_type(self, name: str, streams: bool) -> str:
        full = name if self._names is None else self._resolved(name)
        return f"stream {full}" if streams else full

    # -- numbers and options -------------------------------------------------------------------------

    def _reserved_lines(self, keyword: str, statements: list[Reserved]) -> _Lines:
        if self._names is not None:
            statements = [Reserved([value], each.options) for each in statements for value in each.values]
            statements.sort(key=lambda each: _reserved_order(each.values[0]))
        lines: _Lines = []
        for each in statements:
            values = ", ".join(self._reserved_value(value) for value in each.values)
            lines += self._with_options(f"{keyword} {values}", each.options)
        return lines

    def _reserved_value(self, value: int | Span | str) -> str:
        if isinstance(value, str):
            return f'"{value}"'
        if isinstance(value, int):
            return str(value)
        first, last = value
        if first == last and self._names is not None:
            return str(first)
        return f"{first} to {last if last < NUMBER_MAX else 'max'}"

    def _options(self, options: list[Option]) -> list[Option]:
        if self._without_extensions:
            options = [
                each for each in options if not each.is_extension or each.name.startswith("confluent.")
            ]
        return options if self._names is None else normal_options(options, self._names, self._scope)

    def _option_lines(self, options: list[Option]) -> _Lines:
        return [
            line
            for option in self._options(options)
            for line in _ended([f"option {self._option(option)[0]}", *self._option(option)[1:]])
        ]

    def _with_options(self, start: str, options: list[Option]) -> _Lines:
        options = self._options(options)
        if not options:
            return [f"{start};"]
        items = [self._option(each) for each in options]
        if len(items) == 1:
            first, *rest = items[0]
            lines = [f"{start} [{first}", *rest]
            lines[-1] += "]"
        else:
            lines = [f"{start} [", *_indented(_separated(items)), "]"]
        return _ended(lines)

    def _option(self, option: Option) -> _Lines:
        name = f"({option.name})" if option.is_extension else option.name
        match option.kind:
            case Kind.OPTION:
                first, *rest = self._option(option.value)
                return [f"{name}.{first}", *rest]
            case Kind.STRING:
                return [f"{name} = {quoted(option.value)}"]
            case Kind.MAP:
                return [f"{name} = {{", *_indented(self._literal(option.value)), "}"]
            case Kind.LIST:
                first, *rest = self._list(option.value, is_option=True)
                return [f"{name} = {first}", *rest]
            case Kind.NUMBER:
                return [f"{name} = {self._number(option.value)}"]
        return [f"{name} = {option.value}"]

    def _literal(self, literal: dict[str, Any]) -> _Lines:
        items = []
        for name, value in literal.items():
            first, *rest = self._value(value)
            items.append([f"{name}: {first}", *rest])
        return _separated(items)

    def _list(self, items: list[Any], *, is_option: bool = False) -> _Lines:
        if len(items) == 1 and is_option:
            first, *rest = self._value(items[0])
            lines = [f"[{first}", *rest]
            lines[-1] += "]"
            return lines
        return ["[", *_indented(_separated([self._value(each) for each in items])), "]"]

    def _value(self, value: Any) -> _Lines:
        match value:
            case str():
                return [quoted(value)]
            case Word(Kind.NUMBER, text):
                return [self._number(text)]
            case Word():
                return [value.text]
            case dict():
                return ["{", *_indented(self._literal(value)), "}"]
            case Option():
                return self._option(value)
        if self._names is not None and len(value) == 1:
            return self._value(value[0])
        return self._list(value)

    def _number(self, text: str) -> str:
        """Return a number as text; the normal form is decimal, without redundant digits."""
        if self._names is None:
            return text
        try:
            if text.lower().lstrip("+-").startswith("0x"):
                return str(int(text, 16))
            value = Decimal(text).normalize()
        except (InvalidOperation, ValueError):
            return text
        return format(value, "f") if value.is_finite() and abs(value.adjusted()) <= 1_000 else text

    def _sorted(self, items: list[_T], key: Callable[[_T], Any]) -> Sequence[_T]:
        return items if self._names is None else sorted(items, key=key)


class _Body:
    """The lines between the braces of a declaration: parts, with an empty line between them."""

    def __init__(self) -> None:
        self._lines: _Lines = []

    def part(self, lines: _Lines, *, is_apart: bool = True) -> None:
        if lines:
            self._lines += ["", *_indented(lines)] if is_apart else _indented(lines)

    def lines(self, start: str) -> _Lines:
        if not self._lines:
            return [f"{start} {{}}"]
        return [f"{start} {{", *self._lines[1:], "}"]


def _first_number(oneof: OneOf) -> int:
    return min([each.number for each in oneof.fields] + [each.number for each in oneof.groups])


def _indented(lines: _Lines) -> _Lines:
    return [f"  {line}" for line in lines]


def _ended(lines: _Lines) -> _Lines:
    return [*lines[:-1], f"{lines[-1]};"]


def _separated(items: list[_Lines]) -> _Lines:
    lines: _Lines = []
    for i, item in enumerate(items):
        lines += item
        if i < len(items) - 1:
            lines[-1] += ","
    return lines


def quoted(text: str) -> str:
    """Return a string literal for a `.proto` file or for Protobuf's text format."""
    return f'"{text.translate(_ESCAPES)}"'


def _default_kind(of: str) -> Kind:
    if of == "bool":
        return Kind.BOOLEAN
    if of == "string":
        return Kind.STRING
    return Kind.NUMBER if of in SCALARS and of != "bytes" else Kind.STRING if of == "bytes" else Kind.ENUM


def _reserved_order(value: int | Span | str) -> tuple[int, str]:
    if isinstance(value, str):
        return NUMBER_MAX * 4, value
    return (value, str(value)) if isinstance(value, int) else (value[0], str(value[0]))
