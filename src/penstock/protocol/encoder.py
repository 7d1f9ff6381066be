"""Compiles the encoder of one version of one message.

It is the counterpart of ``decoder``: a flat function that appends pieces to a list. Adjacent fields of fixed
width, and the one-byte length that follows them, become one ``struct`` call. The encoder is also available as
a generator.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator

from penstock.protocol.decoder import MAX_STRING_BYTES
from penstock.protocol.definition import Field, Message, Struct
from penstock.protocol.malformed import unencodable
from penstock.protocol.source import FORMATS, FieldEnd, SourceWriter

Encoder = Callable[[object, list[bytes], list[int]], None]
"""``encode(message, parts, foreign)``: appends pieces to ``parts``.

It appends to ``foreign`` the indexes of those pieces that are records in another form than bytes.
"""

EncoderInSteps = Callable[[object, list[bytes], list[int]], Generator[None, None, None]]

STEP_PIECES = 256
"""An encoder in steps yields after at least this many pieces."""

_BYTES_LIKE = frozenset((bytes, bytearray, memoryview))
_FAST_ARRAY = 33
"""Arrays with fewer elements of fixed width than this use a precompiled packing function."""

UUID_SIZE_ERROR = "a UUID has 16 bytes"


def uvarint_bytes(value: int) -> bytes:
    """Encode a non-negative ``value`` as an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_length_bytes(length_plus_one: int) -> bytes:
    """Encode the length of a compact string like ``uvarint_bytes``, with Kafka's limit for all strings."""
    if length_plus_one > MAX_STRING_BYTES + 1:
        raise ValueError(
            f"a string of {length_plus_one - 1} bytes; the longest allowed has {MAX_STRING_BYTES}"
        )
    return uvarint_bytes(length_plus_one)


