"""Compiles the decoder of one version of one message.

The result is one flat function. Nested structs become nested loops. Adjacent fields of fixed width become one
``struct`` call, which also reads the length prefix or tag count that follows them. A length of one byte is
read without a call. Every length is checked against the remaining bytes before memory is allocated for it, so
the work for a message is at most proportional to its size, whatever its bytes claim.

The same function is also available as a generator that yields after every kilobyte or so.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator

from penstock.protocol.definition import Field, Message, Struct
from penstock.protocol.malformed import Malformation, malformed
from penstock.protocol.source import FIXED_SIZES, FORMATS, FieldEnd, SourceWriter

Decoder = Callable[[bytes | memoryview, int], tuple[object, int]]
DecoderInSteps = Callable[[bytes | memoryview, int], Generator[None, None, tuple[object, int]]]

STEP_BYTES = 1024
"""A decoder in steps yields after at least this many bytes."""

MAX_STRING_BYTES = 0x7FFF
"""The longest string that Kafka allows, also in compact encoding."""

_FAST_ARRAY = 33
"""Arrays with fewer elements of fixed width than this use a precompiled unpacking function."""


def uvarint(buf: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Decode an unsigned varint whose first byte, ``first``, lies before ``position``: (value, end)."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF, position
    raise Malformation("is a varint of more than five bytes")


def string_length(buf: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Decode the length plus one of a compact string like ``uvarint``, and check Kafka's limit."""
    value, position = uvarint(buf, position, first)
    if value > MAX_STRING_BYTES + 1:
        raise Malformation(f"has an invalid length of {value - 1}")
    return value, position


def too_many_elements(count: int, remaining: int) -> Malformation:
    return Malformation(f"claims {count} elements where {remaining} bytes remain")


def skip_tagged_fields(buf: bytes | memoryview, position: int, count: int) -> int:
    """Skip ``count`` tagged fields that this version does not know (KIP-482); return their end."""
    if count > 127:
        count, position = uvarint(buf, position, count)
    for _ in range(count):
        _, position, end = tag_head(buf, position)
        position = end
    return position


def skip_in_steps(buf: bytes | memoryview, position: int, count: int) -> Generator[None, None, int]:
    """Skip like ``skip_tagged_fields``, and yield now and then."""
    if count > 127:
        count, position = uvarint(buf, position, count)
    for number in range(count):
        if number % STEP_BYTES == STEP_BYTES - 1:
            yield
        _, position, end = tag_head(buf, position)
        position = end
    return position


def tag_head(buf: bytes | memoryview, position: int) -> tuple[int, int, int]:
    """Decode the head of a tagged field: (tag, start of its content, end of its content)."""
    tag = buf[position]
    position += 1
    if tag > 127:
        tag, position = uvarint(buf, position, tag)
    size = buf[position]
    position += 1
    if size > 127:
        size, position = uvarint(buf, position, size)
    if size > len(buf) - position:
        raise Malformation(f"tag {tag} claims {size} bytes where {len(buf) - position} remain")
    return tag, position, position + size


def min_size(struct_: Struct, version: int, flexible: bool) -> int:
    """The minimum size of a struct on the wire."""
    size = sum(_min_field_size(f, version, flexible) for f in struct_.plain_fields(version))
    return size + 1 if flexible else size


