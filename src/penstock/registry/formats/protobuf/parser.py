"""Parse text into a file by recursive descent, following the grammar of protobuf.dev."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.registry.formats.errors import SchemaError
from penstock.registry.formats.protobuf.model import (
    ENUM_NUMBER_MAX,
    NUMBER_MAX,
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
from penstock.registry.formats.protobuf.tokens import Tokens

DEPTH_MAX: Final = 64
NAME_CHARACTERS_MAX: Final = 1_000  # full names are built for each type and at each use
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME: Final = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_INTEGER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|[0-9]+)")
_LABELS: Final = ("required", "optional", "repeated")
_MAP_KEYS: Final = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string"),
)
# Numbers that Protobuf reserves for its implementation.
_KEPT_NUMBERS: Final = range(19_000, 20_000)


def parse(text: str) -> File:
    """Parse the text of a file. Raises SchemaError with line and column."""
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._depth = 0
        self._is_proto3 = False

    def file(self) -> File:
        file = File()
        self._syntax(file)
        while self._tokens.peek().kind != "end":
            self._statement(file)
        _check_once(file)
        return file

    def _syntax(self, file: File) -> None:
        if self._tokens.take("syntax"):
            self._tokens.expect("=")
            at = self._tokens.peek()
            file.syntax = self._tokens.string("proto2 or proto3")
            if file.syntax not in ("proto2", "proto3"):
                raise self._tokens.error("expected the syntax proto2 or proto3", at)
            self._tokens.expect(";")
        elif self._tokens.take("edition"):
            self._tokens.expect("=")
            file.syntax = "edition:" + self._tokens.string("an edition")
            self._tokens.expect(";")
        self._is_proto3 = file.syntax == "proto3"

    def _statement(self, file: File) -> None:
        tokens = self._tokens
        if tokens.take(";"):
            return
        at = tokens.peek()
        match tokens.word("a statement"):
            case "package":
                if file.package is not None:
                    raise tokens.error("expected one package in the file", at)
                file.package = self._full_name("a package").removeprefix(".")
                tokens.expect(";")
            case "import":
                kept = file.imports
                if tokens.take("public"):
                    kept = file.public_imports
                elif tokens.take("weak"):
                    kept = file.weak_imports
                kept.append(tokens.string("the path of a file"))
                tokens.expect(";")
            case "option":
                file.options.append(self._option_statement())
            case "message":
                file.types.append(self._message())
            case "enum":
                file.types.append(self._enum())
            case "service":
                file.services.append(self._service())
            case "extend":
                file.extends.append(self._extend())
            case _:
                raise tokens.error("expected a message, enum, service, extend, import, package or option", at)

    # -- messages ------------------------------------------------------------------------------------

    def _message(self) -> Message:
        message = Message(self._name("the name of a message"))
        self._open()
        while not self._close():
            self._member(message)
        _check_numbers(message)
        return message

    def _member(self, message: Message) -> None:
        tokens = self._tokens
        word = tokens.peek().text
        # Keywords are valid names too: a field's type may be called `message`.
        match word:
            case "message":
                tokens.next()
                message.types.append(self._message())
            case "enum":
                tokens.next()
                message.types.append(self._enum())
            case "option":
                tokens.next()
                message.options.append(self._option_statement())
            case "oneof":
                tokens.next()
                message.oneofs.append(self._oneof())
            case "extend":
                tokens.next()
                message.extends.append(self._extend())
            case "extensions":
                tokens.next()
                message.extensions.append(self._spans(NUMBER_MAX, has_names=False))
            case "reserved":
                tokens.next()
                message.reserved.append(self._spans(NUMBER_MAX, has_names=True))
            case ";":
                tokens.next()
            case _:
                member = self._field(in_oneof=False)
                if isinstance(member, Group):
                    message.groups.append(member)
                else:
                    message.fields.append(member)

    def _oneof(self) -> OneOf:
        oneof = OneOf(self._name("the name of a oneof"))
        self._open()
        while not self._close():
            if self._tokens.take(";"):
                continue
            if self._tokens.take("option"):
                oneof.options.append(self._option_statement())
                continue
            member = self._field(in_oneof=True)
            if isinstance(member, Group):
                oneof.groups.append(member)
            else:
                oneof.fields.append(member)
        return oneof

    def _extend(self) -> Extend:
        extend = Extend(self._full_name("the name of a message"))
        self._open()
        while not self._close():
            if self._tokens.take(";"):
                continue
            at = self._tokens.peek()
            member = self._field(in_oneof=False)
            if isinstance(member, Group):
                raise self._tokens.error("groups in extensions are not supported", at)
            extend.fields.append(member)
        return extend

    def _field(self, *, in_oneof: bool) -> Field | Group:
        tokens = self._tokens
        at = tokens.peek()
        label = tokens.next().text if at.text in _LABELS and at.kind == "word" else None
        if label is not None and in_oneof:
            raise tokens.error("a field of a oneof has no label, expected its type", at)
        if label == "required" and self._is_proto3:
            raise tokens.error("proto3 has no required fields, expected another label or none", at)
        if tokens.peek().text == "group":
            tokens.next()
            return self._group(label)
        kind = self._type(label)
        name = self._name("the name of a field")
        tokens.expect("=")
        field = Field(label, kind, name, self._number("the number of a field", 1, NUMBER_MAX))
        for option in self._options():
            if option.name == "default" and not option.is_extension:
                field.default = str(option.value)
            elif option.name == "json_name" and not option.is_extension:
                field.json_name = str(option.value)
            else:
                field.options.append(option)
        tokens.expect(";")
        return field

    def _type(self, label: str | None) -> str:
        at = self._tokens.peek()
        kind = self._full_name("the type of a field")
        if kind != "map" or not self._tokens.take("<"):
            return kind
        if label is not None:
            raise self._tokens.error(f"a map has no label, expected none instead of {label!r} before it", at)
        key_at = self._tokens.peek()
        key = self._full_name("the type of a map's keys")
        if key not in _MAP_KEYS:
            raise self._tokens.error("expected an integer, bool or string type for a map's keys", key_at)
        self._tokens.expect(",")
        value = self._full_name("the type of a map's values")
        self._tokens.expect(">")
        return f"map<{key}, {value}>"

    def _group(self, label: str | None) -> Group:
        name = self._name("the name of a group")
        self._tokens.expect("=")
        number = self._number("the number of a group", 1, NUMBER_MAX)
        group = Group(label, name, number, [])
        self._open()
        while not self._close():
            if self._tokens.take(";"):
                continue
            at = self._tokens.peek()
            member = self._field(in_oneof=False)
            if isinstance(member, Group):
                raise self._tokens.error("groups in groups are not supported", at)
            group.fields.append(member)
        return group

    def _spans(self, last: int, *, has_names: bool, first: int = 1) -> Reserved:
        tokens = self._tokens
        values: list[int | Span | str] = []
        while True:
            if tokens.peek().kind == "string" and has_names:
                values.append(tokens.string("a name"))
            elif has_names and _NAME.fullmatch(tokens.peek().text):
                values.append(tokens.next().text)  # editions write names without quotes
            else:
                start = self._number("a number or name", first, last)
                if tokens.take("to"):
                    end = last if tokens.take("max") else self._number("the end of a range", start, last)
                    values.append((start, end))
                else:
                    values.append(start)
            if not tokens.take(","):
                break
        options = self._options()
        tokens.expect(";")
        return Reserved(values, options)

    # -- enums, services -----------------------------------------------------------------------------

    def _enum(self) -> EnumType:
        at = self._tokens.peek()
        enum = EnumType(self._name("the name of an enum"))
        self._open()
        while not self._close():
            if self._tokens.take(";"):
                continue
            if self._tokens.take("option"):
                enum.options.append(self._option_statement())
            elif self._tokens.take("reserved"):
                enum.reserved.append(self._spans(ENUM_NUMBER_MAX, has_names=True, first=-ENUM_NUMBER_MAX - 1))
            else:
                enum.constants.append(self._constant())
        if not enum.constants:
            raise self._tokens.error("expected an enum with at least one constant", at)
        if self._is_proto3 and enum.constants[0].number != 0:
            raise self._tokens.error("expected an enum whose first constant is 0, as proto3 requires", at)
        return enum

    def _constant(self) -> Constant:
        name = self._name("the name of a constant")
        self._tokens.expect("=")
        number = self._number("the number of a constant", -ENUM_NUMBER_MAX - 1, ENUM_NUMBER_MAX)
        options = self._options()
        self._tokens.expect(";")
        return Constant(name, number, options)

    def _service(self) -> Service:
        service = Service(self._name("the name of a service"))
        self._open()
        while not self._close():
            if self._tokens.take(";"):
                continue
            if self._tokens.take("option"):
                service.options.append(self._option_statement())
            else:
                self._tokens.expect("rpc")
                service.rpcs.append(self._rpc())
        return service

    def _rpc(self) -> Rpc:
        name = self._name("the name of a method")
        request, request_streams = self._rpc_type()
        self._tokens.expect("returns")
        response, response_streams = self._rpc_type()
        rpc = Rpc(name, request, response, request_streams, response_streams)
        if self._tokens.peek().text == "{":
            self._open()
            while not self._close():
                if self._tokens.take(";"):
                    continue
                self._tokens.expect("option")
                rpc.options.append(self._option_statement())
        else:
            self._tokens.expect(";")
        return rpc

    def _rpc_type(self) -> tuple[str, bool]:
        self._tokens.expect("(")
        name = self._full_name("a message")
        streams = name == "stream" and self._tokens.peek().text != ")"
        if streams:
            name = self._full_name("a message")
        self._tokens.expect(")")
        return name, streams

    # -- options -------------------------------------------------------------------------------------

    def _option_statement(self) -> Option:
        option = self._option("=")
        self._tokens.expect(";")
        return option

    def _options(self) -> list[Option]:
        options: list[Option] = []
        if self._tokens.take("["):
            while not self._tokens.take("]"):
                options.append(self._option("="))
                if not self._tokens.take(",") and self._tokens.peek().text != "]":
                    raise self._tokens.error("expected ',' or ']' after an option")
        return options

    def _option(self, separator: str) -> Option:
        """Parse `name = value` or `(extension).part = value`.

        In a message literal the forms are `name: value` and `[extension] {…}`.
        """
        tokens = self._tokens
        is_extension = tokens.take("(")
        in_brackets = not is_extension and tokens.take("[")
        name = self._option_name()
        parts: list[str] = []
        if is_extension:
            tokens.expect(")")
            parts = self._parts()
        elif in_brackets:
            if tokens.take("/"):
                name = f"{name}/{self._option_name()}"
            tokens.expect("]")
            name = f"[{name}]"
        if not (separator == ":" and tokens.peek().text in ("{", "<")):
            tokens.expect(separator)
        kind, value = self._value()
        for part in reversed(parts):
            value, kind = Option(part, kind, value), Kind.OPTION
        return Option(name, kind, value, is_extension)

    def _parts(self) -> list[str]:
        """Parse `.part.other` or `.(extension)` after an option's name."""
        parts: list[str] = []
        while self._tokens.peek().kind == "word" and self._tokens.peek().text.startswith("."):
            word = self._tokens.next().text
            parts += [each for each in word.split(".") if each]
            if self._tokens.take("("):
                parts.append(f"({self._option_name()})")
                self._tokens.expect(")")
        return parts

    def _option_name(self) -> str:
        return self._full_name("the name of an option")

    def _value(self) -> tuple[Kind, Any]:
        tokens = self._tokens
        token = tokens.peek()
        if token.kind == "string":
            return Kind.STRING, tokens.string("a value")
        if token.text == "{" or token.text == "<":
            return Kind.MAP, self._literal()
        if token.text == "[":
            return Kind.LIST, self._list()
        word = tokens.word("a value")
        if word in ("-", "+"):
            word += tokens.word("a number")
        if word in ("true", "false"):
            return Kind.BOOLEAN, word
        return (Kind.NUMBER if word[0].isdigit() or word[0] in "-+." else Kind.ENUM), word

    def _item(self) -> Any:
        kind, value = self._value()
        return Word(kind, value) if kind in (Kind.BOOLEAN, Kind.NUMBER, Kind.ENUM) else value

    def _literal(self) -> dict[str, Any]:
        """Parse a message in text format. Values of a repeated name form a list."""
        closing = "}" if self._tokens.peek().text == "{" else ">"
        self._open(self._tokens.peek().text)
        result: dict[str, Any] = {}
        while not self._close(closing):
            option = self._option(":")
            value = option.value
            if option.kind in (Kind.BOOLEAN, Kind.NUMBER, Kind.ENUM):
                value = Word(option.kind, value)
            if option.name in result:
                values = result[option.name]
                if not isinstance(values, list):
                    values = result[option.name] = [values]
                values.extend(value if isinstance(value, list) else [value])
            else:
                result[option.name] = value
            if not self._tokens.take(","):
                self._tokens.take(";")
        return result

    def _list(self) -> list[Any]:
        self._open("[")
        items: list[Any] = []
        while not self._close("]"):
            items.append(self._item())
            if not self._tokens.take(",") and self._tokens.peek().text != "]":
                raise self._tokens.error("expected ',' or ']' in a list")
        return items

    # -- words ---------------------------------------------------------------------------------------

    def _open(self, sign: str = "{") -> None:
        at = self._tokens.peek()
        self._tokens.expect(sign)
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._tokens.error(f"nested too deeply, expected at most {DEPTH_MAX} levels", at)

    def _close(self, sign: str = "}") -> bool:
        if self._tokens.take(sign):
            self._depth -= 1
            return True
        if self._tokens.peek().kind == "end":
            raise self._tokens.error(f"expected {sign!r}")
        return False

    def _name(self, what: str) -> str:
        at = self._tokens.peek()
        name = self._tokens.word(what)
        if not _NAME.fullmatch(name):
            raise self._tokens.error(f"expected {what}", at)
        if len(name) > NAME_CHARACTERS_MAX:
            raise self._tokens.error(f"expected {what} of at most {NAME_CHARACTERS_MAX} characters", at)
        return name

    def _full_name(self, what: str) -> str:
        at = self._tokens.peek()
        name = self._tokens.word(what)
        if not _FULL_NAME.fullmatch(name):
            raise self._tokens.error(f"expected {what}", at)
        if len(name) > NAME_CHARACTERS_MAX:
            raise self._tokens.error(f"expected {what} of at most {NAME_CHARACTERS_MAX} characters", at)
        return name

    def _number(self, what: str, least: int, most: int) -> int:
        at = self._tokens.peek()
        word = self._tokens.word(what)
        if word == "-":
            word += self._tokens.word(what)
        if not _INTEGER.fullmatch(word) or len(word) > 20:
            raise self._tokens.error(f"expected {what}", at)
        digits = word.removeprefix("-")
        is_octal = digits.startswith("0") and digits.isdigit() and len(digits) > 1
        try:
            number = int(digits, 8 if is_octal else 0) * (-1 if word.startswith("-") else 1)
        except ValueError:
            raise self._tokens.error(f"expected {what}", at) from None
        if not least <= number <= most:
            raise self._tokens.error(f"expected {what} from {least} to {most}", at)
        return number