class _EncoderCompiler:
    def __init__(
        self, message: Message, version: int, classes: dict[str, type], *, in_steps: bool = False
    ) -> None:
        self.message = message
        self.version = version
        self.classes = classes
        self.in_steps = in_steps
        self.flexible = version in message.flexible
        self.out = SourceWriter()
        self.pending: list[tuple[str, str, str]] = []
        self.depth = 0

    def compile(self) -> Callable[..., object]:
        out = self.out
        out.constants.update(
            uvarint_bytes=uvarint_bytes,
            string_length_bytes=string_length_bytes,
            pack=struct.pack,
            join=b"".join,
            BYTES_LIKE=_BYTES_LIKE,
            unencodable=unencodable,
            ERRORS=(struct.error, AttributeError, TypeError, ValueError),
            FIELDS=out.fields,
            NAME=self.message.name,
            VERSION=self.version,
        )
        with out.block("def encode(o0, parts, foreign):"):
            out.line("w = parts.append")
            if self.in_steps:
                out.line(f"step_end = {STEP_PIECES}")
                out.line("yield")
            with out.block("try:"):
                self._struct(self.message.body, "o0")
                self._flush()
                out.line("return")
            with out.block("except ERRORS as error:"):
                out.line("raise unencodable(NAME, VERSION, FIELDS, error) from error")
        return out.compile("encode", f"<encode {self.message.name} v{self.version}>")

    # -- fields of fixed width -----------------------------------------------------------------------------

    def _fixed(self, code: str, value: str) -> None:
        """Write one value of fixed width with its neighbours; code ``x`` is a zero byte without a value."""
        self.pending.append((code, value, self.out.path()))

    def _flush(self) -> None:
        pending, self.pending = self.pending, []
        self._write_fixed(pending)

    def _write_fixed(self, pending: list[tuple[str, str, str]]) -> None:
        if not pending:
            return
        codes = "".join(code for code, _, _ in pending)
        fields = tuple(FieldEnd(path, 0) for _, _, path in pending)
        if not codes.strip("x"):
            self.out.line(f"w({bytes(len(codes))!r})", fields)
            return
        values = ", ".join(value for _, value, _ in pending if value)
        pack = self.out.constant(f"pack_{codes.replace('?', 'bool')}", struct.Struct(">" + codes).pack)
        self.out.line(f"w({pack}({values}))", fields)

    def _length(self, field: Field, code: str, length: str = "uvarint_bytes") -> None:
        """Write the length in ``n`` (plus one in compact encoding), together with the pending values."""
        if not (self.flexible and field.compact):
            self._fixed(code, "n")
            self._flush()
            return
        pending, self.pending = self.pending, []
        with self.out.block("if n < 128:"):
            self._write_fixed([*pending, ("B", "n", self.out.path())])
        with self.out.block("else:"):
            self._write_fixed(pending)
            self.out.line(f"w({length}(n))")

    # -- structs -------------------------------------------------------------------------------------------

    def _struct(self, struct_: Struct, variable: str) -> None:
        for field in struct_.plain_fields(self.version):
            with self.out.inside(field.name):
                self._field(field, f"{variable}.{field.name}")
        if self.flexible:
            with self.out.inside("tagged fields"):
                self._tagged(struct_.tagged_fields(self.version), variable)

    def _tagged(self, fields: list[Field], variable: str) -> None:
        """Write the number of tagged fields with non-default values, and each with its tag and size."""
        out = self.out
        if not fields:
            self._fixed("x", "")
            return
        present = {field.name: self._differs(field, f"{variable}.{field.name}") for field in fields}
        out.line("n = " + " + ".join(f"({condition})" for condition in present.values()))
        self._fixed("B", "n")
        self._flush()
        with out.block("if n:"):
            for field in fields:
                with out.inside(field.name), out.block(f"if {present[field.name]}:"):
                    self._tagged_field(field, f"{variable}.{field.name}")

    def _tagged_field(self, field: Field, target: str) -> None:
        out = self.out
        self.depth += 1
        outer, pieces = f"w{self.depth}", f"pieces{self.depth}"
        out.line(f"{outer} = w; {pieces} = []; w = {pieces}.append")
        self._field(field, target)
        self._flush()
        out.line(f"w = {outer}; content = join({pieces})")
        out.line(f"w({uvarint_bytes(field.tag or 0)!r} + uvarint_bytes(len(content))); w(content)")
        self.depth -= 1

    def _differs(self, field: Field, target: str) -> str:
        """The condition, as Python source, under which a tagged field is written."""
        if field.default == "null":
            return f"{target} is not None"
        if field.is_array:
            nullable = self.version in field.nullable
            return f"{target} is None or len({target}) > 0" if nullable else f"len({target}) > 0"
        if field.struct is not None:
            parts = field.struct.fields
            if any(part.is_array or part.struct is not None for part in parts):
                default = self.out.constant(f"D_{field.type_name}", self.classes[field.type_name]())
                return f"{target} != {default}"
            return " or ".join(f"{target}.{part.name} != {part.default_value!r}" for part in parts)
        return f"{target} != {field.default_value!r}"

    # -- fields --------------------------------------------------------------------------------------------

    def _field(self, field: Field, target: str) -> None:
        if field.is_array:
            self._array(field, target)
        elif field.struct is not None:
            self._nested(field, target)
        elif field.type_name in FORMATS:
            if field.type_name == "uuid":  # struct would silently pad or cut it
                self.out.line(f"if len({target}) != 16: raise ValueError({UUID_SIZE_ERROR!r})")
            self._fixed(FORMATS[field.type_name], target)
        else:
            self._variable(field, target, self.version in field.nullable)

    def _nested(self, field: Field, target: str) -> None:
        assert field.struct is not None
        out = self.out
        self.depth += 1
        variable = f"o{self.depth}"
        if self.version in field.nullable:
            self._flush()
            out.line(f"{variable} = {target}")
            null = b"\xff" if field.tag is None else b"\0"
            out.line(f"if {variable} is None: w({null!r})")
            with out.block("else:"):
                self._fixed("b", "1")
                self._struct(field.struct, variable)
                self._flush()
        else:
            out.line(f"{variable} = {target}")
            self._struct(field.struct, variable)
        self.depth -= 1

    def _variable(self, field: Field, target: str, nullable: bool) -> None:
        """Write a string, bytes or records."""
        out = self.out
        compact = self.flexible and field.compact
        is_string = field.type_name == "string"
        length = "n = len(s) + 1" if compact else "n = len(s)"
        out.line(f"s = {target}")
        if nullable:
            out.line(f"if s is None: s = b''; n = {0 if compact else -1}")
            with out.block("else:"):
                if is_string:
                    out.line("s = s.encode()")
                out.line(length)
        else:
            if is_string:
                out.line("s = s.encode()")
            out.line(length)
        if is_string:
            self._length(field, "h", "string_length_bytes")
        else:
            self._length(field, "i")
        if field.type_name == "records":
            out.line("if type(s) not in BYTES_LIKE: foreign.append(len(parts))")
        out.line("w(s)")

    def _array(self, field: Field, target: str) -> None:
        out = self.out
        self.depth += 1
        items = f"l{self.depth}"
        one_more = " + 1" if self.flexible and field.compact else ""
        out.line(f"{items} = {target}")
        if self.version in field.nullable:
            out.line(f"if {items} is None: {items} = (); n = {0 if one_more else -1}")
            out.line(f"else: n = len({items}){one_more}")
        else:
            out.line(f"n = len({items}){one_more}")
        self._length(field, "i")
        if field.struct is None and field.type_name in FORMATS:
            self._fixed_elements(field, items)
        else:
            item = f"o{self.depth}"
            with out.block(f"for {item} in {items}:"):
                if field.struct is not None:
                    self._struct(field.struct, item)
                else:
                    self._variable(field, item, nullable=False)
                self._flush()
                if self.in_steps:
                    out.line(f"if len(parts) > step_end: step_end = len(parts) + {STEP_PIECES}; yield")
        self.depth -= 1

    def _fixed_elements(self, field: Field, items: str) -> None:
        code = FORMATS[field.type_name]
        if field.type_name == "uuid":
            self.out.line(
                f"if any(len(uuid) != 16 for uuid in {items}): raise ValueError({UUID_SIZE_ERROR!r})"
            )
            self.out.line(f"w(join({items}))")
            return
        few = [struct.Struct(f">{n}{code}").pack for n in range(_FAST_ARRAY)]
        name = self.out.constant(f"pack_few_{field.type_name}", few)
        with self.out.block(f"if len({items}) < {_FAST_ARRAY}:"):
            self.out.line(f"w({name}[len({items})](*{items}))")
        with self.out.block("else:"):
            self.out.line(f"w(pack(f'>{{len({items})}}{code}', *{items}))")


def compile_encoder(message: Message, version: int, classes: dict[str, type]) -> Encoder:
    """Compile ``encode(message, parts, foreign)``; ``classes`` maps names of the message and its structs."""
    return _EncoderCompiler(message, version, classes).compile()  # type: ignore[return-value]


def compile_encoder_in_steps(message: Message, version: int, classes: dict[str, type]) -> EncoderInSteps:
    """Compile like ``compile_encoder``, but into a generator function."""
    return _EncoderCompiler(message, version, classes, in_steps=True).compile()  # type: ignore[return-value]