def _min_field_size(field: Field, version: int, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible and field.compact else 4
    if field.struct is not None and version in field.nullable:
        return 1
    return _min_value_size(field, version, flexible)


def _min_value_size(field: Field, version: int, flexible: bool) -> int:
    """The minimum size of the field's value, or of one element if it is an array."""
    if field.struct is not None:
        return min_size(field.struct, version, flexible)
    if field.type_name in FIXED_SIZES:
        return FIXED_SIZES[field.type_name]
    if flexible and field.compact:
        return 1
    return 2 if field.type_name == "string" else 4


def has_records(message: Message) -> bool:
    structs = [message.body, *message.structs.values()]
    return any(f.type_name == "records" for s in structs for f in s.fields)


class _DecoderCompiler:
    def __init__(
        self, message: Message, version: int, classes: dict[str, type], *, in_steps: bool = False
    ) -> None:
        self.message = message
        self.version = version
        self.classes = classes
        self.in_steps = in_steps
        self.flexible = version in message.flexible
        self.zero_copy = has_records(message)
        self.out = SourceWriter()
        self.pending: list[tuple[str, str, str]] = []
        self.depth = 0

    def compile(self) -> Callable[..., object]:
        out = self.out
        out.constants.update(
            new=object.__new__,
            uvarint=uvarint,
            string_length=string_length,
            skip_tagged_fields=skip_tagged_fields,
            skip_in_steps=skip_in_steps,
            tag_head=tag_head,
            unpack_from=struct.unpack_from,
            Malformation=Malformation,
            too_many_elements=too_many_elements,
            malformed=malformed,
            ERRORS=(struct.error, IndexError, UnicodeDecodeError, Malformation),
            FIELDS=out.fields,
            NAME=self.message.name,
            VERSION=self.version,
        )
        with out.block("def decode(b, p):"):
            out.line("b = memoryview(b)" if self.zero_copy else "if type(b) is not bytes: b = bytes(b)")
            out.line("end = len(b)")
            if self.in_steps:
                out.line(f"step_end = p + {STEP_BYTES}")
                out.line("yield")
            with out.block("try:"):
                self._struct(self.message.body, "o0", self.message.name)
                self._flush()
                out.line("return o0, p")
            with out.block("except ERRORS as error:"):
                out.line("raise malformed(NAME, VERSION, FIELDS, p, end, error) from error")
        return out.compile("decode", f"<decode {self.message.name} v{self.version}>")

    def _step(self) -> None:
        """Write a yield between elements, so that other tasks can run after a number of bytes."""
        if self.in_steps:
            self.out.line(f"if p > step_end: step_end = p + {STEP_BYTES}; yield")

    # -- fields of fixed width -----------------------------------------------------------------------------

    def _fixed(self, code: str, target: str) -> None:
        """Read one value of fixed width into ``target``, in the same call as its neighbours."""
        self.pending.append((code, target, self.out.path()))

    def _flush(self) -> None:
        pending, self.pending = self.pending, []
        if not pending:
            return
        codes = "".join(code for code, _, _ in pending)
        ends, size = [], 0
        for code, _, path in pending:
            size += struct.calcsize(">" + code)
            ends.append(FieldEnd(path, size))
        fields = tuple(ends)
        targets = ", ".join(target for _, target, _ in pending)
        if codes == "B":
            self.out.line(f"{targets} = b[p]", fields)
        else:
            unpack = self.out.constant(
                f"unpack_{codes.replace('?', 'bool')}", struct.Struct(">" + codes).unpack_from
            )
            one = "[0]" if len(pending) == 1 else ""
            self.out.line(f"{targets} = {unpack}(b, p){one}", fields)
        self.out.line(f"p += {size}")

    # -- structs -------------------------------------------------------------------------------------------

    def _struct(self, struct_: Struct, variable: str, name: str) -> None:
        out = self.out
        out.line(f"{variable} = new({out.constant('T_' + name, self.classes[name])})")
        tagged = struct_.tagged_fields(self.version) if self.flexible else []
        plain = struct_.plain_fields(self.version)
        for field in struct_.fields:
            if field not in plain:
                self._default(field, f"{variable}.{field.name}")
        for field in plain:
            with out.inside(field.name):
                self._field(field, f"{variable}.{field.name}")
        if self.flexible:
            with out.inside("tagged fields"):
                self._fixed("B", "n")
                self._flush()
                self._tagged(tagged, variable)

    def _default(self, field: Field, target: str) -> None:
        if field.needs_fresh_default:
            if field.is_array:
                value = "[]"
            else:
                value = self.out.constant(f"T_{field.type_name}", self.classes[field.type_name]) + "()"
        else:
            value = repr(field.default_value)
        self.out.line(f"{target} = {value}")

    def _tagged(self, fields: list[Field], variable: str) -> None:
        out = self.out
        if not fields:
            skip = "yield from skip_in_steps" if self.in_steps else "skip_tagged_fields"
            out.line(f"if n: p = {skip}(b, p, n)")
            return
        self.depth += 1
        tag, tag_end = f"tag{self.depth}", f"tag_end{self.depth}"
        with out.block("if n:"):
            out.line("if n > 127: n, p = uvarint(b, p, n)")
            with out.block("for _ in range(n):"):
                self._step()
                out.line(f"{tag}, p, {tag_end} = tag_head(b, p)")
                for field in fields:
                    with out.inside(field.name), out.block(f"if {tag} == {field.tag}:"):
                        self._field(field, f"{variable}.{field.name}")
                        self._flush()
                        out.line(f"if p != {tag_end}: raise Malformation('does not fill its tag')")
                        out.line("continue")
                out.line(f"p = {tag_end}")
        self.depth -= 1

    # -- fields --------------------------------------------------------------------------------------------

    def _field(self, field: Field, target: str) -> None:
        if field.is_array:
            self._array(field, target)
        elif field.struct is not None:
            self._nested(field, target)
        elif field.type_name in FORMATS:
            self._fixed(FORMATS[field.type_name], target)
        else:
            self._variable(field, target, self.version in field.nullable)

    def _nested(self, field: Field, target: str) -> None:
        assert field.struct is not None
        self.depth += 1
        variable = f"o{self.depth}"
        if self.version in field.nullable:
            # One byte shows whether the struct is present: -1 or 1 (KIP-893), but 0 or 1 in a tagged field.
            self._fixed("b", "n")
            self._flush()
            self.out.line(f"if n {'<' if field.tag is None else '=='} 0: {target} = None")
            with self.out.block("else:"):
                self._struct(field.struct, variable, field.type_name)
                self._flush()
                self.out.line(f"{target} = {variable}")
        else:
            self._struct(field.struct, variable, field.type_name)
            self.out.line(f"{target} = {variable}")
        self.depth -= 1

    def _length(self, field: Field, code: str, long_length: str = "uvarint") -> bool:
        """Read a length into ``n``; return whether it is compact, and thus the length plus one."""
        compact = self.flexible and field.compact
        self._fixed("B" if compact else code, "n")
        self._flush()
        if compact:
            self.out.line(f"if n > 127: n, p = {long_length}(b, p, n)")
        return compact

    def _null_check(self, target: str, nullable: bool, compact: bool) -> str:
        """Handle a null in ``n``; return the head of the block that handles other values, or ''."""
        null = "not n" if compact else "n == -1"
        if nullable:
            self.out.line(f"if {null}: {target} = None")
        else:
            self.out.line(f"if {null}: raise Malformation('is null')")
        if not compact:
            self.out.line("elif n < 0: raise Malformation(f'has an invalid length of {n}')")
        return "else:" if nullable else ""

    def _variable(self, field: Field, target: str, nullable: bool) -> None:
        """Read a string, bytes or records into ``target`` (an attribute or ``item``)."""
        out = self.out
        is_string = field.type_name == "string"
        compact = self._length(field, "h" if is_string else "i", "string_length" if is_string else "uvarint")
        otherwise = self._null_check(target, nullable, compact)
        piece = "b[p:q]"
        if is_string:
            piece = "str(b[p:q], 'utf-8')"
        elif field.type_name == "bytes" and self.zero_copy:
            piece = "bytes(b[p:q])"

        def read() -> None:
            out.line("q = p + n - 1" if compact else "q = p + n")
            out.line("if q > end: raise Malformation(f'claims {q - p} bytes where {end - p} remain')")
            out.line(f"{target} = {piece}")
            out.line("p = q")

        if otherwise:
            with out.block(otherwise):
                read()
        else:
            read()

    def _array(self, field: Field, target: str) -> None:
        out = self.out
        compact = self._length(field, "i")
        otherwise = self._null_check(target, self.version in field.nullable, compact)
        if otherwise:
            with out.block(otherwise):
                self._elements(field, target, compact)
        else:
            self._elements(field, target, compact)

    def _elements(self, field: Field, target: str, compact: bool) -> None:
        out = self.out
        if compact:
            out.line("n -= 1")
        # At least one byte per element, so that the remaining bytes limit any count.
        size = max(1, _min_value_size(field, self.version, self.flexible))
        needed = "n" if size == 1 else f"n * {size}"
        out.line(f"if {needed} > end - p: raise too_many_elements(n, end - p)")
        if field.struct is None and field.type_name in FORMATS:
            self._fixed_elements(field, target, size)
            return
        self.depth += 1
        items, item = f"l{self.depth}", f"o{self.depth}"
        out.line(f"{target} = {items} = []")
        with out.block("for _ in range(n):"):
            if field.struct is not None:
                self._struct(field.struct, item, field.type_name)
            else:
                self._variable(field, item, nullable=False)
            self._flush()
            out.line(f"{items}.append({item})")
            self._step()
        self.depth -= 1

    def _fixed_elements(self, field: Field, target: str, size: int) -> None:
        out = self.out
        out.line(f"q = p + n * {size}")
        if field.type_name == "uuid":
            out.line(f"{target} = [bytes(b[i:i + 16]) for i in range(p, q, 16)]")
        else:
            code = FORMATS[field.type_name]
            few = [struct.Struct(f">{n}{code}").unpack_from for n in range(_FAST_ARRAY)]
            name = out.constant(f"unpack_few_{field.type_name}", few)
            out.line(f"if n < {_FAST_ARRAY}: {target} = list({name}[n](b, p))")
            out.line(f"else: {target} = list(unpack_from(f'>{{n}}{code}', b, p))")
        out.line("p = q")


def compile_decoder(message: Message, version: int, classes: dict[str, type]) -> Decoder:
    """Compile ``decode(buf, offset) -> (object, end)``; ``classes`` maps names of message and structs."""
    return _DecoderCompiler(message, version, classes).compile()  # type: ignore[return-value]


def compile_decoder_in_steps(message: Message, version: int, classes: dict[str, type]) -> DecoderInSteps:
    """Compile like ``compile_decoder``, but into a generator function that returns the same result."""
    return _DecoderCompiler(message, version, classes, in_steps=True).compile()  # type: ignore[return-value]