def _check_numbers(message: Message) -> None:
    """Check that numbers and names of fields are unique."""
    numbers: dict[int, str] = {}
    names: set[str] = set()
    members: list[Field | Group] = [*message.fields, *message.groups]
    for oneof in message.oneofs:
        members += [*oneof.fields, *oneof.groups]
    for each in members:
        if each.number in numbers:
            raise SchemaError(
                f"message {message.name}: the fields {numbers[each.number]!r} and {each.name!r} have the "
                f"same number, {each.number}"
            )
        if each.name in names:
            raise SchemaError(f"message {message.name}: two fields have the name {each.name!r}")
        if each.number in _KEPT_NUMBERS:
            raise SchemaError(
                f"message {message.name}: the number {each.number} of the field {each.name!r} is reserved "
                f"for Protobuf's implementation ({_KEPT_NUMBERS[0]} to {_KEPT_NUMBERS[-1]})"
            )
        numbers[each.number] = each.name
        names.add(each.name)
    _check_once(message)


def _check_once(scope: File | Message) -> None:
    """Check that the names of types in one scope are unique."""
    seen: set[str] = set()
    for each in scope.types:
        if each.name in seen:
            where = f"message {scope.name}" if isinstance(scope, Message) else "the file"
            raise SchemaError(f"{where}: two types have the name {each.name!r}")
        seen.add(each.name)
